"""The way to read a source, as its table file declares it: the form of the file, and the formats of its values.

All of it is declared, none of it is found in rows: what becomes of a line follows from that line and this declaration.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import ValidationError

from siloquent.errors import SchemaError
from siloquent.schema.files.models import ColumnReadingEntry, ReadingEntry
from siloquent.schema.files.toml import quote_text, read_toml
from siloquent.schema.formats.value_formats import PLAIN_FORMAT, ValueFormat

UTF8 = "utf-8"
_WIDE = ("utf-16", "utf-16-le", "utf-16-be")
_PAGES = (*(f"cp{page}" for page in (437, 850, 852, 855, 858, 866, 874, *range(1250, 1259))), "koi8-r", "koi8-u")
_LATIN = tuple(f"iso8859-{part}" for part in range(1, 17) if part != 12)
ENCODINGS = (UTF8, *_WIDE, *_PAGES, *_LATIN, "mac-roman")
"""Python's codecs that may be declared: each line can be decoded by itself, and ASCII stands for itself."""
_ALIASES = {
    **{name.replace("-", ""): name for name in ENCODINGS},
    **{f"iso8859{part}": f"iso8859-{part}" for part in range(1, 17) if part != 12},
    **{f"windows{page}": f"cp{page}" for page in range(1250, 1259)},
    **dict.fromkeys(("utf8sig", "utf8bom", "unicode"), UTF8),
    **dict.fromkeys(("latin1", "l1"), "iso8859-1"),
    **dict.fromkeys(("latin9", "latin0"), "iso8859-15"),
    **dict.fromkeys(("ansi", "westeuropean"), "cp1252"),
    **dict.fromkeys(("macintosh", "macroman"), "mac-roman"),
}
CSV_KINDS = ("csv", "csv-records")
MAX_SKIPPED = 10_000
_KINDS = {
    "encoding": CSV_KINDS,
    "delimiter": CSV_KINDS,
    "quote": CSV_KINDS,
    "member": CSV_KINDS,
    "skip": (*CSV_KINDS, "xlsx"),
    "names": (*CSV_KINDS, "xlsx"),
    "sheet": ("xlsx",),
}
"""The kinds of sources that each setting of the file's form belongs to."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The form of a source's file, and the formats of its values.

    Attributes:
        delimiter: Empty: the one of ``, ; tab |`` that the header line has most of.
        quote: Empty: no quotes.
        skip: The lines before the header line, or the rows before the header row.
        names: The columns' names, in a file without a header line.
        member: Of a zip file; empty: its only one.
        sheet: Of a workbook; empty: its only one.
        values: The format of all columns without one of their own in ``columns``.
    """

    encoding: str = UTF8
    delimiter: str = ""
    quote: str = '"'
    skip: int = 0
    names: tuple[str, ...] = ()
    member: str = ""
    values: ValueFormat = PLAIN_FORMAT
    columns: tuple[tuple[str, ValueFormat], ...] = ()
    sheet: str = field(default="", repr=False)  # ledgers keep the digest of a text without it

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            object.__setattr__(self, "encoding", _find_encoding(self.encoding))
        if self.delimiter and not _is_sign(self.delimiter):
            raise SchemaError(
                "delimiter must be one ASCII character, no letter, digit or quote.", fix='delimiter = ";"'
            )
        if self.quote not in ("", '"', "'") or self.quote == self.delimiter != "":
            raise SchemaError("""quote must be '"', "'" or empty (no quotes).""", fix="quote = ''")
        if not 0 <= self.skip <= MAX_SKIPPED:
            raise SchemaError(f"skip must be 0 to {MAX_SKIPPED:,} lines.", fix="skip = 1")
        folded = [name.casefold() for name in self.names]
        if len(set(folded)) != len(folded) or not all(name.strip() for name in self.names):
            raise SchemaError("names must be different texts, one for each column.", fix='names = ["age", "ward"]')

    @property
    def is_plain(self) -> bool:
        """Whether nothing is declared."""
        return self == PLAIN_READING

    def get_format(self, column: str) -> ValueFormat:
        """Return the format of one column's values, whatever the case of its name."""
        own = dict(self.columns)
        folded = {name.casefold(): one for name, one in self.columns}
        return own.get(column) or folded.get(column.casefold()) or self.values

    def digest(self) -> bytes:
        """Return a digest of all settings."""
        sheet = f" sheet={self.sheet!r}" if self.sheet else ""
        symbols = [(name, form.symbols) for name, form in (("", self.values), *self.columns) if form.symbols]
        told = f" symbols={symbols!r}" if symbols else ""
        return hashlib.sha256(f"{self!r}{sheet}{told}".encode()).digest()

    def check_kind(self, kind: str) -> None:
        """Refuse settings that do not belong to a kind of source.

        Raises:
            SchemaError: a setting has no meaning there.
        """
        for key, kinds in _KINDS.items():
            if getattr(self, key) != getattr(PLAIN_READING, key) and kind not in kinds:
                raise SchemaError(
                    f"[reading] {key} does not belong to a source of kind {kind!r}, only to {', '.join(kinds)}.",
                    fix=f"remove {key} under [reading]",
                )
        if kind == "csv-records" and not self.quote:
            raise SchemaError("[reading] A csv-records source needs quotes.", fix='source = "csv:..."')
        if kind == "spark" and any(one.time_zone for one in (self.values, *dict(self.columns).values())):
            raise SchemaError(
                "[reading] time_zone does not belong to a source of kind 'spark'.",
                fix="convert the moments in a view of Spark: from_utc_timestamp(seen, 'Europe/Berlin')",
            )


