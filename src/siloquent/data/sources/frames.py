"""Arrow, pandas and polars objects as sources: one Arrow table, without a copy where the object allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.data.engines.base import quiet
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_table(frame: Any, *, table: str) -> pa.Table:
    """``frame`` as an Arrow table.

    Args:
        frame: A pyarrow table, batch or reader; a pandas, polars or other frame that narwhals knows, lazy ones too; or
            any object with ``__arrow_c_stream__``.
    Raises:
        SchemaError: It is none of these, or has two columns of one name.
        DataError: It cannot be turned into Arrow, such as a column of mixed types.
    """
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    known = nw.from_native(frame, pass_through=True)
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
    return result


def _converted(frame: Any, known: Any) -> pa.Table:
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    if isinstance(known, nw.LazyFrame):
        known = known.collect()
    if isinstance(known, nw.DataFrame):
        return known.to_arrow()
    return pa.RecordBatchReader.from_stream(frame).read_all()
