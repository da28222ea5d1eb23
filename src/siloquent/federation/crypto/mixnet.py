"""A mix network of re-randomised ElGamal pairs: the thesis' protocol on a sound group.

A party sends (rG, H(v) + rK) for each value v. Every worker removes its share of the key, multiplies both halves by
its own number k_j, adds a fresh encryption of zero under the remaining keys, and shuffles all parties' pairs
together. The last worker outputs tags k_1 ... k_w H(v) that cannot be linked to their senders.
"""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import SCALAR, Group
from siloquent.federation.crypto.permute import permute_batch
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import derive, derive_scalar, derive_scalars
from siloquent.federation.crypto.votes import PAIR, split_halves, zip_pairs


def encrypt_points(
    group: Group, points: bytes, key: bytes, *, seed: bytes, session: bytes, query: int, label: str
) -> bytes:
    """Encrypt each element of ``points`` under the joint ``key``; one pair each."""
    count = len(points) // POINT
    numbers = derive_scalars(group, seed, f"{label} pair", session, query, count=count)
    return zip_pairs(group.multiply_base(numbers), group.add_points(points, group.multiply_each(key * count, numbers)))


def encode_number(group: Group, value: int) -> bytes:
    """Encode a number as ``value`` G, for addition under encryption."""
    scalar = abs(value).to_bytes(SCALAR, "little")
    return group.multiply_base(scalar if value >= 0 else group.subtract_scalars(bytes(SCALAR), scalar))


def pool_pairs(group: Group, lots: Sequence[bytes], most: int) -> bytes:
    """Join all parties' pairs in one batch, after checking each lot.

    Raises:
        ProtocolError: ``batch_size``: a lot of more than ``most`` pairs; ``bad_encoding``.
    """
    for lot in lots:
        check_pairs(group, lot, most)
    return b"".join(lots)


def check_pairs(group: Group, pairs: bytes, most: int) -> None:
    """Check that ``pairs`` are at most ``most`` pairs of elements."""
    if len(pairs) % PAIR or len(pairs) > most * PAIR:
        raise ProtocolError("batch_size")
    group.check(pairs, distinct=False)
    group.require_decodable(pairs)


def mix_pairs(
    group: Group,
    pairs: bytes,
    key: bytes,
    behind: bytes | None,
    *,
    seed: bytes,
    session: bytes,
    query: int,
    label: str,
) -> bytes:
    """Run a worker's step on a batch of pairs.

    Args:
        key: This worker's own key; its share of the joint key is removed.
        behind: The sum of the public keys of the later workers; None for the last worker.
    Returns:
        Shuffled pairs; after the last worker only shuffled tags.
    """
    first, second = split_halves(pairs)
    count = len(first) // POINT
    second = group.subtract_points(second, group.multiply_points(first, key))
    factor = derive_scalar(group, seed, f"{label} key", session, query)
    order = derive(seed, f"{label} order", session, query)
    if behind is None:
        return permute_batch(_multiply_or_zero(group, second, factor), order)
    fresh = derive_scalars(group, seed, f"{label} fresh", session, query, count=count)
    first = group.add_points(group.multiply_points(first, factor), group.multiply_base(fresh))
    second = group.add_points(group.multiply_points(second, factor), group.multiply_each(behind * count, fresh))
    return permute_batch(zip_pairs(first, second), order, width=PAIR)


def _multiply_or_zero(group: Group, batch: bytes, factor: bytes) -> bytes:
    """Multiply elements of which some may be the identity; sums that are zero stay zero."""
    zero = bytes(POINT)
    elements = [batch[at : at + POINT] for at in range(0, len(batch), POINT)]
    return b"".join(zero if element == zero else group.multiply_points(element, factor) for element in elements)
