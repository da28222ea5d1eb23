"""Arrow, pandas and polars objects as sources: one Arrow table, without a copy where the object allows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import ReadLimits, hide_failures
from siloquent.data.sources.moments import bound_moments, is_moment
from siloquent.data.sources.objects import format_texts
from siloquent.data.sources.pandas import convert_pandas_column
from siloquent.data.sources.text.texts import is_text, keep_valid_texts
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

_UTC = ("UTC", "ETC/UTC", "GMT", "Z", "ZULU", "+00:00")


def convert_to_arrow(
    frame: Any,
    limits: ReadLimits,
    columns: Mapping[str, str],
    *,
    table: str,
    zoned: Collection[str] = (),
) -> pa.Table:
    """Return ``frame`` as an Arrow table; columns that are not read are NULL.

    Args:
        columns: The columns that will be read, and the kinds of their attributes.
        frame: A pyarrow table, batch or reader; a pandas, polars or other frame supported by narwhals, also lazy; or
            any object with ``__arrow_c_stream__``.
        zoned: Columns with a declared time zone, in lower case.
    Raises:
        SchemaError: it is of another type, has repeated or too many columns, or one of an unsupported type.
        DataError: it cannot be converted to Arrow otherwise, or its buffers are invalid.
    """
    import narwhals.stable.v2 as nw

    headings = getattr(frame, "columns", None) if type(frame).__module__.startswith("pandas") else None
    if getattr(headings, "nlevels", 1) > 1:
        raise SchemaError(
            f"The frame of {table!r} has columns of several levels (a pandas MultiIndex); expected one name per "
            "column.",
            fix='frame.columns = ["_".join(map(str, levels)) for levels in frame.columns]',
        )
    if headings is not None and not all(isinstance(name, str) for name in headings):
        raise SchemaError(
            f"The frame of {table!r} has columns whose names are not texts, such as the numbers of a file without a "
            "header.",
            fix="frame.columns = [str(name) for name in frame.columns]",
        )
    known = hide_failures(_wrap_frame)(frame)
    is_column = type(frame).__name__ in ("Series", "ChunkedArray")  # these stream single values instead of rows
    is_stream = hasattr(frame, "__arrow_c_stream__") and not is_column and not isinstance(frame, type)
    if not isinstance(known, (nw.DataFrame, nw.LazyFrame)) and not is_stream:
        raise SchemaError(
            f"The frame of {table!r} is {type(frame).__name__}; expected an Arrow, pandas or polars table.",
            fix="pyarrow.table({...}), or give the table a source",
        )
    kinds = {column.casefold(): kind for column, kind in columns.items()}
    opened = hide_failures(_open)(known)
    folded = [name.casefold() for name in hide_failures(_names)(opened)]
    if len(set(folded)) != len(folded):
        raise SchemaError(f"The frame of {table!r} has two columns with the same name (case is ignored).")
    if len(folded) > limits.columns:
        raise SchemaError(f"The frame of {table!r} has {len(folded):,} columns; the limit is {limits.columns:,}.")
    result = hide_failures(_convert_frame)(opened, kinds, table)
    _require_types(result, kinds, zoned, table=table)
    return hide_failures(_make_readable)(result, kinds)


def _require_types(frame: pa.Table, kinds: Mapping[str, str], zoned: Collection[str], *, table: str) -> None:
    """Refuse times of another time zone, and ids that are lists or structures, by their types.

    Read in UTC, such times would fall on another day or month than they show. A text within a list cannot be checked
    separately, so an invalid one would invalidate all rows.
    """
    import pyarrow as pa

    for field in frame.schema:
        kind = kinds.get(field.name.casefold(), "")
        if not kind:
            continue
        if kind == "id" and pa.types.is_nested(_get_value_type(field.type)):
            raise SchemaError(
                f"The column {field.name!r} in the frame of {table!r} holds {field.type}; an id must be one value "
                "per row.",
                fix="keep one value per row, or remove the attribute",
            )
        zone = field.type.tz if pa.types.is_timestamp(field.type) else None
        if zone and zone.upper() not in _UTC and field.name.casefold() not in zoned:
            raise SchemaError(
                f"The column {field.name!r} in the frame of {table!r} holds timestamps in the time zone {zone}; "
                "expected "
                "timestamps without a time zone, or in UTC.",
                fix=f'time_zone = "{zone}" under [reading] in the declaration counts local times of that zone; or '
                f'frame["{field.name}"] = frame["{field.name}"].dt.tz_localize(None)',
            )


def _get_value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, of runs or of an extension."""
    import pyarrow as pa

    while not pa.types.is_primitive(kind):
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            break
    return kind


