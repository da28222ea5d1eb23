"""Arrow, pandas and polars objects as sources: one Arrow table, without a copy where the object allows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import Limits, quiet
from siloquent.errors import SchemaError
from siloquent.schema.reading import EARLIEST, LATEST, microseconds

if TYPE_CHECKING:
    import pyarrow as pa

_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "ZULU", "+00:00")


def arrow_table(frame: Any, limits: Limits, columns: Iterable[str], *, table: str) -> pa.Table:
    """``frame`` as an Arrow table.

    Args:
        columns: The columns that will be read.
        frame: A pyarrow table, batch or reader; a pandas, polars or other frame that narwhals knows, lazy ones too; or
            any object with ``__arrow_c_stream__``.
    Raises:
        SchemaError: It is none of these, or has two columns of one name, or too many, or one of mixed types.
        DataError: It cannot be turned into Arrow otherwise, or its buffers are not right.
    """
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if type(frame).__module__.startswith("pandas") and getattr(frame.columns, "nlevels", 1) > 1:
        raise SchemaError(
            f"The frame of {table!r} has columns of several levels (a pandas MultiIndex); expected one name a column.",
            fix='frame.columns = ["_".join(map(str, levels)) for levels in frame.columns]',
        )
    known = quiet(_known)(frame)
    if not isinstance(known, (nw.DataFrame, nw.LazyFrame)) and not hasattr(frame, "__arrow_c_stream__"):
        raise SchemaError(
            f"The frame of {table!r} is {type(frame).__name__}; expected an Arrow, pandas or polars table.",
            fix="pyarrow.table({...}), or give the table a source",
        )
    columns = {column.casefold() for column in columns}
    if isinstance(known, nw.DataFrame):
        _require_pure(known, columns, table=table)
    result = quiet(_converted)(frame, known)
    assert isinstance(result, pa.Table)
    folded = [name.casefold() for name in result.column_names]
    if len(set(folded)) != len(folded):
        raise SchemaError(f"The frame of {table!r} has two columns of one name (case does not count).")
    if len(folded) > limits.columns:
        raise SchemaError(f"The frame of {table!r} has {len(folded):,} columns; the most is {limits.columns:,}.")
    _require_utc(result, columns, table=table)
    return quiet(_readable)(result, columns)


def _require_utc(frame: pa.Table, wanted: set[str], *, table: str) -> None:
    """Refuse moments of another time zone: read in UTC, they would fall on another day or month than they show."""
    import pyarrow as pa

    for field in frame.schema:
        zone = field.type.tz if pa.types.is_timestamp(field.type) else None
        if field.name.casefold() in wanted and zone and zone.upper() not in _UTC:
            raise SchemaError(
                f"The column {field.name!r} in the frame of {table!r} holds moments of the time zone {zone}; expected "
                "moments without a zone, or in UTC.",
                fix=f'frame["{field.name}"] = frame["{field.name}"].dt.tz_localize(None) keeps the local time',
            )


def _require_pure(frame: Any, wanted: set[str], *, table: str) -> None:
    """Refuse a column of Python objects that Arrow has no one type for; whose frame it is sees its values anyway."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    for name, kind in frame.collect_schema().items():
        if kind != nw.Object or name.casefold() not in wanted:
            continue
        try:
            frame[name].to_arrow()
        except (pa.ArrowException, TypeError, ValueError):
            error = SchemaError(
                f"The column {name!r} in the frame of {table!r} holds values of mixed types.",
                fix=f'give it one type, as with frame["{name}"].astype("string"), before it is handed over',
            )
        else:
            continue
        error.__suppress_context__ = True
        raise error


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
