"""New rows of a declared table over HTTP: from a place that owners may name, into a place that they may name."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.requests import Request

from siloquent.declaring import find_rows_file
from siloquent.documents.tables import build_refresh_document
from siloquent.errors import SchemaError, SiloquentError
from siloquent.fixes import RunCommand, build_fix, let_owner_run
from siloquent.server.access.acts import write_act
from siloquent.server.access.guard import require_open
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.state import AppState, get_app_state
from siloquent.server.tables.declaring import is_permitted, require_source

NEW_FILE = "NEWFILE"
"""The placeholder for a file's name in the fixes of a refresh."""


async def refresh_rows(
    request: Request, table: str, person: Principal, source: str | None, *, despite_findings: bool
) -> dict[str, Any]:
    """Replace a table's rows with those of ``source``, and return a document of kind ``siloquent/refresh/1``.

    Args:
        source: The new rows, as a table file names them; None: the table's own source holds them already.
    Raises:
        Refused: 401, the token was revoked meanwhile; 404; 422, the new rows or the table's own are not in a place that
            an owner may name.
        SchemaError, DataError: the rows do not fit the declaration or cannot be read; they stay as they were.
        OSError: their copy cannot be written; they stay as they were.
        LedgerError: the declaration needs the owner's decision first.
    """
    house, folder = get_app_state(request), Path(request.app.state.folder)

    def work(session: Any) -> tuple[dict[str, Any], str]:
        require_open(house, person)  # the request may have waited for its turn
        if table not in session.list_tables():
            raise build_not_found()
        own = session.schema(table).source
        file = None if source is None else _find_new_rows(house.settings.sources, source, own, folder, table)
        try:
            return build_refresh_document(session.refresh(table, file, despite_findings=despite_findings)), own
        except SchemaError as wrong:
            if source is not None:
                wrong.remedy = wrong.remedy.map(RunCommand, lambda one: _name_source(one, str(file), source))
            raise
        except SiloquentError as failed:
            if isinstance(failed.__cause__, OSError):  # the server's own disk, which is full or refuses the copy
                raise failed.__cause__ from None
            raise

    async with house.room.hold_place(person.name):
        document, own = await house.rows.run_in_turn(person.name, None, work)
        await asyncio.to_thread(_record, house, folder, person, table, own)
    return document


def _find_new_rows(allowed: tuple[str, ...], source: str, own: str, folder: Path, table: str) -> Path:
    """Return the file of ``source``, which takes the place of the file of ``own``.

    Raises:
        Refused: 422, one of them is elsewhere than an owner may name. SchemaError: there is no such plain file.
    """
    require_source(allowed, source, folder, table)
    if not is_permitted(own, allowed):
        raise Refused(
            422,
            "source_not_allowed",
            f"The rows of {table!r} are in a place that only this machine's administrator writes to, "
            f"not in one of these: {', '.join(allowed)}.",
            fix=build_fix(
                f'source = "{source}" in the declaration of {table}, which makes them a new version, or ',
                let_owner_run("refresh", table, NEW_FILE),
            ),
        )
    return find_rows_file(source, folder, table=table)


def _name_source(action: RunCommand, file: str, source: str) -> RunCommand:
    """Return the action with the rows as the caller named them: their file is the server's own."""
    args = tuple(source if one == file else one for one in action.args)
    return replace(action, args=args, python=action.python.replace(repr(file), repr(source)))


def _record(house: AppState, folder: Path, person: Principal, table: str, own: str) -> None:
    """Record the act, and the new size of an upload whose content was replaced."""
    write_act(house.store, person, "refresh_table", table)
    path = Path(own.partition(":")[2].partition("#")[0])
    if path.parent == Path("uploads"):
        with suppress(OSError):  # deleted in the meantime
            size = (folder / path).stat().st_size
            house.store.write("UPDATE upload SET size = ? WHERE id = ?", size, path.name.partition(".")[0])
