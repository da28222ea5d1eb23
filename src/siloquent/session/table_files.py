"""The table files that an owner's session writes: a new declaration, and how the rows of a declared one are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import RunCommand, build_fix, run
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.reading_edits import name_source, write_reading
from siloquent.schema.formats.reading import Setting, compose_settings, read_settings

if TYPE_CHECKING:
    from siloquent.session.workspace_session import WorkspaceSession

FILE_KINDS = ("csv", "csv-records", "xlsx", "parquet", "duckdb")


def write_declaration(session: WorkspaceSession, name: str, text: str) -> None:
    """Write the table file of a new table; a source beside the caller and not in the workspace is named in full.

    Raises:
        SchemaError: the table is declared already, or its rows are not in a file or database.
    """
    file = session.workspace.schemas / f"{name}.toml"
    if file.exists():
        raise SchemaError(
            f"The workspace already declares a table {name!r}.",
            fix=f"give it another name, or edit schemas/{name}.toml",
        )
    source = _find_source(text)
    if not source:
        raise SchemaError(
            f"The declaration of {name!r} names no file or database.",
            fix=RunCommand("declare", ("FILE",), python="session.add_frame(declaration, frame)"),
        )
    kind, _, where = source.partition(":")
    plain, beside = where.partition("#")[0], Path.cwd() / where
    if kind in FILE_KINDS and not (session.workspace.folder / plain).exists() and (Path.cwd() / plain).exists():
        text = name_source(text, f"{kind}:{beside}")
    _replace(file, text)


def _find_source(text: str) -> str:
    from siloquent.schema.files.toml import read_toml

    return str(read_toml(text).get("table", {}).get("source", ""))


def write_settings(session: WorkspaceSession, table: str | None, settings: Mapping[str, Setting] | str) -> None:
    """Write settings under ``[reading]`` into a table's file.

    Raises:
        RequestError: no table is named, or the file must be edited by hand.
        SchemaError: a setting is unknown or not valid, or the table is a frame's.
    """
    lines = settings if isinstance(settings, str) else compose_settings(settings)
    if table is None:
        raise RequestError("Settings are about one table.", fix=run("check", "TABLE"))
    name = session.schema(session.find_table(table)).name
    read_settings(lines)
    file = session.workspace.get_schema_file(name)
    if not file.is_file():
        raise SchemaError(
            f"{name!r} is declared in Python, not in a file.",
            fix=RunCommand("declare", ("FILE",), python=f"siloquent.declare(frame, ..., reading={lines!r})"),
        )
    changed = write_reading(file.read_text(encoding="utf-8"), lines, DomainFolder(session.workspace.folder))
    if changed is None:
        raise RequestError(
            f"schemas/{name}.toml cannot take {lines!r} under [reading] as it is written.",
            fix=build_fix("write it by hand, then: ", run("check", name)),
        )
    _replace(file, changed)


def _replace(file: Path, text: str) -> None:
    building = file.with_suffix(".toml.new")
    building.write_text(text, encoding="utf-8")
    os.replace(building, file)
