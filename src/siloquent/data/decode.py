"""Decoding of indices to declared values, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.data.sql.indices import SourceColumn
from siloquent.schema import Attribute

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import Kernel

MAX_LABELS = 2**16
"""Attributes with more cells are decoded by only the values in a batch."""
_TYPES = {"integer": "int64", "real": "float64", "category": "string", "boolean": "bool", "date": "date32"}


@dataclass(frozen=True, slots=True)
class Decoder:
    """A mapping from an engine's batch to one with the attributes' names, and with values unless ``encoded``.

    Texts and ids have no indices, so they are unchanged.
    """

    columns: tuple[SourceColumn, ...]
    encoded: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [self._decode_column(column, batch) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[column.attribute.name for column in self.columns])

    def _decode_column(self, column: SourceColumn, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa

        if not column.attribute.is_countable:
            return batch.column(column.read_name)
        places = batch.column(column.index_name)
        return places.cast(pa.int64()) if self.encoded else decode_values(column.attribute, places.to_numpy())


@dataclass(frozen=True, slots=True)
class DecodedKernel:
    """``kernel`` applied to decoded batches; a class, not a closure, so that engines can send it to other processes."""

    kernel: Kernel
    decoder: Decoder

    def __call__(self, batch: pa.RecordBatch) -> NDArray[Any]:
        return self.kernel(self.decoder(batch))


def decode_values(attribute: Attribute, places: NDArray[Any]) -> pa.Array:
    """Return the declared values at ``places``, an Arrow array of shape (rows,); NULL for OUTSIDE and NULL's cell.

    >>> decode_values(Attribute("smoker", "boolean", null="cell"), np.array([1, 2, -1, 0])).to_pylist()
    [True, None, None, False]
    """
    if attribute.size <= MAX_LABELS:
        return _list_labels(attribute).take(_build_indices(places, attribute.size))
    distinct, back = np.unique(places, return_inverse=True)
    return _build_array(attribute, distinct.tolist()).take(_build_indices(back, len(distinct)))


@lru_cache(maxsize=512)
def _list_labels(attribute: Attribute) -> pa.Array:
    return _build_array(attribute, [*range(attribute.size), -1])


def _build_array(attribute: Attribute, places: Sequence[int]) -> pa.Array:
    import pyarrow as pa

    kind = pa.timestamp("us") if attribute.kind == "datetime" else pa.type_for_alias(_TYPES[attribute.kind])
    return pa.array([attribute.label(place) if place >= 0 else None for place in places], kind)


def _build_indices(places: NDArray[Any], last: int) -> pa.Array:
    """Return ``places`` with OUTSIDE replaced by ``last``, the position of the label NULL."""
    import pyarrow as pa

    return pa.array(np.where(places < 0, last, places).astype(np.int64))