PLAIN_READING = Reading()


def _is_sign(text: str) -> bool:
    return len(text) == 1 and (text == "\t" or " " <= text < "\x7f") and not text.isalnum() and text not in "\"'"


def _find_encoding(text: str) -> str:
    """Return the codec that a name in a table file means.

    Raises:
        SchemaError: it is unknown, or lines in it cannot be told apart before they are decoded.
    """
    folded = "".join(sign for sign in text.lower() if sign.isalnum())
    if folded in _ALIASES:
        return _ALIASES[folded]
    raise SchemaError(
        f"[reading] {text[:40]!r} is not an encoding that can be read; known: utf-8, utf-16, latin-1, cp1252 and other "
        "code pages of one byte.",
        fix="iconv -f ENCODING -t UTF-8 FILE",
    )


def build_reading(entry: ReadingEntry | None, attributes: Iterable[str] = ()) -> Reading:
    """Return the reading that a table file declares.

    Args:
        attributes: The names of the attributes, which ``columns`` may name.
    Raises:
        SchemaError: a setting is not valid, or names a column that is not declared.
    """
    if entry is None:
        return PLAIN_READING
    plain = _build_values(entry, PLAIN_FORMAT)
    columns = tuple((name, _build_values(one, plain)) for name, one in entry.columns.items())
    known = {name.casefold() for name in attributes}
    for name, _ in columns:
        if name.casefold() not in known:
            raise SchemaError(
                f"[reading.columns] names {name[:60]!r}, which is not a declared attribute.",
                fix=f"declare it, or remove [reading.columns.{name[:60]}]",
            )
    given: dict[str, Any] = {
        key: value for key in _KINDS if (value := getattr(entry, key)) is not None and key != "names"
    }
    return Reading(**given, names=tuple(entry.names or ()), values=plain, columns=columns)


def read_settings(text: str) -> Reading:
    """Return the reading that lines of a table file say, as they stand under ``[reading]``.

    Raises:
        SchemaError: they are not TOML, or a setting is unknown or not valid.
    """
    raw = read_toml(text)
    columns = raw.get("columns")
    return parse_reading(raw, columns if isinstance(columns, dict) else ())


def parse_reading(raw: object, attributes: Iterable[str]) -> Reading:
    """Return the reading that a parsed section ``[reading]`` says.

    Raises:
        SchemaError: a setting is unknown or not valid, or names a column that is none of ``attributes``.
    """
    try:
        entry = ReadingEntry.model_validate(raw)
    except ValidationError as wrong:
        key = ".".join(map(str, wrong.errors()[0]["loc"]))[:60]
        known = ", ".join(name for name in ReadingEntry.model_fields)
        raise SchemaError(
            f"{key!r} is not a valid setting of how a file is read; known: {known}.", fix='encoding = "cp1252"'
        ) from None
    return build_reading(entry, attributes)


Setting = str | int | Sequence[str] | Mapping[str, Mapping[str, str | Sequence[str]]]


def compose_settings(settings: Mapping[str, Setting]) -> str:
    """Return settings as lines of a table file, as they stand under ``[reading]``.

    Raises:
        SchemaError: a value is not a text, a number, a list of texts or a mapping of columns.

    >>> print(compose_settings({"decimal": ",", "columns": {"born": {"missing": ["-"]}}}))
    decimal = ","
    columns."born" = { "missing" = ["-"] }
    """
    lines = []
    for key, value in settings.items():
        own = value if key == "columns" and isinstance(value, Mapping) else None
        places = [(key, value)] if own is None else [(f"{key}.{quote_text(name)}", one) for name, one in own.items()]
        lines += [f"{place} = {_compose_setting(place, one)}" for place, one in places]
    return "\n".join(lines)


def add_suggested_setting(lines: str, fix: str) -> str:
    """Return the settings ``lines`` with the one that ``fix`` suggests instead of its own; empty if it suggests none.

    >>> add_suggested_setting("skip = 1", 'encoding = "cp1252" under [reading], or save it as UTF-8')
    'skip = 1\\nencoding = "cp1252"'
    """
    found = re.match(r"((\w+) = .+?) under \[reading\]", fix)
    if found is None:
        return ""
    kept = [line for line in lines.splitlines() if line.partition("=")[0].strip() != found[2]]
    return "\n".join([*kept, found[1]])


def _compose_setting(key: str, value: object) -> str:
    if isinstance(value, str):
        return quote_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        inner = (f"{quote_text(str(name))} = {_compose_setting(key, one)}" for name, one in value.items())
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return f"[{', '.join(map(quote_text, value))}]"
    raise SchemaError(
        f"[reading] {key[:40]} must be a text, a number or a list of texts, not {type(value).__name__}.",
        fix='{"encoding": "cp1252", "missing": ["NA", "-"]}',
    )


_RENAMED: Mapping[str, str] = {"date": "date_format", "datetime": "datetime_format"}


def _build_values(entry: ColumnReadingEntry, plain: ValueFormat) -> ValueFormat:
    """Return a format: what ``entry`` says, otherwise what ``plain`` does."""
    found: dict[str, Any] = {}
    for one in fields(ValueFormat):
        said = getattr(entry, _RENAMED.get(one.name, one.name))
        found[one.name] = getattr(plain, one.name) if said is None else tuple(said) if isinstance(said, list) else said
    return ValueFormat(**found)
