"""The formats of values in a source: numbers, dates, booleans, missing values; one definition for Python and SQL.

A text in a declared format is rewritten as the text that ``coercion`` reads; a text that does not fit becomes NULL. No
format is ever guessed from rows: one row could change the guess for all others.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as set_default
from functools import lru_cache
from itertools import permutations, product
from typing import Literal

from siloquent.errors import SchemaError
from siloquent.schema.files.coercion import FALSE_WORDS, TRUE_WORDS, is_long, read_datetime, read_number

Family = Literal["number", "date", "datetime", "boolean", "text"]
DECIMALS = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'", "_")
GROUPINGS = {" ": (" ", "\u00a0", "\u202f"), "'": ("'", "\u2019")}
"""The characters that count as a thousands separator: spaces that do not break, and the typographic apostrophe."""
MAX_FORMAT, MAX_WORDS, MAX_WORD = 40, 100, 200
MAX_FORMATS, MAX_SYMBOLS, MAX_SYMBOL = 6, 10, 10
BETWEEN_FORMATS = "|"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
FIRST_OF_19 = 69
"""Years of two digits from here on are of the 20th century, as for ``strptime``."""
_FIELDS = {
    "Y": "[0-9]{4}",
    **dict.fromkeys("ymdHMS", "[0-9]{1,2}"),
    "I": "0?[1-9]|1[0-2]",
    "f": "[0-9]{1,6}",
    "p": "[AaPp][Mm]",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
    "z": "Z|[+-][0-9]{2}(?::?[0-9]{2})?",
}
_FIXED = "[0-9]{2}"
_NOON = {"H": "12", "I": "12", "p": "PM", "M": "00", "S": "00", "f": "0", "z": "Z"}
_BLANKS = "[ \u00a0\u202f]"
_DIGITS = "YymdHMSIf"
_LITERALS = frozenset(" .,:/-_TZhuA'")
_NEEDS = {"M": "HI", "S": "M", "f": "S", "p": "I", "I": "p"}
ZONED_PATTERN = (
    "^ *([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,6})?)?)"
    "(Z|[+-][0-9]{2}(?::?[0-9]{2})?) *$"
)
"""A moment and its zone."""


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A date format as a pattern: its fields are groups, numbered from 1."""

    pattern: str
    groups: Mapping[str, int]


@lru_cache(maxsize=256)
def compile_date_format(text: str) -> DatePattern:
    """Return the pattern of a format such as ``%d.%m.%Y %H:%M``.

    Raises:
        SchemaError: a field is unknown, repeated or missing, or a character between fields is not allowed.

    >>> compile_date_format("%d.%m.%Y").groups
    {'d': 1, 'm': 2, 'Y': 3}
    """
    parts = re.findall("%.?|.", text, re.DOTALL)
    if not 1 <= len(text) <= MAX_FORMAT:
        raise _build_format_error(text, f"has 1 to {MAX_FORMAT} characters")
    groups: dict[str, int] = {}
    pattern = ""
    for place, part in enumerate(parts):
        if not part.startswith("%"):
            if part not in _LITERALS:
                raise _build_format_error(text, "may have blanks, T, Z, h, u and . , : / - _ ' between fields")
            pattern += f"[{part}]" if part == "." else part
            continue
        letter = part[1:]
        if letter not in _FIELDS or letter in groups:
            raise _build_format_error(text, f"may have each of {', '.join('%' + one for one in _FIELDS)} once")
        beside = [parts[place - 1] if place else "", parts[place + 1] if place + 1 < len(parts) else ""]
        touches = any(one.startswith("%") and one[1:] in _DIGITS for one in beside)
        groups[letter] = len(groups) + 1
        pattern += f"({_FIXED if touches and letter in 'ymdHMS' else _FIELDS[letter]})"
    _check_fields(text, groups)
    return DatePattern(f"^ *{pattern} *$", groups)


