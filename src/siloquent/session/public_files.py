"""The files of a public table, so that a change of them is noticed without reading their rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import SchemaError, UnknownName

if TYPE_CHECKING:
    from siloquent.data.sources.files import SourceParts


@dataclass(frozen=True, slots=True)
class PublicFiles:
    """A public table's declaration and the files of its rows, as they were when it was read; without ``parts``, it was
    refused."""

    path: Path
    text: bytes
    parts: SourceParts | None

    @classmethod
    def read(cls, path: Path, folder: Path) -> PublicFiles:
        """Read the declaration at ``path`` and find the rows that it names, relative to ``folder``."""
        from siloquent.data.sources.files import find_source_parts
        from siloquent.schema.public_tables.declaration import parse_public

        text, parts = b"", None
        with suppress(OSError, UnicodeDecodeError, SchemaError, UnknownName):  # reading the table reports what is wrong
            text = path.read_bytes()
            declared = parse_public(text.decode("utf-8"))
            kind, _, where = declared.source.partition(":")
            parts = find_source_parts(where, folder, kind=kind, table=declared.name)
        return cls(path, text, parts)

    def is_current(self) -> bool:
        """Return whether neither has changed."""
        try:
            return self.parts is not None and self.path.read_bytes() == self.text and self.parts.is_unchanged()
        except OSError:
            return False
