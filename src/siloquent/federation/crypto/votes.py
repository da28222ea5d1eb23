"""The AND of the parties' votes on many candidates, and nothing else: additive ElGamal under the workers' joint key.

A yes is an encryption of zero, a no two random elements. W_1 adds the parties' pairs; every worker takes its share of
the key off and, but for the last one, multiplies the pair by a fresh number. What is left is zero just if all said yes.
The multiplication is what keeps a party that said no from seeing whether everybody else said yes.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import IDENTITY, Group, split
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import scalars_of

PAIR = 2 * POINT


def joint_key(group: Group, publics: Sequence[bytes]) -> bytes:
    """The sum of the workers' public keys, each of which was proven (``proofs.verify``)."""
    total = publics[0]
    for public in publics[1:]:
        total = group.plus(total, public)
    if total == IDENTITY:
        raise ProtocolError("bad_encoding")
    return total


def cast(group: Group, votes: Sequence[bool], key: bytes, *, seed: bytes, session: bytes, level: int) -> bytes:
    """A party's ballots, 64 bytes a candidate: (rG, rK) for yes; (rG, sK) with another number s, so any pair, for no.

    Privacy:
        Input privacy: under the decisional Diffie-Hellman assumption yes and no look alike to all workers but one. Both
        take the same multiplications.
    """
    count = len(votes)
    numbers = scalars_of(group, seed, "ballot", session, level, count=count)
    others = scalars_of(group, seed, "no", session, level, count=count)
    chosen = b"".join(r if yes else s for yes, r, s in zip(votes, split(numbers), split(others), strict=True))
    return zipped(group.base(numbers), group.times_each(key * count, chosen))


def added(group: Group, ballots: Sequence[bytes], count: int) -> bytes:
    """The first worker's sum of all parties' ballots.

    Raises:
        ProtocolError: ``batch_size``, ``bad_encoding``.
    """
    total = b""
    for ballot in ballots:
        checked_pairs(group, ballot, count)
        total = group.plus(total, ballot) if total else ballot
    return total


def checked_pairs(group: Group, pairs: bytes, count: int) -> None:
    """Refuse what are not ``count`` pairs of elements; sums of bad encodings would pass for a zero."""
    if len(pairs) != PAIR * count:
        raise ProtocolError("batch_size")
    group.check(pairs, distinct=False)
    group.require_decodable(pairs)


def opened(
    group: Group, pairs: bytes, key: bytes, *, seed: bytes | None, session: bytes, level: int
) -> tuple[bytes, ...]:
    """A worker's step: its key's share out of every pair, then both halves times a fresh number.

    Args:
        pairs: Checked ones.
        seed: Where the fresh numbers come from; None for the last worker, which needs none.
    Returns:
        The pairs' first and second halves, as two batches.
    """
    first, second = halves(pairs)
    second = group.minus(second, group.times(first, key))
    if seed is None:
        return first, second
    fresh = scalars_of(group, seed, "ballot factor", session, level, count=len(first) // POINT)
    return group.times_each(first, fresh), group.times_each(second, fresh)


def verdicts(second: bytes) -> list[bool]:
    """For each candidate whether all parties said yes, of the last worker's second halves."""
    return [element == IDENTITY for element in split(second)]


def halves(pairs: bytes) -> tuple[bytes, bytes]:
    """First and second halves of pairs, as two batches."""
    elements = split(pairs)
    return b"".join(elements[::2]), b"".join(elements[1::2])


def zipped(first: bytes, second: bytes) -> bytes:
    """Pairs again, of two batches."""
    return b"".join(a + b for a, b in zip(split(first), split(second), strict=True))
