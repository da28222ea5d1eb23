"""Kinds of hostile rows: values that stand in place of a plain row's, or the bytes of a line of a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Values = dict[str, Any]
PLAIN: Values = {
    "who": "p99",
    "ward": "A",
    "age": 2.0,
    "ill": True,
    "told": "yes",
    "cost": 3,
    "dose": "0.5",
    "day": datetime(2024, 1, 3),
    "seen": "2024-01-03 10:00:00",
    "code": 2,
    "note": "disk full",
    "memo": "m",
}
TEXTS = ("ward", "told", "dose", "seen", "note", "memo")
LONG = 70_000
INFINITE = 2**63 - 1
"""Microseconds that DuckDB takes for infinity."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of hostile row.

    Attributes:
        values: What stands in place of ``PLAIN``'s values; bytes are a text that is not UTF-8, and an integer in
            ``day`` is microseconds since 1970.
        line: The line of a CSV file instead, without its end; other sources have it as a text in ``TEXTS``.
    """

    name: str
    values: Mapping[str, Any]
    line: bytes | None = None

    @property
    def row(self) -> Values:
        """The row of a source with types."""
        return {**PLAIN, **self.values}

    @property
    def is_everywhere(self) -> bool:
        """Whether every source can hold just these values: no line, and no empty text, NUL or line end in one."""
        return self.line is None and all(map(_is_plain, self.values.values())) and type(self.row["day"]) is not int


def _is_plain(value: object) -> bool:
    return value != "" and not isinstance(value, bytes) and not (isinstance(value, str) and set("\0\n") & set(value))


def kinds() -> Iterator[Kind]:
    """All kinds."""
    for name, line in _lines().items():
        text: str | bytes = line
        with suppress(UnicodeDecodeError):
            text = line.decode()
        yield Kind(f"line: {name}", dict.fromkeys(TEXTS, text), line)
    for name, values in _values().items():
        yield Kind(name, values)


def _lines() -> dict[str, bytes]:
    cells = b"p99,A,2,true,yes,3,0.5,2024-01-03,2024-01-03 10:00:00,2,disk full,m"
    first, rest = cells.split(b",", 1)
    start = cells.rpartition(b",")[0]
    return {
        "one cell more": cells + b",moved",
        "one cell less": start,
        "empty cell more": cells + b",",
        "two cells": b"p99,A",
        "nothing": b"",
        "blanks": b"   ",
        "delimiters": b"," * 11,
        "4,000 delimiters": b"," * 4_000,
        "another delimiter": cells.replace(b",", b";"),
        "tabs": cells.replace(b",", b"\t"),
        "CR LF": cells + b"\r",
        "CR CR LF": cells + b"\r\r",
        "CR in the middle": start + b",a\rb",
        "CR and a whole line": cells + b"\r" + cells,
        "quote that opens": start + b',"m',
        "quote that opens first": b'"' + cells,
        "quote that closes": start + b',m"',
        "quote in the middle": start + b',5 ft 3"x',
        "quoted cell": start + b',"a ""b"", c"',
        "text after a quoted cell": start + b',"a"b',
        "one quote": b'"',
        "many quotes": b'"' * 999,
        "all cells quoted": b'"' + cells.replace(b",", b'","') + b'"',
        "quoted with CR LF": b'"' + cells.replace(b",", b'","') + b'"\r',
        "NUL": start + b",a\0b",
        "NUL alone": b"\0" * 20,
        "BOM first": b"\xef\xbb\xbf" + cells,
        "BOM inside": start + b",\xef\xbb\xbfm",
        "no UTF-8": start + b",a\xff\xfeb",
        "half a character": start + b",a\xc3",
        "surrogate in UTF-8": start + b",\xed\xa0\x80",
        "UTF-16": cells.decode().encode("utf-16"),
        "latin-1": first + b"," + rest.replace(b"disk full", b"M\xfcller"),
        "long cell": start + b"," + b"x" * LONG,
        "long quoted cell": start + b',"' + b"x," * LONG + b'"',
        "over a megabyte": start + b"," + b"y" * (2**20 + 10),
        "comment": b"# " + cells,
        "backslashes": start + b',a\\,b\\"',
        "\\N": b",".join([b"\\N"] * 12),
        "header again": b"who,ward,age,ill,told,cost,dose,day,seen,code,note,memo",
        "formula": start + b",=cmd|'x'!A1",
        "gzip's first bytes": b"\x1f\x8b" + cells,
    }


def _values() -> dict[str, Values]:
    found: dict[str, Values] = {f"NULL {name}": {name: None} for name in PLAIN}
    found |= {"NULL everywhere": dict.fromkeys(PLAIN), "empty texts": dict.fromkeys(("who", *TEXTS), "")}
    numbers = {
        "NaN": float("nan"),
        "infinity": float("inf"),
        "minus infinity": -float("inf"),
        "-0.0": -0.0,
        "1e308": 1e308,
        "-1e308": -1e308,
        "2^53 + 1": 2**53 + 1,
        "2^62": 2**62,
        "2^63": 2**63,
        "-2^63": -(2**63),
        "5e-324": 5e-324,
        "2.5": 2.5,
    }
    for name, number in numbers.items():
        whole = number if isinstance(number, int) else 0
        found[name] = {"age": float(number), "dose": repr(number), "cost": whole, "code": min(max(whole, -5), 99)}
    texts = (
        "1_000", " 2", "2 ", "\u0662", "\uff12", "0x2", "1e", "1e99999", "9" * 400, "9" * LONG, ".", "+1", "2.", "1,5",
        "two", "1e1", "1d", "nan", "Infinity", "2\n", "\t2",
    )  # fmt: skip
    found |= {f"number {text[:9]!r} of {len(text)}": {"dose": text} for text in texts}
    days = (
        "2024-02-30", "0000-01-01", "10000-01-01", "infinity", "today", "2024-01-03T24:00:00", "20240103", "03.01.2024",
        "2024-01-03 10:00:00+02:00", "2024-01-03T10:00Z", " 2024-01-03 ", "2024-1-3", "2024-01-03\n",
    )  # fmt: skip
    found |= {f"date {text!r}": {"seen": text} for text in days}
    moments = {
        "first": datetime(1, 1, 1),
        "last": datetime(9999, 12, 31, 23, 59, 59),
        "before 1970": datetime(1969, 1, 1),
    }
    found |= {f"date {name}": {"day": day, "seen": str(day)} for name, day in moments.items()}
    found |= {"date infinite": {"day": INFINITE, "seen": "infinity"}, "date -infinite": {"day": -INFINITE}}
    far = {"year 20000": 568_971_820_800_000_000, "before Christ": -99_999_999_999_999_999, "beyond years": 2**63 - 9}
    found |= {f"date {name}": {"day": micro} for name, micro in far.items()}
    words = ("TRUE", " y", "ja", "1.0", "on", "\uff59es", "N", "2", "\u0131", "tru\u00e9")
    found |= {f"boolean {word!r}": {"told": word} for word in words}
    wards = {
        "not listed": "Z", "lower case": "a", "trailing blank": "A ", "accent": "A\u0301", "full width": "\uff21",
        "70,000 characters": "A" * LONG, "zero width": "A\u200b", "NULL in words": "NULL", "bidi": "\u202eA",
    }  # fmt: skip
    found |= {f"category {name}": {"ward": ward} for name, ward in wards.items()}
    found |= {"category code": {"code": 77}, "category ends": {"code": 2**31 - 1}}
    users = {
        "case": "P1", "trailing blank": "p1 ", "leading blank": " p1", "accent": "p\u03011", "decomposed": "p\u0307",
        "70,000 characters": "p" * LONG, "another of 70,000": "p" * LONG + "q", "full width": "\uff501", "blank": " ",
        "zero width": "p1\u200b", "double s": "strasse", "upper double s": "STRASSE", "dotless i": "\u0131d",
        "quote": "p'1", "soft hyphen": "p1\u00ad", "NUL": "p1\0", "number": "1", "line end": "p1\r", "upper i": "ID",
        "case of sharp s": "STRA\u00dfE",
    }  # fmt: skip
    found |= {f"user {name}": {"who": who} for name, who in users.items()}
    long = {
        "text of 70,000": "x" * LONG,
        "text of 60 bytes": "x" * 60,
        "text of 61 bytes": "x" * 61,
        "62 bytes in 31": "\u00e4" * 31,
    }
    found |= {name: {"note": text, "memo": text} for name, text in long.items()}
    found["no latin"] = dict.fromkeys(("who", "ward", "note", "memo"), "\u3042\u0416\x81")
    found["astral"] = {"note": "\N{PILE OF POO}" * 9, "memo": "\U0010ffff"}
    found["no UTF-8 in a category"] = {"ward": b"\xff"}
    found["no UTF-8 in a user"] = {"who": b"p1\xff"}
    found["no UTF-8 in a number"] = {"dose": b"1\xff"}
    return found
