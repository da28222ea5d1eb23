"""The meaning of one column in a short text, such as ``0..120``, ``F, M`` or ``id``, and its entry in a table file."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from siloquent.errors import RequestError, SchemaError
from siloquent.schema.declaring.columns import ColumnHeader
from siloquent.schema.declaring.statements import split_outside_quotes
from siloquent.schema.files.toml import quote_short, quote_text, read_toml
from siloquent.schema.formats.value_formats import list_candidates
from siloquent.schema.meaning import TEXT_BYTES, Meaning, compose_entry

MAX_CODES = 10_000
REAL_DIGITS = 5
EXAMPLES = "0..120, 0.00..999.99, 2019-01-01..2024-12-31, a list such as F, M, or one of: yes/no, id, text, skip"
_WORDS = {
    **dict.fromkeys(("skip", "leave out", "left out", "-"), "skip"),
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "whole", "whole number", "whole numbers"), "integer"),
    **dict.fromkeys(("real", "float", "double", "decimal", "numeric", "number", "numbers"), "real"),
    **dict.fromkeys(("date", "dates", "day", "days"), "date"),
    **dict.fromkeys(("datetime", "timestamp", "time", "moment"), "datetime"),
    **dict.fromkeys(("id", "key", "uuid", "identifier"), "id"),
    **dict.fromkeys(("text", "free text", "note"), "text"),
    **dict.fromkeys(
        ("yes/no", "boolean", "bool", "y/n", "true/false", "0/1", "flag", "1/0", "false/true", "no/yes", "n/y"),
        "boolean",
    ),
    **dict.fromkeys(("category", "categories", "list", "values", "enum", "factor", "varchar", "string"), "category"),
    **dict.fromkeys(("code", "codes"), "codes"),
}
_BOUND = r"[+-]?[0-9]+(?:\.[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?"
_DOTTED = r"(?P<{0}_day>[0-9]{{1,2}})\.(?P<{0}_month>[0-9]{{1,2}})\.(?P<{0}_year>[0-9]{{4}})"
_DOTTED_RANGE = re.compile(rf"{_DOTTED.format('lo')}(?P<between>.*?){_DOTTED.format('hi')}(?P<rest>(?:\s.*)?)")
_SPOKEN_RANGE = re.compile(r"(?P<lo>[0-9.,]*[0-9])(?P<between>\s*\.\.\.?\s*)(?P<hi>[0-9][0-9.,]*)")
_RANGE = re.compile(
    rf"(?P<lo>{_BOUND})\s*(?:\.\.\.?|…|–|\bto\b|(?<=\d)-(?=\d))\s*(?P<hi>{_BOUND})"
    r"(?:\s+step\s+(?P<step>[0-9.]+|day|hour|minute|second))?(?:\s+by\s+(?P<width>[0-9.]+))?",
    re.IGNORECASE,
)


SKIPPED = Meaning("")
ListFinder = Callable[[str], Meaning]
"""Returns the declaration that ``@NAME`` or ``=TABLE.COLUMN`` names; raises RequestError."""


def parse_meaning(text: str, column: ColumnHeader, find_list: ListFinder | None = None) -> Meaning:
    """Parse the meaning of ``column``.

    Raises:
        RequestError: the text is not understood, is incomplete, or does not fit the column's type.

    >>> parse_meaning("0..120", ColumnHeader("age")).hi, parse_meaning("F, M", ColumnHeader("sex")).values
    ('120', ('F', 'M'))
    """
    meaning = _parse(text.strip(), column, find_list)
    if meaning.type and not column.can_hold(meaning.type):
        raise RequestError(
            f"{quote_short(column.name)} holds {column.holds}, which cannot be read as {meaning.type}.",
            fix=_suggest_for_kind(column, meaning.type),
        )
    require_valid(column.name, meaning)
    return meaning


def require_valid(name: str, meaning: Meaning) -> None:
    """Check that a table file with this entry is accepted.

    Raises:
        RequestError: it is not; the message is that of the table file's reader.
    """
    from siloquent.schema.build import parse_attribute

    if not meaning.type:
        return
    try:
        entry = compose_entry(
            name, meaning if meaning.null or not meaning.has_cells else replace(meaning, null='"drop"')
        )
        parse_attribute(read_toml(f"entry = {entry}")["entry"])
    except SchemaError as wrong:
        raise RequestError(wrong.detail, fix=wrong.remedy) from None


def _suggest_for_kind(column: ColumnHeader, wanted: str) -> str:
    """Return meanings that fit the type of ``column``; codes with NaN in pandas need another type than its own."""
    if wanted == "category" and column.holds == "float64":
        return f'frame["{column.name}"] = frame["{column.name}"].astype("Int64")'
    fits = {
        **dict.fromkeys(("integer", "decimal", "real"), "0..120, or id, or skip"),
        **dict.fromkeys(("date", "datetime"), "2019-01-01..2024-12-31, or id, or skip"),
        "boolean": "yes/no, or skip",
        "text": EXAMPLES,
    }
    return fits.get(column.kind or "text", "id, or skip")


def _parse(text: str, column: ColumnHeader, find_list: ListFinder | None) -> Meaning:
    if text[:1] in ("@", "="):
        if find_list is None:
            raise RequestError(f"{quote_short(text)}: no lists are available here.", fix=EXAMPLES)
        return find_list(text)
    word, rest = _split_word(text)
    if (meant := _parse_word(word, rest, text)) is not None:
        return meant
    if word in ("codes", "category"):
        return _parse_list(rest, column, ranges=r"\.\.|-" if word == "codes" else r"\.\.")
    found = _RANGE.fullmatch(_order_days(rest if word else text))
    if found:
        return _parse_range(found, word, column)
    if not word and ("," in text or "|" in text):
        if ".." in text:
            raise RequestError(
                f"{quote_short(text)} is not a range: numbers have a decimal point and no other separators.",
                fix=_suggest_range(text) or "0..1000000, or 0.00..999.99",
            )
        return _parse_list(text, column)
    raise _build_refusal(text, word, rest, column)


def _parse_word(word: str, rest: str, text: str) -> Meaning | None:
    """Return what a word means by itself; None if it needs bounds or values, or is none of the known ones."""
    if pair := _find_pair(text):
        return Meaning("boolean", words=pair)
    if word == "skip" and not rest:
        return SKIPPED
    if word in ("id", "boolean") and not rest:
        return Meaning(word)
    return (
        Meaning("text", max_bytes=int(rest[:9] or TEXT_BYTES))
        if word == "text" and (not rest or rest.isdecimal())
        else None
    )


def _find_pair(text: str) -> tuple[str, str] | None:
    """Return two words for true and for false, in this order, which ``text`` has in any; None for all others.

    >>> _find_pair("nein / ja")
    ('ja', 'nein')
    """
    words = [one.strip().lower() for one in text.split("/")]
    pairs = ((form.true[0], form.false[0]) for form in list_candidates("boolean"))
    return next((pair for pair in pairs if words in ([*pair], [*reversed(pair)])), None)


def _order_days(text: str) -> str:
    """Return a range of days such as 31.12.2024 with its days as 2024-12-31; any other text as it is.

    >>> _order_days("1.1.2024..31.12.2024"), _order_days("0..120")
    ('2024-01-01..2024-12-31', '0..120')
    """
    found = _DOTTED_RANGE.fullmatch(text)
    if found is None:
        return _order_slashed(text)
    lo, hi = (f"{found[f'{end}_year']}-{found[f'{end}_month']:0>2}-{found[f'{end}_day']:0>2}" for end in ("lo", "hi"))
    return f"{lo}{found['between']}{hi}{found['rest']}"


def _order_slashed(text: str) -> str:
    """Return a range of days such as 31/12/2024 likewise, where only one order of day and month makes two days of it.

    >>> _order_slashed("01/02/2023..31/12/2024"), _order_slashed("1/2/2023..3/4/2024")
    ('2023-02-01..2024-12-31', '1/2/2023..3/4/2024')
    """
    ends = [one.strip() for one in text.split("..")]
    ranges = []
    for form in ("%d/%m/%Y", "%m/%d/%Y"):
        with suppress(ValueError):
            days = [datetime.strptime(one, form).date() for one in ends]
            ranges += ["..".join(map(str, days))] if len(days) == 2 and days[0] <= days[1] else []
    return ranges[0] if len(set(ranges)) == 1 else text


def _suggest_range(text: str) -> str:
    """Return a range of numbers with decimal points and no other separators; empty if ``text`` is none.

    >>> _suggest_range("0,00..1.500,00"), _suggest_range("1,000..2,000"), _suggest_range("a..b, c")
    ('0.00..1500.00', '1000..2000', '')
    """
    found = _SPOKEN_RANGE.fullmatch(text)
    bounds = [_write_number(found[end]) for end in ("lo", "hi")] if found else []
    return "..".join(bounds) if bounds and all(bounds) else ""


def _write_number(text: str) -> str:
    """Return a number as it is written here; empty if it is not known which of its signs is the decimal one."""
    for thousands, decimal in ((".", ","), (",", ".")):
        sep, point = re.escape(thousands), re.escape(decimal)
        if re.fullmatch(rf"[0-9]{{1,3}}(?:{sep}[0-9]{{3}})+(?:{point}[0-9]+)?", text):
            return text.replace(thousands, "").replace(decimal, ".")
    return text.replace(",", ".") if re.fullmatch(r"[0-9]+[.,]?[0-9]*", text) else ""


def _split_word(text: str) -> tuple[str, str]:
    """Return the kind that the first words of ``text`` name ("" if none), and the rest."""
    folded = text.casefold()
    for spoken in sorted(_WORDS, key=len, reverse=True):
        if folded == spoken or (folded.startswith(spoken) and folded[len(spoken)] in " :("):
            return _WORDS[spoken], text[len(spoken) :].strip(" :()")
    return "", text


def _build_refusal(text: str, word: str, rest: str, column: ColumnHeader) -> RequestError:
    name = quote_short(column.name)
    if not text:
        return RequestError(f"{name} has no meaning yet.", fix=EXAMPLES)
    if word in ("integer", "real") and not rest:
        return RequestError(f"{name}: a number needs its smallest and largest possible value.", fix="0..120")
    if word in ("date", "datetime") and not rest:
        return RequestError(f"{name}: a date needs its first and last possible day.", fix="2019-01-01..2024-12-31")
    if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?\s*(\.\.|-)\s*\d{1,2}:\d{2}(:\d{2})?", text):
        return RequestError(
            f"{name}: times of day without a date have no range; list those that exist, or leave the column out.",
            fix="skip",
        )
    if not word and not re.search(r"[\d.@=]", text):
        value = quote_short(text)
        return RequestError(
            f"{name}: {value} is not understood; a list has a comma, also one of a single value.", fix=f"{text[:40]},"
        )
    return RequestError(f"{name}: {quote_short(text)} is not understood.", fix=EXAMPLES)


def _parse_range(found: re.Match[str], word: str, column: ColumnHeader) -> Meaning:
    lo, hi, step, width = found["lo"], found["hi"], found["step"] or "", found["width"] or ""
    if "-" in lo[1:]:
        is_day = len(lo) == len(hi) == 10 and word != "datetime" and column.kind != "datetime"
        if is_day:
            return Meaning("date", lo, hi, outside="drop")
        first, last = (
            bound if len(bound) > 10 else f"{bound} {time}" for bound, time in ((lo, "00:00"), (hi, "23:59"))
        )
        grid = quote_text(step or ("second" if first.count(":") == 2 else "minute"))
        seconds = ":00" if grid != '"second"' else ""
        return Meaning("datetime", _add_seconds(first, seconds), _add_seconds(last, seconds), grid, outside="drop")
    decimals = max(-int(Decimal(one).as_tuple().exponent) for one in (lo, hi, step or "0"))
    is_real = word == "real" or decimals > 0 or (word != "integer" and column.kind in ("decimal", "real"))
    bins = f"{{ width = {width} }}" if width else ""
    lo, hi = lo.lstrip("+"), hi.lstrip("+")
    if not is_real:
        return Meaning("integer", str(int(lo)), str(int(hi)), step, bins)
    return Meaning("real", lo, hi, step or _choose_grid(Decimal(lo), Decimal(hi), decimals), bins)


def _add_seconds(moment: str, seconds: str) -> str:
    moment = moment.replace("T", " ")
    return moment if moment.count(":") == 2 else f"{moment}{seconds or ':00'}"


def _choose_grid(lo: Decimal, hi: Decimal, decimals: int) -> str:
    """Return a grid: the typed decimals, or five digits of the range if its ends are whole numbers.

    >>> _choose_grid(Decimal(0), Decimal(500), 0), _choose_grid(Decimal(0), Decimal("9.5"), 1)
    ('0.01', '0.1')
    """
    if not decimals:
        decimals = max(0, REAL_DIGITS - len(str(max(int(hi - lo), 1))))
    return f"{Decimal(1).scaleb(-decimals):f}"


def _parse_list(text: str, column: ColumnHeader, *, ranges: str = "") -> Meaning:
    """Return a category of the listed values.

    Args:
        ranges: A pattern of the signs by which two numbers list codes, as in ``1..7``; then ``1 = one`` labels a code.
            A value between quotes is always one value.
    """
    by = "|" if "|" in text and "," not in text else ","
    try:
        (cells,) = csv.reader([text], delimiter=by, skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise RequestError(f"The quotes of {quote_short(text)} do not match.", fix='"a, b", c') from None
    typed = split_outside_quotes(text, by)
    is_quoted = [one.strip().startswith('"') for one in typed] if len(typed) == len(cells) else [False] * len(cells)
    values: list[str] = []
    labels: list[tuple[str, str]] = []
    for cell, quoted in zip(cells, is_quoted, strict=True):
        one = cell if quoted else cell.strip()
        plain = one if ranges and not quoted else ""
        if labelled := re.fullmatch(r"([^=]{1,60}?)\s*=\s*(\S.*)", plain):
            labels.append((labelled[1], labelled[2]))
            values.append(labelled[1])
            continue
        found = re.fullmatch(rf"(-?[0-9]{{1,9}})\s*(?:{ranges})\s*(-?[0-9]{{1,9}})", plain)
        if found and not 0 <= int(found[2]) - int(found[1]) < MAX_CODES:
            raise RequestError(f"{quote_short(one)} lists no codes, or more than {MAX_CODES:,}.", fix="codes 1..7")
        listed = [one] if one or quoted else []
        values += [str(n) for n in range(int(found[1]), int(found[2]) + 1)] if found else listed
    if not values:
        raise RequestError(f"{quote_short(column.name)}: the list has no values.", fix="F, M")
    return Meaning("category", values=tuple(dict.fromkeys(values)), labels=tuple(labels))
