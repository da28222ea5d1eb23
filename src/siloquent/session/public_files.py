"""The public tables that a table refers to; and their files, so that a change is noticed without reading rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.constraints import ForeignKey

if TYPE_CHECKING:
    from siloquent.data.sources.files import SourceParts
    from siloquent.schema.attribute import Attribute
    from siloquent.schema.public_tables.declaration import PublicFile
    from siloquent.schema.public_tables.loaded import PublicTable
    from siloquent.schema.table import TableSchema
    from siloquent.schema.workspace import Workspace


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


def list_public_files(schema: TableSchema, workspace: Workspace) -> list[Path]:
    """List the declarations of the public tables that ``schema`` refers to, directly or through others."""
    found: list[Path] = []
    names = [one.table for one in schema.constraints if isinstance(one, ForeignKey)]
    while names:
        path = workspace.find_public_file(names.pop(0))
        if path is not None and path not in found:
            found.append(path)
            with suppress(OSError, UnicodeDecodeError):
                names += _list_references(path.read_text(encoding="utf-8"))
    return found


@lru_cache(64)
def _list_references(text: str) -> tuple[str, ...]:
    from siloquent.schema.public_tables.declaration import parse_public

    with suppress(SchemaError, UnknownName):  # reading the table reports what is wrong
        return tuple(one.table for one in parse_public(text).references)
    return ()


def read_public_tables(schema: TableSchema, workspace: Workspace) -> tuple[PublicTable, ...]:
    """Read the declared public tables that the foreign keys of ``schema`` refer to, and those that these refer to.

    Raises:
        SchemaError: a declaration is not valid or does not fit. DataError: a file cannot be read.
    """
    from siloquent.schema.public_tables.declaration import check_fits, check_refers

    found: list[PublicTable] = []
    waiting: list[tuple[str, ForeignKey, Attribute | None]] = [
        (schema.name, one, None) for one in schema.constraints if isinstance(one, ForeignKey)
    ]
    while waiting:
        name, key, via = waiting.pop(0)
        path = workspace.find_public_file(key.table)
        if path is None or (via is not None and key.table in (one.name for one in found)):
            continue
        with _telling(key.table):
            declared = _read_declaration(path)
            if via is None:
                check_fits(schema, key, declared)
            else:
                check_refers(name, key, declared)
            own = schema.domain[key.columns[0]] if via is None else via
            found.append(_read_rows(declared, own, workspace, via is not None))
        attributes = {one.name: one for one in declared.attributes}
        waiting += [(declared.name, one, attributes[one.columns[0]]) for one in declared.references]
    return tuple(found)


def _read_declaration(path: Path) -> PublicFile:
    from siloquent.schema.public_tables.declaration import parse_public

    return parse_public(path.read_text(encoding="utf-8"))


def _read_rows(declared: PublicFile, key: Attribute, workspace: Workspace, is_public_key: bool) -> PublicTable:
    from siloquent.data.public import read_public

    return read_public(declared, key, workspace, is_public_key=is_public_key)


@contextmanager
def _telling(table: str) -> Iterator[None]:
    """Say in errors which public table's declaration they are about."""
    try:
        yield
    except SchemaError as wrong:
        wrong.detail = f"public/{table}.toml: {wrong.detail}"
        raise
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"public/{table}.toml cannot be read as UTF-8.") from None
