"""The columns of a source, by name and type: all that is known of a table before its owner is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from siloquent.schema.attribute import MAX_NAME_LENGTH
from siloquent.schema.formats.source_kinds import READABLE, SourceKind

_VALUE = re.compile(r"[+-]?[0-9.,:/ -]*[0-9][0-9.,:/ -]*(e[+-]?[0-9]+)?|true|false|yes|no|null|nan|\?", re.IGNORECASE)
MAX_SHOWN = 40
MAX_VALUE_LENGTH = 40  # a longer text is no number, and the pattern is slow on it


@dataclass(frozen=True, slots=True)
class ColumnHeader:
    """One column: its name, and the kind and the source's own name of its type; empty if the source has no types."""

    name: str
    kind: SourceKind | None = None
    holds: str = ""

    def __post_init__(self) -> None:
        # The values that a type lists come from rows.
        object.__setattr__(self, "holds", re.sub(r"(?is)\benum\s*\(.*", "ENUM", self.holds))

    @property
    def is_declarable(self) -> bool:
        """Whether an attribute can have this name."""
        return 1 <= len(self.name) <= MAX_NAME_LENGTH and not any(ord(c) < 32 or c == '"' for c in self.name)

    @property
    def shown(self) -> str:
        """The name in at most 40 characters, with those that cannot be seen written out."""
        name = self.name if self.name.isprintable() else self.name[:60].encode("unicode_escape").decode()
        return name if len(name) <= MAX_SHOWN else f"{name[: MAX_SHOWN - 1]}…"

    @property
    def is_like_value(self) -> bool:
        """Whether the name looks like a value: a number, a date or a word such as yes."""
        return self.kind is None and len(self.name) <= MAX_VALUE_LENGTH and _VALUE.fullmatch(self.name) is not None

    def can_hold(self, attribute_type: str) -> bool:
        """Return whether an attribute of that type can be read from this column."""
        return self.kind is None or self.kind in READABLE[attribute_type]


@dataclass(frozen=True, slots=True)
class RawSource:
    """A source as a table file names it, its columns in order, and the settings under ``[reading]``."""

    address: str
    columns: tuple[ColumnHeader, ...]
    reading: str = ""
