"""Count the values that parties share: parties blind their sets, workers replace the blinding by keys, the last counts.

Party i sends r_i H(v) for each value v; r_i is a product of one factor for each worker j, which both derive from a
shared seed. Worker j multiplies by k_j / r_ij and shuffles. After the last worker every value has become
k_1 ... k_w H(v), for every sender: equal values, and no others, are equal. Random filling elements match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.group import Group
from siloquent.federation.crypto.hashing import hash_to_group
from siloquent.federation.crypto.permute import permute_batch
from siloquent.federation.crypto.points import POINT, view_rows
from siloquent.federation.crypto.seeds import derive, derive_scalar

_FILLING = b"siloquent/filling/1"


def blind_batch(
    group: Group,
    hashed: bytes,
    size: int,
    *,
    shared: Sequence[bytes],
    own: bytes,
    session: bytes,
    query: int,
    attempt: int = 0,
) -> bytes:
    """Blind a party's batch: ``hashed``, filled up to ``size`` with random elements, times its factor, shuffled.

    Filling elements are made like values, so that the time does not depend on the number of values.

    Args:
        hashed: One element for each different value, none twice.
        size: The number of elements sent, independent of the number of values.
        shared: The seed shared with each worker, in their order.
        own: The party's own seed.
    Privacy:
        Input privacy: without one worker's seed and key the batch looks like ``size`` random elements.
    """
    missing = size - len(hashed) // POINT
    if missing < 0:
        raise ProtocolError("batch_size")
    factor = _derive_blinding(group, shared[0], session, query, attempt)
    for seed in shared[1:]:
        factor = group.multiply_scalars(factor, _derive_blinding(group, seed, session, query, attempt))
    made_up = (derive(own, "padding", session, query, attempt, index) for index in range(missing))
    filled = hashed + hash_to_group(group, made_up, _FILLING)
    return permute_batch(group.multiply_points(filled, factor), derive(own, "order", session, query, attempt))


def hop(
    group: Group,
    batch: bytes,
    *,
    shared: bytes,
    own: bytes,
    session: bytes,
    query: int,
    attempt: int = 0,
    party: int,
) -> bytes:
    """Run a worker's step on one party's batch: replace the shared factor by the worker's key, and shuffle.

    Raises:
        ProtocolError: ``bad_encoding``, ``duplicate_points``: not a batch of distinct elements.
    """
    group.check(batch)
    factor = group.invert_scalar(_derive_blinding(group, shared, session, query, attempt))
    exponent = group.multiply_scalars(derive_scalar(group, own, "key", session, query, attempt), factor)
    return permute_batch(group.multiply_points(batch, exponent), derive(own, "order", session, query, attempt, party))


def tally(batches: Sequence[bytes]) -> NDArray[np.int64]:
    """Compute n_k, the number of values held by exactly k parties; shape (parties,), n_1 first.

    Args:
        batches: One per party, after the last worker.
    Raises:
        ProtocolError: ``duplicate_points``: one party's batch holds an element twice.
    """
    rows = [np.unique(view_rows(batch)) for batch in batches]
    if any(len(row) * POINT != len(batch) for row, batch in zip(rows, batches, strict=True)):
        raise ProtocolError("duplicate_points")
    _, held_by = np.unique(np.concatenate(rows), return_counts=True)
    return np.bincount(held_by, minlength=len(batches) + 1)[1:].astype(np.int64)


def _derive_blinding(group: Group, seed: bytes, session: bytes, query: int, attempt: int) -> bytes:
    return derive_scalar(group, seed, "blind", session, query, attempt)
