"""Rows that an owner declares in Python: their source, and the table file that is written for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from siloquent.errors import NotAllowed, RequestError, SchemaError
from siloquent.fixes import UseOption
from siloquent.schema.workspace import find_workspace, read_workspace

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema.declaring import RawSource
    from siloquent.schema.declaring.declaration import DeclarationAnswers, DeclarationDraft, Meant
    from siloquent.schema.formats.reading import Setting
    from siloquent.schema.workspace import Workspace


def read_public_rows(address: str, folder: Path, reading: str = "", *, rows: int, most: int) -> pa.Table:
    """Return the first rows of a public file: texts of CSV and of sheets as every source has them, or Parquet's types.

    Args:
        address: A source as a table file names it, relative to ``folder``.
        reading: How the file is read: lines of a table file, as they stand under ``[reading]``.
        rows: The number of rows. ``most``: the most bytes of the file.
    Raises:
        SchemaError: the file cannot be read, or a setting is not valid.
    """
    from siloquent.data.public_rows import read_public_rows as read_rows
    from siloquent.schema.formats.reading import Reading, read_settings

    return read_rows(address, folder, read_settings(reading) if reading else Reading(), rows=rows, most=most)


def find_source(text: str, folder: Path) -> tuple[str, str]:
    """Return the address of a source as a table file names it, and its place in words; ``text`` may be a file's path.

    Args:
        folder: The workspace's folder; a file inside it is named relative to it.
    Raises:
        SchemaError: the file does not exist, or files of its type cannot be sources.
    """
    from siloquent.data.column_reader import find_address

    return find_address(text, folder)


def find_rows_file(source: str, folder: Path, *, table: str) -> Path:
    """Return the plain file that ``source`` names as the table file of ``table`` would, relative to ``folder``.

    Raises:
        SchemaError: it does not exist, is not a plain file, or is named by a link, ``..`` or a pattern.
    """
    from siloquent.data.sources.files import find_source_file

    return Path(find_source_file(source.partition(":")[2].partition("#")[0], folder, table=table).path)


def read_source(address: str, workspace: Workspace | None, reading: str = "") -> RawSource:
    """Read the names and declared types of the columns of a source: a header line, a schema or a catalogue; no row.

    Args:
        reading: How a file is read: lines of a table file, as they stand under ``[reading]``.
    Raises:
        SchemaError: the source does not exist, its columns cannot be read, or a setting is not valid.
        MissingExtra, DataError: as for a table.
    """
    from siloquent.data.column_reader import read_columns
    from siloquent.schema.formats.reading import read_settings

    found = read_columns(address, workspace, read_settings(reading) if reading else None)
    return replace(found, reading=reading)


def declare(
    source: str | Path | object,
    columns: Mapping[str, Meant] | None = None,
    *,
    name: str | None = None,
    header: bool = False,
    reading: Mapping[str, Setting] | str = "",
    **answers: Unpack[DeclarationAnswers],
) -> DeclarationDraft:
    """Begin the declaration of a private table from its columns' names and types; no row is read.

    The result shows its columns, what is proposed and what is open; ``say`` takes in more answers, and
    ``session.add_frame`` takes it once it is complete.

    Args:
        source: A file's path, a source as in a table file, or an Arrow, pandas or polars frame.
        columns: The meaning of columns: ``{"age": "0..120", "sex": ["F", "M"]}``.
        name: The table's name; for a file, by default the file's.
        header: The first line of the file does name the columns, although it looks like a row.
        reading: How the source is read, as under ``[reading]`` in a table file: ``{"encoding": "cp1252", "decimal":
            ","}``, with ``"columns"`` for settings of single columns; or those lines as a text.
        answers: As for ``DeclarationDraft.say``.
    Raises:
        SchemaError, RequestError: the source cannot be read, or an answer is not understood.
    """
    from siloquent.data.column_reader import read_frame_columns
    from siloquent.schema.declaring import derive_table_name
    from siloquent.schema.declaring.declaration import begin_declaration
    from siloquent.schema.declaring.declared_table import require_type
    from siloquent.schema.declaring.header import describe_header_doubt
    from siloquent.schema.formats.reading import compose_settings, read_settings

    require_type("reading", reading, (Mapping, str), '{"encoding": "cp1252"}')
    lines = reading if isinstance(reading, str) else compose_settings(reading)
    require_type("name", name, (str, type(None)), '"visits"')
    if name is not None and not name.isidentifier():
        raise RequestError(
            f"name: {name[:40]!r} is not letters, digits and _.", fix=UseOption("name", derive_table_name(Path(name)))
        )

    try:
        workspace = read_workspace(find_workspace(Path.cwd()))
    except SchemaError:
        workspace = None
    if isinstance(source, (str, Path)):
        address, origin = find_source(str(source), workspace.folder if workspace else Path.cwd())
        found = _read_to_declare(address, workspace, lines)
        named = header or bool(lines and read_settings(lines).names)
        if not named and (doubt := describe_header_doubt(found, origin)):
            raise NotAllowed(doubt, fix="write a header line, or header=True")
        name = name or derive_table_name(Path(origin.rpartition("#")[2] or origin))
    else:
        found, origin = read_frame_columns(source), f"a {type(source).__name__}"
        if lines:
            read_settings(lines).check_kind("frame")
            found = replace(found, reading=lines)
    return begin_declaration(found, workspace, name=name or "table", origin=origin).say(columns, **answers)


def _read_to_declare(address: str, workspace: Workspace | None, lines: str) -> RawSource:
    """Read a source's columns; where it cannot be read so, the fix is the argument that reads it."""
    from siloquent.schema.formats.reading import add_suggested_setting

    try:
        return read_source(address, workspace, lines)
    except SchemaError as wrong:
        if suggested := add_suggested_setting(lines, wrong.fix):
            wrong.fix = f"reading={suggested!r}"
        raise


def find_public_rows(declared: Path, folder: Path) -> list[Path]:
    """Return the row files of the public table that ``declared`` declares, in the workspace's ``folder``.

    Raises:
        SchemaError: the declaration is invalid, or the file is missing or a link. OSError, ValueError: not UTF-8 text.
    """
    from siloquent.data.sources.files import find_source_parts
    from siloquent.schema.public_tables.declaration import parse_public

    table = parse_public(declared.read_text(encoding="utf-8"))
    kind, _, where = table.source.partition(":")
    return [Path(path) for path in find_source_parts(where, folder, kind=kind, table=table.name).paths]