@lru_cache(maxsize=256)
def compile_date_formats(text: str) -> tuple[DatePattern, ...]:
    """Return the patterns of formats with | between them; no text may be one day by one and another day by another.

    Raises:
        SchemaError: as for ``compile_date_format``; two formats read the same text as different days.

    >>> [one.groups for one in compile_date_formats("%d.%m.%Y | %Y-%m-%d")]
    [{'d': 1, 'm': 2, 'Y': 3}, {'Y': 1, 'm': 2, 'd': 3}]
    """
    formats = [one.strip(" ") for one in text.split(BETWEEN_FORMATS)] if BETWEEN_FORMATS in text else [text]
    if len(formats) > MAX_FORMATS:
        raise SchemaError(f"A column has at most {MAX_FORMATS} date formats.", fix='"%d.%m.%Y | %Y-%m-%d"')
    patterns = tuple(compile_date_format(one) for one in formats)
    for first, second in permutations(range(len(formats)), 2):
        if (found := _find_ambiguous(formats[first], patterns[first], patterns[second])) is not None:
            raise SchemaError(
                f"{found!r} is one day as {formats[first]} and another as {formats[second]}.", fix=f'"{formats[0]}"'
            )
    return patterns


def _find_ambiguous(form: str, pattern: DatePattern, other: DatePattern) -> str | None:
    """Return a text that both patterns read, as different days; None if there is none among those of many days."""
    for year, month, day in product((1999, 2012, 2022), (1, 2, 10, 12), (1, 3, 11, 12, 20, 22)):
        numbers = {"Y": f"{year}", "y": f"{year % 100:02}", "m": f"{month:02}", "d": f"{day:02}", "f": "0", "z": "Z"}
        numbers |= {
            "b": MONTHS[month - 1],
            "B": MONTHS[month - 1],
            "p": "AM",
            "H": "10",
            "I": "10",
            "M": "11",
            "S": "12",
        }
        text = re.sub("%(.)", lambda found, held=numbers: held[found[1]], form)  # type: ignore[misc]
        read = [_rewrite_date(text, one) for one in (pattern, other)]
        moments = [None if one is None else read_datetime(one) for one in read]
        if None not in moments and moments[0] != moments[1]:
            return text
    return None


def _check_fields(text: str, groups: Mapping[str, int]) -> None:
    for one, fields in (("a year", "Yy"), ("a month", "mbB"), ("a day", "d")):
        if sum(field in groups for field in fields) != 1:
            raise _build_format_error(text, f"needs {one}: {' or '.join('%' + field for field in fields)}")
    for field, needed in _NEEDS.items():
        if field in groups and not any(one in groups for one in needed):
            raise _build_format_error(text, f"needs {' or '.join('%' + one for one in needed)} with %{field}")
    if "H" in groups and "I" in groups:
        raise _build_format_error(text, "has one of %H and %I")


def _build_format_error(text: str, what: str) -> SchemaError:
    return SchemaError(f"The date format {text[:MAX_FORMAT]!r} is not valid: a format {what}.", fix='"%d.%m.%Y"')


@lru_cache(maxsize=256)
def build_number_pattern(decimal: str, thousands: str, symbols: tuple[str, ...] = ()) -> str:
    """Return the pattern of numbers with these separators; group 1 is the number.

    Groups have three digits, so that 1.5 is never 15.

    Args:
        symbols: Texts of which one may stand before the number, and one after it.
    """
    point = "[.]" if decimal == "." else decimal
    whole = "[0-9]+"
    if thousands:
        signs = "".join(GROUPINGS.get(thousands, (thousands,)))
        whole = f"(?:[0-9]{{1,3}}(?:[{signs}][0-9]{{3}})+|[0-9]+)"
    listed = "|".join("".join(f"[{sign}]" if sign.isascii() else sign for sign in one) for one in symbols)
    before, after = (f"(?:(?:{listed}){_BLANKS}*)?", f"(?:{_BLANKS}*(?:{listed}))?") if listed else ("", "")
    return (
        f"^ *{before}([+-]?(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,4}})?"
        f"|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?){after} *$"
    )


