"""pandas columns: the result for a value must not depend on the type that pandas gives the whole column.

One more row can turn whole numbers into floats, and any column into Python objects. So a column keeps its type only if
each value is read equally in every type that pandas may convert it to; all others are read value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from siloquent.data.sources.objects import FIRST_INEXACT, TOLD_APART, format_texts
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT, _OBJECT = "t", "O"
_KEPT = {
    **dict.fromkeys(("integer", "real", "boolean"), "biuf"),
    **dict.fromkeys(("date", "datetime"), "M"),
    **dict.fromkeys(("id", "category"), "biu"),
}
"""numpy's letters for the columns that keep their types, by the kind of an attribute."""
_FLOATS = (4, 8)


def convert_pandas_column(column: Any, kind: str, *, table: str) -> pa.Array | pa.ChunkedArray:
    """Return a pandas column as Arrow, for an attribute of ``kind``.

    Args:
        column: A narwhals series.
    Raises:
        SchemaError: it holds numpy booleans, and texts are read: pandas may turn them into 1 and 0.
    """
    import narwhals.stable.v2 as nw

    native = nw.to_native(column)
    dtype = native.dtype
    letter = _find_type_letter(dtype)
    if letter == "b" and isinstance(dtype, np.dtype) and kind in TOLD_APART:
        raise SchemaError(
            f"The column {column.name!r} in the frame of {table!r} holds numpy booleans, which one extra number "
            f"would turn into numbers; an attribute of type {kind} needs a stable type.",
            fix=f'frame["{column.name}"] = frame["{column.name}"].astype("boolean"), or declare it as boolean',
        )
    if letter == _TEXT or letter in _KEPT.get(kind, ""):
        return _exact(column.to_arrow()) if letter in "iu" and kind in TOLD_APART else column.to_arrow()
    if str(dtype) == "category":
        return _convert_categories(native, kind)
    return format_texts(_list_values(column, native), kind)


def _find_type_letter(dtype: Any) -> str:
    """Return numpy's letter for a column's type, whatever holds it; ``t`` for texts in UTF-8, ``O`` for all others."""
    held = getattr(dtype, "pyarrow_dtype", None)
    if held is not None:
        return _find_arrow_letter(held)
    if hasattr(dtype, "storage"):  # Python's texts may hold halves of surrogate pairs
        return _TEXT if dtype.storage == "pyarrow" else _OBJECT
    plain = np.dtype("M8[ns]") if hasattr(dtype, "tz") else getattr(dtype, "numpy_dtype", dtype)
    if not isinstance(plain, np.dtype) or (plain.kind == "f" and plain.itemsize not in _FLOATS):
        return _OBJECT
    return plain.kind


def _find_arrow_letter(held: pa.DataType) -> str:
    import pyarrow as pa

    kinds = pa.types
    letters = {
        "b": kinds.is_boolean(held),
        "i": kinds.is_integer(held),
        "f": kinds.is_floating(held) and not kinds.is_float16(held),
        "M": kinds.is_timestamp(held) or kinds.is_date(held),
        _TEXT: kinds.is_string(held) or kinds.is_large_string(held),
    }
    return next((letter for letter, fits in letters.items() if fits), _OBJECT)


def _exact(numbers: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return whole numbers, NULL where a float would not distinguish them from their neighbours."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if numbers.type not in (pa.int64(), pa.uint64()):
        return numbers
    inside = pc.less(numbers, pa.scalar(FIRST_INEXACT, numbers.type))
    if numbers.type == pa.int64():
        inside = pc.and_(inside, pc.greater(numbers, pa.scalar(-FIRST_INEXACT, numbers.type)))
    return pc.if_else(inside, numbers, pa.scalar(None, numbers.type))


def _convert_categories(native: Any, kind: str) -> pa.Array:
    """Return a column of pandas categories, each category converted independently of the others."""
    import pyarrow as pa

    codes = np.asarray(native.cat.codes, dtype=np.int64)
    return format_texts(list(native.cat.categories), kind).take(pa.array(codes, mask=codes < 0))


def _list_values(column: Any, native: Any) -> list[Any]:
    """Return the values as Python objects; in a column held by Arrow, NULL for those that Python cannot represent."""
    if hasattr(native.dtype, "pyarrow_dtype"):
        return [_convert_scalar(scalar) for scalar in column.to_arrow()]
    return list(native.to_list())


def _convert_scalar(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return None
