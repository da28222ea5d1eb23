"""The AND of the parties' votes on many candidates, and nothing else: additive ElGamal under the workers' joint key.

A yes is an encryption of a number that, with those of all other parties, makes zero; a no is two random elements. W_1
adds the parties' pairs; every worker takes its share of the key off and, but for the last one, multiplies the pair by a
fresh number. What is left is zero just if all said yes. The multiplication is what keeps a party that said no from
seeing whether everybody else said yes; the numbers keep everybody from counting fewer than all, or votes on two things.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import IDENTITY, Group, split
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import derive_scalars

PAIR = 2 * POINT


def compute_joint_key(group: Group, publics: Sequence[bytes]) -> bytes:
    """The sum of the workers' public keys, each of which was proven (``proofs.verify``)."""
    total = publics[0]
    for public in publics[1:]:
        total = group.add_points(total, public)
    if total == IDENTITY:
        raise ProtocolError("bad_encoding")
    return total


def derive_vote_blinding(
    group: Group, secret: bytes, place: int, parties: int, *, session: bytes, told: bytes, level: int, count: int
) -> bytes:
    """One number a candidate for party number ``place``: over all parties that were ``told`` the same they add up to 0.

    Args:
        secret: What all parties and nobody else know.
        told: A digest of all that the moderator said, of 32 bytes.
    """

    def drawn(party: int) -> bytes:
        return derive_scalars(group, secret, "vote tie", session + told, level, party % parties, count=count)

    pairs = zip(split(drawn(place)), split(drawn(place + 1)), strict=True)
    return b"".join(group.subtract_scalars(own, other) for own, other in pairs)


def cast(
    group: Group, votes: Sequence[bool], key: bytes, *, seed: bytes, session: bytes, level: int, tied: bytes
) -> bytes:
    """A party's ballots, 64 bytes a candidate: (rG, (r + t)K) for yes; (rG, (s + t)K), so any pair, for no.

    Args:
        tied: This party's t of ``derive_vote_blinding``: without every party's ballot, or if the parties were told
            different things, every vote reads as no.
    Privacy:
        Input privacy: under the decisional Diffie-Hellman assumption yes and no look alike to all workers but one. Both
        take the same multiplications.
    """
    count = len(votes)
    numbers = derive_scalars(group, seed, "ballot", session, level, count=count)
    others = derive_scalars(group, seed, "no", session, level, count=count)
    drawn = zip(votes, split(numbers), split(others), split(tied), strict=True)
    chosen = b"".join(group.add_scalars(r if yes else s, tie) for yes, r, s, tie in drawn)
    return zip_pairs(group.multiply_base(numbers), group.multiply_each(key * count, chosen))


def add_ballots(group: Group, ballots: Sequence[bytes], count: int) -> bytes:
    """The first worker's sum of all parties' ballots.

    Raises:
        ProtocolError: ``batch_size``, ``bad_encoding``.
    """
    total = b""
    for ballot in ballots:
        require_pairs(group, ballot, count)
        total = group.add_points(total, ballot) if total else ballot
    return total


def require_pairs(group: Group, pairs: bytes, count: int) -> None:
    """Refuse what are not ``count`` pairs of elements; sums of bad encodings would pass for a zero."""
    if len(pairs) != PAIR * count:
        raise ProtocolError("batch_size")
    group.check(pairs, distinct=False)
    group.require_decodable(pairs)


def open_pairs(
    group: Group, pairs: bytes, key: bytes, *, seed: bytes | None, session: bytes, level: int
) -> tuple[bytes, ...]:
    """A worker's step: its key's share out of every pair, then both halves times a fresh number.

    Args:
        pairs: Checked ones.
        seed: Where the fresh numbers come from; None for the last worker, which needs none.
    Returns:
        The pairs' first and second halves, as two batches.
    """
    first, second = split_halves(pairs)
    second = group.subtract_points(second, group.multiply_points(first, key))
    if seed is None:
        return first, second
    fresh = derive_scalars(group, seed, "ballot factor", session, level, count=len(first) // POINT)
    return group.multiply_each(first, fresh), group.multiply_each(second, fresh)


def read_verdicts(second: bytes) -> list[bool]:
    """For each candidate whether all parties said yes, of the last worker's second halves."""
    return [element == IDENTITY for element in split(second)]


def split_halves(pairs: bytes) -> tuple[bytes, bytes]:
    """First and second halves of pairs, as two batches."""
    elements = split(pairs)
    return b"".join(elements[::2]), b"".join(elements[1::2])


def zip_pairs(first: bytes, second: bytes) -> bytes:
    """Pairs again, of two batches."""
    return b"".join(a + b for a, b in zip(split(first), split(second), strict=True))
