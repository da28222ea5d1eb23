"""The canonical encoding of a cell: a type byte, the length in 4 bytes, the content. Equal cells have equal bytes.

Lengths come first, so that the concatenated cells of several columns can be split in only one way.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from siloquent.errors import RequestError
from siloquent.profile.spec.columns import ProfileColumn

NULL = b"\0\0\0\0\0"
MAX_CELL_BYTES = 2**16
_DISTINCT = 9
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


def encode_cell(column: ProfileColumn, value: Any) -> bytes:
    """Return the canonical bytes of ``value`` in ``column``; None and NaN are NULL.

    Raises:
        RequestError: the value is not of the declared type, or has more digits than declared; it is not shown.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NULL
    try:
        tag, content = _ENCODERS[column.type](column, value)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        raise RequestError(
            f"Column {column.name!r} holds a value that cannot be read as {column.type}.",
            fix="declare the column as it is, or correct the rows",
        ) from None
    if len(content) > MAX_CELL_BYTES:
        raise RequestError(f"Column {column.name!r} holds a value of more than {MAX_CELL_BYTES} bytes.")
    return frame_bytes(tag, content)


def encode_unique_null(party: str, row: int, random: bytes) -> bytes:
    """Return a NULL that equals no other cell: one row of one party in one session."""
    return frame_bytes(_DISTINCT, party.encode() + row.to_bytes(8, "big") + random)


def encode_value(cells: Iterable[bytes]) -> bytes:
    """Return the value of several columns: their cells in column order."""
    return b"".join(cells)


def frame_bytes(tag: int, content: bytes) -> bytes:
    """Return type byte, length, content."""
    return bytes([tag]) + len(content).to_bytes(4, "big") + content


def _encode_text(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    if column.names_people and type(value) is int:
        value = str(value)  # one silo stores its ids as numbers, another one as digits
    if not isinstance(value, str):
        raise TypeError
    text = value.strip() if column.trim else value
    text = text.casefold() if column.casefold else text
    return 1, unicodedata.normalize("NFC", text).encode()


def _encode_integer(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    return 2, _encode_whole(Fraction(value))


def _encode_boolean(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    if not isinstance(value, bool) and value not in (0, 1):
        raise TypeError
    return 2, b"1" if value else b"0"


def _encode_decimal(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    exact = Fraction(Decimal(repr(value)) if isinstance(value, float) else Decimal(value))
    return 3, _encode_whole(exact * 10**column.scale)


def _encode_real(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    exact, step = Fraction(value), Fraction(column.grid)
    return 4, str(math.floor(exact / step + Fraction(1, 2))).encode()


def _encode_date(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    return 5, str(value.toordinal() - _EPOCH_DAY).encode()


def _encode_datetime(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    since = value.replace(tzinfo=None) - _EPOCH
    return 6, str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds).encode()


def _encode_bytes(column: ProfileColumn, value: Any) -> tuple[int, bytes]:
    return 8, bytes(memoryview(value))


def _encode_whole(value: Fraction) -> bytes:
    if value.denominator != 1:
        raise ValueError("not whole")
    return str(value.numerator).encode()


_ENCODERS: Mapping[str, Callable[[ProfileColumn, Any], tuple[int, bytes]]] = {
    "text": _encode_text,
    "integer": _encode_integer,
    "boolean": _encode_boolean,
    "decimal": _encode_decimal,
    "real": _encode_real,
    "date": _encode_date,
    "datetime": _encode_datetime,
    "bytes": _encode_bytes,
}
