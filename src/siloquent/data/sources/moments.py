"""Times beyond the range of engines, clamped to the first and last time, since an engine fails for all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siloquent.schema.files.coercion import EARLIEST, LATEST, count_microseconds

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"s": 1_000_000, "ms": 1_000}
_NANOSECONDS = 1_000


def is_moment(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of times, days, times of day or durations."""
    import pyarrow as pa

    return bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def bound_moments(moments: pa.ChunkedArray, *, is_id: bool) -> pa.ChunkedArray:
    """Return times within years 1 to 9999 and in whole microseconds, as ``read_datetime`` reads them.

    Args:
        is_id: They are only compared for equality, so they become whole numbers of their unit: clamped, two would be
            one user.
    """
    import pyarrow as pa

    if is_id:
        width = pa.int32() if moments.type.bit_width == pa.int32().bit_width else pa.int64()
        return pa.chunked_array([one.view(width) for one in moments.chunks], width)
    if not pa.types.is_timestamp(moments.type):
        return moments
    if moments.type.unit in _UNITS:
        return _clamp_years(moments)
    return _truncate_to_microseconds(moments) if moments.type.unit == "ns" else moments


def _clamp_years(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace times before and after all years by the first and last time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    step = _UNITS[moments.type.unit]
    options = pc.ElementWiseAggregateOptions(skip_nulls=False)
    late = pc.max_element_wise(moments.cast(pa.int64()), count_microseconds(EARLIEST) // step, options=options)
    return pc.min_element_wise(late, count_microseconds(LATEST) // step, options=options).cast(moments.type)


def _truncate_to_microseconds(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Truncate nanoseconds: an engine's rounding would move the last moment of a day to the next day."""
    import numpy as np
    import pyarrow as pa

    chunks = []
    for chunk in moments.chunks:
        whole = chunk.view(pa.int64())
        # The least number has no whole microsecond below it.
        values = np.maximum(whole.fill_null(0).to_numpy(), np.iinfo(np.int64).min + _NANOSECONDS)
        cut = pa.array(values - values % _NANOSECONDS, mask=whole.is_null().to_numpy(zero_copy_only=False))
        chunks.append(cut.view(moments.type))
    return pa.chunked_array(chunks, moments.type)
