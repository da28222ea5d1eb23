"""Arrow, pandas and polars objects as sources: one Arrow table, without a copy where the object allows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import Limits, quiet
from siloquent.data.sources.objects import had_whole_numbers, has_objects, texts_of
from siloquent.errors import SchemaError
from siloquent.schema.reading import EARLIEST, LATEST, microseconds

if TYPE_CHECKING:
    import pyarrow as pa

_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "ZULU", "+00:00")


def arrow_table(
    frame: Any, limits: Limits, columns: Iterable[str], *, table: str, by_text: Iterable[str] = ()
) -> pa.Table:
    """``frame`` as an Arrow table.

    Args:
        columns: The columns that will be read.
        by_text: Those of them whose values are told apart by their texts: ids and categories.
        frame: A pyarrow table, batch or reader; a pandas, polars or other frame that narwhals knows, lazy ones too; or
            any object with ``__arrow_c_stream__``.
    Raises:
        SchemaError: It is none of these, or has two columns of one name, or too many.
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
    result = quiet(_converted)(frame, known, columns, {column.casefold() for column in by_text})
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


def _readable(table: pa.Table, wanted: set[str]) -> pa.Table:
    """``table`` with ``wanted`` columns that can be read to the end, whatever stands in their rows."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if field.name.casefold() not in wanted:
            continue
        column = table.column(i)
        if pa.types.is_dictionary(field.type) and _is_text(field.type.value_type):
            column = pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks], field.type.value_type)
        if _is_text(column.type):
            column = valid_texts(column)
        if pa.types.is_date64(column.type):  # one that is no whole day is not valid, and takes all rows along
            column = pa.chunked_array([one.view(pa.timestamp("ms")) for one in column.chunks], pa.timestamp("ms"))
        # Buffers that point beyond their end would be read there.
        column.validate(full=True)
        if pa.types.is_timestamp(column.type) and column.type.unit in ("s", "ms"):
            column = _within_years(column)
        table = table.set_column(i, field.with_type(column.type), column)
    return table


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def valid_texts(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """``texts``, those that are not UTF-8 as NULL: DuckDB and Python fail over such a one, and with it over all rows.

    Raises:
        ArrowInvalid: Offsets point beyond the text.
    """
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = {pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}.get(texts.type, pa.binary())
        chunks = []
        for chunk in texts.chunks:
            whole = chunk.view(raw)
            whole.validate(full=True)
            chunks.append(pa.array([_decoded(value) for value in whole.to_pylist()], texts.type))
        return pa.chunked_array(chunks, texts.type)
    return texts


def _decoded(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


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


def _converted(frame: Any, known: Any, wanted: set[str], by_text: set[str]) -> pa.Table:
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if isinstance(known, nw.LazyFrame):
        known = known.collect()
    if not isinstance(known, nw.DataFrame):
        return frame if isinstance(frame, pa.Table) else pa.RecordBatchReader.from_stream(frame).read_all()
    native = {name: nw.to_native(known[name]) for name in known.columns}
    objects = [name for name, column in native.items() if has_objects(column.dtype)]
    floats = [n for n, column in native.items() if n.casefold() in by_text and had_whole_numbers(column.dtype)]
    texts = {
        name: texts_of(native[name].to_list()) if name.casefold() in wanted else pa.nulls(len(known))
        for name in (*objects, *floats)
    }
    if not texts:
        return known.to_arrow()
    rest = known.drop(list(texts))
    typed = rest.to_arrow() if rest.columns else None
    columns = {name: texts[name] if name in texts else typed.column(name) for name in known.columns}  # type: ignore[union-attr]
    return pa.table(columns)
