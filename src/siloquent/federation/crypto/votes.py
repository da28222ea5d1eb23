"""The AND of the parties' votes on many candidates, and nothing else: additive ElGamal under the workers' joint key.

A yes is an encryption of a number that adds up to zero with the numbers of all other parties; a no is two random
elements. W_1 adds the parties' pairs; every worker removes its share of the key and, except the last one, multiplies
the pair by a fresh number. The result is zero exactly if all voted yes. The multiplication keeps a party that voted
no from seeing whether all others voted yes; the numbers prevent counting a subset of the parties, or votes on different
questions.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import IDENTITY, Group, split
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import derive_scalars

PAIR = 2 * POINT


def compute_joint_key(group: Group, publics: Sequence[bytes]) -> bytes:
    """Return the sum of the workers' public keys, each of which was proven (``proofs.verify``)."""
    total = publics[0]
    for public in publics[1:]:
        total = group.add_points(total, public)
    if total == IDENTITY:
        raise ProtocolError("bad_encoding")
    return total


def derive_vote_blinding(
    group: Group, secret: bytes, place: int, parties: int, *, session: bytes, told: bytes, level: int, count: int
) -> bytes:
    """Derive one number per candidate for party ``place``; over all parties with equal ``told`` they add up to 0.

    Args:
        secret: A secret known to all parties and to no other role.
        told: A digest of all of the moderator's messages, 32 bytes.
    """

    def drawn(party: int) -> bytes:
        return derive_scalars(group, secret, "vote tie", session + told, level, party % parties, count=count)

    pairs = zip(split(drawn(place)), split(drawn(place + 1)), strict=True)
    return b"".join(group.subtract_scalars(own, other) for own, other in pairs)


def cast(
    group: Group, votes: Sequence[bool], key: bytes, *, seed: bytes, session: bytes, level: int, tied: bytes
) -> bytes:
    """Return a party's ballots, 64 bytes per candidate: (rG, (r + t)K) for yes; (rG, (s + t)K), a random pair, for no.

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
    """Add all parties' ballots, as the first worker does.

    Raises:
        ProtocolError: ``batch_size``, ``bad_encoding``.
    """
    total = b""
    for ballot in ballots:
        require_pairs(group, ballot, count)
        total = group.add_points(total, ballot) if total else ballot
    return total


def require_pairs(group: Group, pairs: bytes, count: int) -> None:
    """Check that ``pairs`` are ``count`` pairs of elements; sums of invalid encodings would pass for a zero."""
    if len(pairs) != PAIR * count:
        raise ProtocolError("batch_size")
    group.check(pairs, distinct=False)
    group.require_decodable(pairs)


def open_pairs(
    group: Group, pairs: bytes, key: bytes, *, seed: bytes | None, session: bytes, level: int
) -> tuple[bytes, ...]:
    """Run a worker's step: remove its key's share from every pair, then multiply both halves by a fresh number.

    Args:
        pairs: Pairs that were checked.
        seed: The source of the fresh numbers; None for the last worker, which needs none.
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
    """Return for each candidate whether all parties voted yes, from the last worker's second halves."""
    return [element == IDENTITY for element in split(second)]


def split_halves(pairs: bytes) -> tuple[bytes, bytes]:
    """Split pairs into first and second halves, as two batches."""
    elements = split(pairs)
    return b"".join(elements[::2]), b"".join(elements[1::2])


def zip_pairs(first: bytes, second: bytes) -> bytes:
    """Join two batches of halves into pairs."""
    return b"".join(a + b for a, b in zip(split(first), split(second), strict=True))
