"""Arrow, pandas and polars objects as sources: one Arrow table, without a copy where the object allows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import Limits, quiet
from siloquent.errors import SchemaError
from siloquent.schema.reading import EARLIEST, LATEST, microseconds

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_table(frame: Any, limits: Limits, columns: Iterable[str], *, table: str) -> pa.Table:
    """``frame`` as an Arrow table.

    Args:
        columns: The columns that will be read.
        frame: A pyarrow table, batch or reader; a pandas, polars or other frame that narwhals knows, lazy ones too; or
            any object with ``__arrow_c_stream__``.
    Raises:
        SchemaError: It is none of these, or has two columns of one name, or too many.
        DataError: It cannot be turned into Arrow, such as a column of mixed types, or its buffers are not right.
    """
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    known = quiet(_known)(frame)
    if not isinstance(known, (nw.DataFrame, nw.LazyFrame)) and not hasattr(frame, "__arrow_c_stream__"):
        raise SchemaError(
            f"The frame of {table!r} is {type(frame).__name__}; expected an Arrow, pandas or polars table.",
            fix="pyarrow.table({...}), or give the table a source",
        )
    result = quiet(_converted)(frame, known)
    assert isinstance(result, pa.Table)
    folded = [name.casefold() for name in result.column_names]
    if len(set(folded)) != len(folded):
        raise SchemaError(f"The frame of {table!r} has two columns of one name (case does not count).")
    if len(folded) > limits.columns:
        raise SchemaError(f"The frame of {table!r} has {len(folded):,} columns; the most is {limits.columns:,}.")
    return quiet(_readable)(result, {column.casefold() for column in columns})


def _readable(table: pa.Table, wanted: set[str]) -> pa.Table:
    """``table`` with ``wanted`` columns that can be read to the end, whatever stands in their rows."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if field.name.casefold() not in wanted:
            continue
        # Buffers that point beyond their end would be read there, and a text that is no UTF-8 fails only over rows.
        table.column(i).validate(full=True)
        if pa.types.is_timestamp(field.type) and field.type.unit in ("s", "ms"):
            table = table.set_column(i, field, _within_years(table.column(i)))
    return table


def _within_years(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Moments before and after all years as the first and last moment, as ``read_moment`` reads them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    step = 1_000_000 if moments.type.unit == "s" else 1_000
    options = pc.ElementWiseAggregateOptions(skip_nulls=False)
    late = pc.max_element_wise(moments.cast(pa.int64()), microseconds(EARLIEST) // step, options=options)
    return pc.min_element_wise(late, microseconds(LATEST) // step, options=options).cast(moments.type)


def _known(frame: Any) -> Any:
    """``frame`` as narwhals sees it; Arrow's own tables as they are, since narwhals refuses some of them."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    return frame if isinstance(frame, (pa.Table, pa.RecordBatch)) else nw.from_native(frame, pass_through=True)


def _converted(frame: Any, known: Any) -> pa.Table:
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if isinstance(known, nw.LazyFrame):
        known = known.collect()
    if isinstance(known, nw.DataFrame):
        return known.to_arrow()
    return frame if isinstance(frame, pa.Table) else pa.RecordBatchReader.from_stream(frame).read_all()