def _is_symbol(text: str) -> bool:
    """Return whether ``text`` may stand beside a number: no part of it is a number, a sign or a separator."""
    if not 1 <= len(text) <= MAX_SYMBOL or text.casefold() in ("e", "inf", "infinity", "nan"):
        return False
    return all(sign.isalpha() or sign in "%#$" or unicodedata.category(sign) in ("Sc", "So") for sign in text)


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The format of a column's values. The defaults are those of every source: 12.5, 2024-01-31, true.

    Attributes:
        date, datetime: Formats as for ``strptime``, several with | between them; empty: ISO 8601.
        missing: Texts that are NULL; numbers and dates among them also as values.
        true, false: Further words for booleans.
        time_zone: The zone of moments without one; moments with a zone are converted to it. Empty: UTC.
        symbols: Texts such as a currency that may stand before or after a number, and do not change it.
    """

    decimal: str = "."
    thousands: str = ""
    date: str = ""
    datetime: str = ""
    missing: tuple[str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    time_zone: str = ""
    symbols: tuple[str, ...] = set_default(default=(), repr=False)  # ledgers keep the digest of a text without them

    def __post_init__(self) -> None:
        if self.decimal not in DECIMALS:
            raise SchemaError(f"decimal must be '.' or ',', not {self.decimal[:20]!r}.", fix='decimal = ","')
        if self.thousands not in THOUSANDS or self.thousands == self.decimal:
            raise SchemaError(
                f"thousands must be one of . , ' _ or a blank, and not the decimal separator, "
                f"not {self.thousands[:20]!r}.",
                fix=f'thousands = "{"," if self.decimal == "." else "."}"',
            )
        for text in (self.date, self.datetime):
            if text:
                compile_date_formats(text)
        if len(self.symbols) > MAX_SYMBOLS or not all(map(_is_symbol, self.symbols)):
            raise SchemaError(
                f"symbols must be at most {MAX_SYMBOLS} texts of letters, currency signs, % and #.",
                fix='symbols = ["€"]',
            )
        for key, words in (("missing", self.missing), ("true", self.true), ("false", self.false)):
            if len(words) > MAX_WORDS or any(not word.strip(" ") or len(word) > MAX_WORD for word in words):
                raise SchemaError(f"{key} must be at most {MAX_WORDS} texts that are not empty.", fix=f'{key} = ["-"]')
        self._check_words()
        if self.time_zone:
            check_time_zone(self.time_zone)

    def _check_words(self) -> None:
        folded = {key: {word.strip(" ").lower() for word in words} for key, words in self._list_words().items()}
        both = (folded["true"] & (folded["false"] | set(FALSE_WORDS))) | (folded["false"] & set(TRUE_WORDS))
        if both:
            raise SchemaError(
                f"{sorted(both)[0]!r} cannot be both true and false.", fix='true = ["ja"], false = ["nein"]'
            )

    @property
    def is_plain_number(self) -> bool:
        """Whether numbers are written as in every source."""
        return (self.decimal, self.thousands, self.symbols) == (".", "", ())

    def _list_words(self) -> dict[str, tuple[str, ...]]:
        return {"true": self.true, "false": self.false}

    def get_date_format(self, family: Family) -> str:
        """Return the declared format of dates or of moments; empty for ISO 8601."""
        return self.date if family == "date" else self.datetime if family == "datetime" else ""

    def rewrite(self, text: str, family: Family) -> str | None:
        """Return ``text`` as every source is read: 1234.5, 2024-01-31, true; None if it is missing or does not fit.

        >>> ValueFormat(decimal=",", thousands=".").rewrite("1.234,50", "number")
        '1234.50'
        >>> ValueFormat(date="%d.%m.%Y").rewrite("1.2.2024", "date")
        '2024-02-01'
        """
        if self.is_missing(text, family):
            return None
        if family == "number" and not self.is_plain_number:
            return self._rewrite_number(text)
        if family in ("date", "datetime"):
            return self._rewrite_moment(text, family)
        if family == "boolean":
            word = text.strip(" ").lower()
            for meant, words in (("true", self.true), ("false", self.false)):
                if word in (one.strip(" ").lower() for one in words):
                    return meant
        return text

    def is_missing(self, text: str, family: Family) -> bool:
        """Return whether ``text`` is declared as missing, or is a number or moment equal to one that is."""
        if text.strip(" ") in (word.strip(" ") for word in self.missing):
            return True
        if family == "number":
            number = read_number(self._rewrite_number(text))
            return number is not None and number in self.list_missing_numbers()
        if family in ("date", "datetime"):
            moment = read_datetime(self._rewrite_moment(text, family))
            return moment is not None and moment in self.list_missing_moments(family)
        return False

    def list_missing_numbers(self) -> tuple[float, ...]:
        """Return the numbers among the texts for missing values."""
        found = (read_number(self._rewrite_number(word)) for word in self.missing)
        return tuple(number for number in found if number is not None)

    def list_missing_moments(self, family: Family) -> tuple[int, ...]:
        """Return the moments among the texts for missing values, in microseconds since 1970."""
        found = (read_datetime(self._rewrite_moment(word, family)) for word in self.missing)
        return tuple(moment for moment in found if moment is not None)

    def _rewrite_number(self, text: str) -> str | None:
        for symbol in self.symbols:  # -£5 is £-5
            text = text.replace(f"-{symbol}", f"{symbol}-")
        pattern = build_number_pattern(self.decimal, self.thousands, self.symbols)
        found = None if is_long(text) else re.fullmatch(pattern, text)
        if found is None:
            return None
        number: str = found[1]
        for sign in GROUPINGS.get(self.thousands, (self.thousands,)):
            number = number.replace(sign, "") if sign else number
        return number.replace(self.decimal, ".")

    def _rewrite_moment(self, text: str, family: Family) -> str | None:
        if is_long(text):
            return None
        declared = self.get_date_format(family)
        read = (_rewrite_date(text, one) for one in compile_date_formats(declared)) if declared else (text,)
        iso = next((one for one in read if one is not None), None)
        return iso if iso is None or not self.time_zone else convert_zone(iso, self.time_zone)


PLAIN_FORMAT = ValueFormat()


def _rewrite_date(text: str, pattern: DatePattern) -> str | None:
    found = re.fullmatch(pattern.pattern, text)
    if found is None:
        return None
    held = {field: found[number] for field, number in pattern.groups.items()}
    year = held.get("Y") or f"{'19' if int(held['y']) >= FIRST_OF_19 else '20'}{held['y']:0>2}"
    month = f"{held['m']:0>2}" if "m" in held else find_month(held.get("b") or held["B"])
    text = f"{year}-{month}-{held['d']:0>2}"
    hour = held.get("H")
    if "I" in held:
        hour = str(int(held["I"]) % 12 + (12 if held["p"].lower() == "pm" else 0))
    if hour is not None:
        text += "".join(f"{sign}{held.get(field, '00'):0>2}" for sign, field in ((":", "M"), (":", "S"))).join(
            (f" {hour:0>2}", "")
        )
        text += f".{held['f']}" if "f" in held else ""
    return text + held.get("z", "")


def find_month(name: str) -> str:
    """Return a month's two digits by its English name or the first letters of it; 00 for any other word."""
    folded = name.lower()[:3]
    return f"{MONTHS.index(folded) + 1:02}" if folded in MONTHS else "00"


