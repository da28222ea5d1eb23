"""Several batches in one message: a count of 4 bytes before each, so that a reader can check what it was promised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.points import POINT

_COUNT = 4


def join_batches(batches: Iterable[bytes]) -> bytes:
    """The batches one after the other, each with its count of elements."""
    return b"".join((len(batch) // POINT).to_bytes(_COUNT, "big") + batch for batch in batches)


def split_batches(message: bytes, most: Sequence[int], *, exact: bool) -> list[bytes]:
    """The batches of a message.

    Args:
        most: How many elements each may hold, in order; as many batches must be there.
        exact: Whether each must hold just that many.
    Raises:
        ProtocolError: ``batch_size``: another number of batches or elements than agreed.
    """
    batches, at = [], 0
    for limit in most:
        count = int.from_bytes(message[at : at + _COUNT], "big")
        end = at + _COUNT + POINT * count
        if at + _COUNT > len(message) or end > len(message) or count > limit or (exact and count != limit):
            raise ProtocolError("batch_size")
        batches.append(message[at + _COUNT : end])
        at = end
    if at != len(message):
        raise ProtocolError("batch_size")
    return batches
