"""Several batches in one message: a count of 4 bytes before each, so that a reader can check the agreed sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from siloquent.errors import ProtocolError
from siloquent.federation.crypto.points import POINT

_COUNT = 4


def join_batches(batches: Iterable[bytes]) -> bytes:
    """Join the batches, each with its count of elements."""
    return b"".join((len(batch) // POINT).to_bytes(_COUNT, "big") + batch for batch in batches)


def split_batches(message: bytes, most: Sequence[int], *, exact: bool) -> list[bytes]:
    """Split a message into its batches.

    Args:
        most: The maximal number of elements of each batch, in order; the number of batches must be equal to its length.
        exact: Whether each must hold exactly that many.
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


def split_all_batches(message: bytes) -> list[bytes]:
    """Split the batches that this role joined itself: their sizes need no check."""
    batches, at = [], 0
    while at < len(message):
        end = at + _COUNT + POINT * int.from_bytes(message[at : at + _COUNT], "big")
        batches.append(message[at + _COUNT : end])
        at = end
    return batches
