"""Lists to copy from: ``@month`` and others, ``@FILE`` in the workspace, ``=TABLE.COLUMN`` of a declaration."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from siloquent.errors import RequestError, SiloquentError
from siloquent.fixes import run
from siloquent.foreign import DocumentTooLarge, read_text
from siloquent.schema.declaring.copying.code_lists import CODE_LISTS, find_code_list
from siloquent.schema.declaring.meanings import ListFinder
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.toml import quote_short
from siloquent.schema.meaning import Meaning
from siloquent.schema.workspace import Workspace

MAX_LIST_BYTES = 2**21


def build_list_finder(workspace: Workspace | None, address: str) -> ListFinder:
    """Return the function that finds a list by what was typed; a file with rows is not a list.

    Args:
        address: The source that is being declared.
    """

    def find(text: str) -> Meaning:
        if text.startswith("="):
            return _copy_attribute(text[1:].strip(), workspace)
        name = text[1:].strip()
        if name in CODE_LISTS or workspace is None or not name:
            return Meaning("category", values=find_code_list(name))
        return Meaning("category", values=_read_values(name, workspace, address))

    return find


def list_declared_columns(workspace: Workspace | None, first: str) -> dict[str, str]:
    """Return ``=TABLE.COLUMN`` by the folded name of each column that a table of the workspace declares.

    Args:
        first: The table whose own declaration comes first, when it is declared again.
    """
    from siloquent.schema.build import parse_schema

    names = workspace.list_table_names() if workspace else []
    found: dict[str, str] = {}
    for table in sorted(names, key=lambda name: name != first):
        with suppress(OSError, UnicodeDecodeError, SiloquentError):
            assert workspace is not None
            text = workspace.get_schema_file(table).read_text(encoding="utf-8")
            for attribute in parse_schema(text, DomainFolder(workspace.folder)).domain:
                if not attribute.function:
                    found.setdefault(attribute.name.casefold(), f"={table}.{attribute.name}")
    return found


def _copy_attribute(text: str, workspace: Workspace | None) -> Meaning:
    from siloquent.schema.build import parse_schema

    table, _, column = text.partition(".")
    known = workspace.list_table_names() if workspace else []
    if workspace is None or table not in known or not column:
        raise RequestError(
            f"{quote_short(text)} is not a column of a declared table. Tables: {', '.join(known[:20]) or 'none'}.",
            fix="=TABLE.COLUMN",
        )
    try:
        text = workspace.get_schema_file(table).read_text(encoding="utf-8")
        schema = parse_schema(text, DomainFolder(workspace.folder))
        return schema.domain[column].to_meaning()
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"schemas/{table}.toml cannot be read as UTF-8.", fix=run("check", table)) from None
    except SiloquentError as wrong:
        raise RequestError(f"schemas/{table}.toml: {wrong.detail}", fix=wrong.remedy) from None


def _read_values(name: str, workspace: Workspace, address: str) -> tuple[str, ...]:
    path = workspace.folder / name
    if not path.is_file():
        return find_code_list(name)  # raises with suggestions
    if path.resolve() in _list_row_files(workspace, address):
        raise RequestError(
            f"{quote_short(name)} holds the rows of a table: values are never read from private rows.",
            fix="a file of public values, one a line",
        )
    try:
        lines = read_text(path, MAX_LIST_BYTES).splitlines()
    except (OSError, ValueError, DocumentTooLarge):
        raise RequestError(f"{quote_short(name)} is not a short UTF-8 text.", fix="one value a line") from None
    values = tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))
    if not values:
        raise RequestError(f"{quote_short(name)} has no values.", fix="one value a line")
    return values


def _list_row_files(workspace: Workspace, address: str) -> set[Path]:
    """Return the files with rows: that of ``address`` and those of the declared tables."""
    from siloquent.schema.build import parse_schema

    sources = [address]
    for table in workspace.list_table_names():
        with suppress(OSError, UnicodeDecodeError, SiloquentError):
            text = workspace.get_schema_file(table).read_text(encoding="utf-8")
            sources.append(parse_schema(text, DomainFolder(workspace.folder)).source)
    return {(workspace.folder / source.partition(":")[2].partition("#")[0]).resolve() for source in sources}