def _make_readable(table: pa.Table, kinds: Mapping[str, str]) -> pa.Table:
    """Return ``table`` with columns that can be read to the end, whatever their rows contain."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        kind = kinds.get(field.name.casefold(), "")
        if not kind:
            continue
        column = _unpack_values(table.column(i))
        if is_text(column.type):
            column = keep_valid_texts(column)
        if pa.types.is_date64(column.type):  # a value that is not a whole day is invalid, and would invalidate all rows
            column = pa.chunked_array([one.view(pa.timestamp("ms")) for one in column.chunks], pa.timestamp("ms"))
        # Buffers that point beyond their end would be read there.
        column.validate(full=True)
        if is_moment(column.type):
            column = bound_moments(column, is_id=kind == "id")
        table = table.set_column(i, field.with_type(column.type), column)
    return table


def _unpack_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values themselves, of a dictionary, of runs or of an extension other than UUIDs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    while True:
        kind = column.type
        if isinstance(kind, pa.BaseExtensionType) and getattr(kind, "extension_name", "") != "arrow.uuid":
            column = pa.chunked_array([one.storage for one in column.chunks], kind.storage_type)
        elif pa.types.is_dictionary(kind):
            column.validate(full=not is_text(kind.value_type))  # texts are checked one by one
            column = pa.chunked_array([one.dictionary_decode() for one in column.chunks], kind.value_type)
        elif pa.types.is_run_end_encoded(kind):
            column = pa.chunked_array([pc.run_end_decode(one) for one in column.chunks], kind.value_type)
        else:
            return column


def _wrap_frame(frame: Any) -> Any:
    """Return ``frame`` as a narwhals frame; Arrow tables unchanged, since narwhals refuses some of them."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    return frame if isinstance(frame, (pa.Table, pa.RecordBatch)) else nw.from_native(frame, pass_through=True)


def _open(known: Any) -> Any:
    """Return an Arrow table, or a frame supported by narwhals."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if isinstance(known, (nw.DataFrame, nw.LazyFrame, pa.Table)):
        return known
    return pa.RecordBatchReader.from_stream(known).read_all()


def _names(opened: Any) -> list[str]:
    import pyarrow as pa

    return list(opened.column_names if isinstance(opened, pa.Table) else opened.collect_schema().names())


def _convert_frame(opened: Any, kinds: Mapping[str, str], table: str) -> pa.Table:
    """Return the columns that are read; of the others, whose values may not convert to Arrow, only the names."""
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    names = _names(opened)
    wanted = [name for name in names if name.casefold() in kinds]
    if isinstance(opened, nw.LazyFrame):
        opened = opened.select(wanted).collect()
    rows = opened.num_rows if isinstance(opened, pa.Table) else len(opened)
    columns = {name: pa.nulls(rows) for name in names}
    for name in wanted:
        kind = kinds[name.casefold()]
        columns[name] = (
            opened.column(name) if isinstance(opened, pa.Table) else _convert_column(opened[name], kind, table)
        )
    return pa.table(columns)


def _convert_column(column: Any, kind: str, table: str) -> Any:
    import narwhals.stable.v2 as nw

    if column.implementation.is_pandas_like():
        return convert_pandas_column(column, kind, table=table)
    return format_texts(column.to_list(), kind) if column.dtype == nw.Object else column.to_arrow()
