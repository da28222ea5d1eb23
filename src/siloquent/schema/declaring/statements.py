"""Answers that name columns: ``sex = F, M; BILL_AMT* = 0..10000; rest = skip``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from siloquent.errors import RequestError
from siloquent.schema.attribute import MAX_NAME_LENGTH
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.files.toml import quote_short, quote_text

REST = "rest"
MAX_STARS = 3
_PLAIN = re.compile(r'[^"\\;=,*\s](?:[^"\\;=,*]*[^"\\;=,*\s])?')


def split_outside_quotes(text: str, separator: str) -> list[str]:
    """Split ``text`` at each ``separator`` that is not between double quotes.

    >>> split_outside_quotes('a = "x;y"; b', ";")
    ['a = "x;y"', ' b']
    """
    parts, quoted = [""], False
    for letter in text:
        quoted ^= letter == '"'
        if letter == separator and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def split_statement(
    text: str, columns: Sequence[ColumnHeader], rest: Sequence[ColumnHeader]
) -> tuple[list[ColumnHeader] | None, str]:
    """Return the columns that a statement names and what it says of them; None if it names no columns.

    Values may hold ``=``, as in ``<=50K, >50K``: without columns before it or blanks around it, it belongs to a value.

    Raises:
        RequestError: a column is not known.
    """
    left, *more = split_outside_quotes(text, "=")
    if not more or not left.strip():
        return None, text.strip()
    right = text[len(left) + 1 :].strip()
    found, unknown = _resolve(left.strip(), columns, rest)
    if not unknown:
        return found, right
    if not (left.endswith((" ", "\t")) and right and text[len(left) + 1] in " \t"):
        return None, text.strip()
    names = [column.name for column in columns if len(column.name) <= MAX_NAME_LENGTH]
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(unknown[:MAX_NAME_LENGTH].casefold(), folded, n=1)
    hint = f" Did you mean {quote_short(folded[near[0]])}?" if near else ""
    raise RequestError(f"No column named {quote_short(unknown)}.{hint}", fix="a name, its number, or rest")


def find_column(text: str, columns: Sequence[ColumnHeader]) -> ColumnHeader:
    """Return the one column that ``text`` names.

    Raises:
        RequestError: it names none, or several.
    """
    found, unknown = _resolve(text.strip(), columns, ())
    if unknown or len(found) != 1:
        split_statement(f"{text} = ?", columns, ())  # raises with a suggestion
        raise RequestError(f"{quote_short(text)} names {len(found):,} columns; expected one.", fix="one column's name")
    return found[0]


def format_names(columns: Sequence[ColumnHeader]) -> str:
    """Return columns as a statement names them."""
    return ", ".join(quote_text(column.name) for column in columns)


def format_subject(column: ColumnHeader) -> str:
    """Return a column as a statement names it, without quotes where none are needed."""
    return column.name if _PLAIN.fullmatch(column.name) else quote_text(column.name)


def _resolve(
    text: str, columns: Sequence[ColumnHeader], rest: Sequence[ColumnHeader]
) -> tuple[list[ColumnHeader], str]:
    """Return the columns named by ``text`` and the first part that names none; "" if each part names some."""
    by_name = {column.name.casefold(): place for place, column in enumerate(columns)}
    if text.casefold() == REST and REST not in by_name:
        return list(rest), ""
    found = _find(text, columns, by_name)
    if found:
        return found, ""
    parts = [part.strip() for part in split_outside_quotes(text, ",") if part.strip()]
    for pieces in (parts, text.split()):
        each = [_find(piece, columns, by_name) for piece in pieces]
        if each and all(each):
            return list(dict.fromkeys(column for some in each for column in some)), ""
    each = [_find(piece, columns, by_name) for piece in parts]
    return [], next((piece for piece, some in zip(parts, each, strict=True) if not some), text)


def _find(text: str, columns: Sequence[ColumnHeader], by_name: Mapping[str, int]) -> list[ColumnHeader]:
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if text.casefold() in by_name:
        return [columns[by_name[text.casefold()]]]
    if "*" in text:
        if text.count("*") > MAX_STARS:
            return []
        pattern = re.compile(".*".join(re.escape(part) for part in text.casefold().split("*")), re.DOTALL)
        return [column for column in columns if pattern.fullmatch(column.name[:MAX_NAME_LENGTH].casefold())]
    first, between, last = text.partition("..")
    ends = [_find_place(end.strip(), by_name, len(columns)) for end in ((first, last) if between else (text, text))]
    if None in ends:
        numbers = re.fullmatch(r"#?([0-9]{1,5})\s*-\s*#?([0-9]{1,5})", text)
        ends = [_find_place(end, {}, len(columns)) for end in numbers.groups()] if numbers else ends
    start, end = ends
    return [] if start is None or end is None else list(columns[start : end + 1])


def _find_place(text: str, by_name: Mapping[str, int], count: int) -> int | None:
    if text.casefold() in by_name:
        return by_name[text.casefold()]
    number = re.fullmatch(r"#?([0-9]{1,5})", text)
    return int(number[1]) - 1 if number and 1 <= int(number[1]) <= count else None