def convert_zone(iso: str, time_zone: str) -> str | None:
    """Return a moment as local time of ``time_zone``; one without a zone is local already."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    found = re.fullmatch(ZONED_PATTERN, iso)
    if found is None:
        return iso
    micro = read_datetime(found[1])
    if micro is None:
        return None
    digits = re.sub("[Z:]", "", found[2])
    minutes = int(digits[:3] or 0) * 60 + int(f"{digits[:1]}{digits[3:5] or 0}" if digits else 0)
    try:
        utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micro - minutes * 60_000_000)
        return str(utc.astimezone(ZoneInfo(time_zone)).replace(tzinfo=None))
    except OverflowError:
        return None


def check_time_zone(name: str) -> None:
    """Refuse names that are not in the database of time zones.

    Raises:
        SchemaError: there is no such zone.
    """
    from zoneinfo import available_timezones

    if name not in available_timezones():
        raise SchemaError(f"{name[:60]!r} is not a time zone of the IANA database.", fix='time_zone = "Europe/Berlin"')


def list_candidates(family: Family) -> Iterator[ValueFormat]:
    """Yield formats in which people write such values, the most common first; for an owner's check."""
    if family == "number":
        for decimal, thousands in ((",", ""), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"), (",", "'")):
            yield ValueFormat(decimal=decimal, thousands=thousands)
    elif family in ("date", "datetime"):
        for text in (f"{day}{time}" for time in _TIMES for day in _DAYS):
            yield ValueFormat(date=text) if family == "date" else ValueFormat(datetime=text)
    elif family == "boolean":
        for true, false in _BOOLEANS:
            yield ValueFormat(true=(true,), false=(false,))


_DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%m/%d/%y", "%d %b %Y",
    "%d-%b-%Y", "%d%b%Y", "%d-%b-%y", "%B %d, %Y", "%Y.%m.%d", "%Y-%m-%d",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", " %H.%M")
_BOOLEANS = (
    ("ja", "nein"), ("j", "n"), ("oui", "non"), ("vrai", "faux"), ("wahr", "falsch"), ("si", "no"), ("s\u00ed", "no"),
    ("sim", "n\u00e3o"), ("tak", "nie"), ("da", "ne"), ("on", "off"), ("x", "-"), ("w", "f"), ("positive", "negative"),
    ("\u0434\u0430", "\u043d\u0435\u0442"), ("\u0434\u0430", "\u043d\u0435"),
    ("\u03bd\u03b1\u03b9", "\u03cc\u03c7\u03b9"),
    ("evet", "hay\u0131r"), ("kyll\u00e4", "ei"), ("jah", "ei"), ("ano", "ne"), ("\u00e1no", "nie"), ("igen", "nem"),
    ("taip", "ne"), ("j\u0101", "n\u0113"), ("j\u00e1", "nei"), ("ja", "nei"), ("ja", "nej"),
    ("ja", "nee"), ("da", "nu"),
    ("vero", "falso"), ("verdadero", "falso"), ("verdadeiro", "falso"), ("waar", "onwaar"), ("sann", "usann"),
    ("sant", "falskt"), ("prawda", "fa\u0142sz"), ("\u662f", "\u5426"), ("\u306f\u3044", "\u3044\u3044\u3048"),
    ("\uc608", "\uc544\ub2c8\uc624"),
)  # fmt: skip
SYMBOLS = (
    "€", "£", "$", "¥", "₹", "₽", "₺", "%", "EUR", "USD", "GBP", "CHF", "JPY", "kr", "SEK", "NOK", "DKK",
    "Kč", "CZK", "zł", "PLN", "Ft", "HUF", "lei", "RON", "лв",
)  # fmt: skip
"""Texts that people write beside a number; an owner's check tries those that stand in values that cannot be read."""
MISSING_WORDS = (
    "NA", "N/A", "n/a", "na", "NULL", "null", "None", "none", "NaN", "nan", "-", "--", ".", "?", "*", "#N/A", "#NV",
    "k.A.", "k. A.", "unknown", "unbekannt", "missing", "nil", "\\N", "-9", "-99", "-999", "9999",
)  # fmt: skip
"""Texts that people write for missing values; an owner's check counts those that cannot be read."""
