"""Table files sent over HTTP: the sources they may name, and protection against overwriting unseen changes."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets  # allowed: file names, no noise
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from siloquent.errors import SchemaError, SiloquentError
from siloquent.fixes import UseOption, build_fix
from siloquent.ledger.rules import ADDS_UP
from siloquent.server.access.acts import write_act
from siloquent.server.failures.problems import Refused
from siloquent.server.state import get_app_state

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.schema.changes import DeclarationChange

_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_FILES = ("csv", "csv-records", "xlsx", "parquet", "duckdb")
_TAG = re.compile(r'(W/)?("[!#-~\x80-\xff]*")')


@dataclass(frozen=True, slots=True)
class Precondition:
    """The conditions for replacing a table's declaration: If-Match and If-None-Match (RFC 9110)."""

    match: str | None = None
    none_match: str | None = None

    @classmethod
    def of(cls, request: Request) -> Precondition:
        """Return the precondition of a request."""
        return cls(*(_read_list(request, name) for name in ("if-match", "if-none-match")))

    def require(self, table: str, tag: str | None) -> None:
        """Check the precondition against ``tag``, the tag of the current declaration (None if there is none).

        Raises:
            Refused: 412, it does not hold.
        """
        if self.match is not None and not _matches_tag(self.match, tag, strong=True):
            raise Refused(
                412, "precondition_failed", "If-Match does not name the current declaration: it was changed.",
                fix=f"GET /v1/tables/{table}, and send yours with its ETag once you have seen what changed",
            )  # fmt: skip
        if self.none_match is not None and _matches_tag(self.none_match, tag, strong=False):
            raise Refused(
                412, "precondition_failed", f"If-None-Match wants no such declaration of {table!r}, but one exists.",
                fix=f"GET /v1/tables/{table}, and send yours with its ETag in If-Match",
            )  # fmt: skip


def _read_list(request: Request, name: str) -> str | None:
    """Return a header whose lines are one list (RFC 9110); None if there is none."""
    lines = request.headers.getlist(name)
    return ", ".join(lines) if lines else None


def _matches_tag(field: str, tag: str | None, *, strong: bool) -> bool:
    if tag is None:
        return False
    others = [one.strip() for one in _TAG.sub("", field).split(",")]
    return "*" in others or any(text == tag and not (weak and strong) for weak, text in _TAG.findall(field))


def tag_of(folder: Path, table: str) -> str | None:
    """Return the entity tag of the current declaration: it depends on the text, not on the remaining budget."""
    if not _TABLE.fullmatch(table):
        return None
    with suppress(FileNotFoundError):
        return _tag((folder / "schemas" / f"{table}.toml").read_bytes())
    return None


def _tag(text: bytes) -> str:
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


@contextmanager
def hold_declarations(folder: Path) -> Iterator[None]:
    """Keep every other server and request from writing a table file of the workspace while the block runs."""
    handle = os.open(folder / "schemas", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class WrittenDeclaration:
    """A declaration that was written: its entity tag, and its changes against what the ledger records, as classed."""

    tag: str
    changes: tuple[DeclarationChange, ...]


class EpochNeeded(Refused):
    """A declaration makes another promise than the one that was paid for: its owner decides; ``tag`` is current."""

    def __init__(self, detail: str, table: str, tag: str) -> None:
        self.tag = tag
        super().__init__(
            409, "conflict", detail,
            fix=build_fix(
                "restore the declaration, or to open a new epoch add ", UseOption("new_epoch", ADDS_UP),
                f" to the body of PUT /v1/tables/{table}, with If-Match: {tag}",
            ),
        )  # fmt: skip


async def write_declaration(
    request: Request,
    table: str,
    toml: str,
    precondition: Precondition | None = None,
    *,
    new_epoch: str | None = None,
) -> WrittenDeclaration:
    """Write a table file and bring the ledger to it: its budget, and if the owner says so a new epoch.

    Args:
        new_epoch: The owner's statement on persons in both epochs: the old account is closed for good. The text gets
            the epoch's number.
    Raises:
        EpochNeeded: 409, the unit, adjacency or accountant changes, and there is no ``new_epoch``.
        Refused: 412, the file has since changed; 428, ``new_epoch`` without If-Match.
        RequestError: the budget is below what was spent, or no epoch is needed.
        SchemaError: the file cannot be parsed, or declares another table.
    """
    from siloquent.schema.build import parse_schema
    from siloquent.schema.domains import DomainFolder

    house, folder = get_app_state(request), Path(request.app.state.folder)
    # On a thread: the search for the lines that are meant may take a second.
    schema = await asyncio.to_thread(parse_schema, toml, DomainFolder(folder))
    await asyncio.to_thread(require_source, house.settings.sources, schema.source, folder, table)
    await asyncio.to_thread(require_name, table, toml, folder)
    condition = precondition or Precondition()

    def write(session: Any) -> WrittenDeclaration:
        with hold_declarations(folder):
            tag = tag_of(folder, table)
            condition.require(table, tag)
            changes = session.compare_with_recorded(schema)
            if new_epoch is None and (refusal := session.build_epoch_refusal(schema)) is not None:
                raise EpochNeeded(refusal.detail, table, tag or "")
            text = toml if new_epoch is None else _write_epoch(session, condition, schema, toml, tag)
            write_act(house.store, request.state.person, "put_table" if new_epoch is None else "open_epoch", table)
            with _replaced(folder, table, text, session):
                if new_epoch is not None:
                    session.open_epoch(table, statement=new_epoch)
                elif not session.has_declared_limits(table):
                    session.set_budget(table)
        return WrittenDeclaration(_tag(text.encode()), changes)

    return await house.desk.run(None, write)


def _write_epoch(session: Any, condition: Precondition, schema: TableSchema, toml: str, tag: str | None) -> str:
    """Return the text with the number of the epoch that is to be opened.

    Raises:
        Refused: 428, the request does not say which declaration its owner has seen. SchemaError: the number must be
            written by hand.
    """
    from siloquent.schema.domains import DomainFolder
    from siloquent.schema.files.epochs import set_epoch

    if condition.match is None or condition.match.strip() == "*":
        raise Refused(
            428, "precondition_required",
            "A new epoch cannot be undone: the request must name the declaration that it replaces.",
            fix=f"If-Match: {tag or '*'}",
        )  # fmt: skip
    number = session.find_next_epoch(schema)
    text = set_epoch(toml, number, DomainFolder(session.workspace.folder))
    if text is None:
        raise SchemaError(f"The new epoch is number {number}, which the text must declare.", fix=f"epoch = {number}")
    return text


@contextmanager
def _replaced(folder: Path, table: str, toml: str, session: Any) -> Iterator[None]:
    """Replace a table file; if the block fails, put the old one back, and the ledger's limits with it."""
    schemas, mark = folder / "schemas", secrets.token_hex(4)  # allowed: file names, no noise
    file, new, kept = schemas / f"{table}.toml", schemas / f".{table}.{mark}", schemas / f".{table}.{mark}.kept"
    old = file.read_bytes() if file.exists() else None
    try:
        if old is not None:
            _write_durably(kept, old)  # before the new one: on a disk that is full by then it could not be written
        _write_durably(new, toml.encode())
        os.replace(new, file)
        try:
            yield
        except BaseException:  # allowed: whatever went wrong, the old file stands again, and it is raised again
            if old is None:
                file.unlink()
            else:
                os.replace(kept, file)
                with suppress(SiloquentError):  # some of the limits may have been changed
                    session.set_budget(table)
            raise
    finally:
        for building in (new, kept):
            building.unlink(missing_ok=True)


def _write_durably(file: Path, content: bytes) -> None:
    """Write a file so that it is whole after a power cut, too."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def require_source(allowed: tuple[str, ...], source: str, folder: Path, table: str) -> None:
    """Refuse a source that is not in ``[server] sources``, unless the table's file already names it.

    An owner of tables is not the host's administrator: over HTTP no other file of the machine is accessible.

    Raises:
        Refused: 422.
    """
    if not source or is_permitted(source, allowed) or source == _read_current_source(folder, table):
        return
    raise Refused(
        422,
        "source_not_allowed",
        f"Over HTTP a table's source must be in one of these places: {', '.join(allowed)}.",
        fix="POST /v1/uploads, or the administrator adds a place: sources = [...] under [server] in siloquent.toml",
    )


def is_permitted(source: str, allowed: tuple[str, ...]) -> bool:
    """Return whether ``source`` is in one of the places that ``[server] sources`` names."""
    return any(_is_within(source, one) for one in allowed)


def _is_within(source: str, place: str) -> bool:
    kind, _, where = source.partition(":")
    if ":" in place:
        return source == place or source.startswith(place if place.endswith(":") else (f"{place}#", f"{place}."))
    parts = where.split("#")[0].split("/")
    is_plain = kind in _FILES and not {"", ".", ".."} & set(parts)
    return is_plain and where.startswith(place)


def _read_current_source(folder: Path, table: str) -> str | None:
    """Return the source in the table's current file, which may have been written on this machine."""
    from siloquent.schema.build import parse_schema
    from siloquent.schema.domains import DomainFolder

    if not _TABLE.fullmatch(table):
        return None
    with suppress(OSError, SchemaError, UnicodeDecodeError):
        text = (folder / "schemas" / f"{table}.toml").read_text("utf-8")
        return parse_schema(text, DomainFolder(folder)).source
    return None


def require_name(table: str, toml: str, folder: Path) -> None:
    """Refuse a text that does not declare a table of this name.

    Raises:
        SchemaError: the text cannot be parsed or declares another table.
    """
    from siloquent.schema.build import parse_schema
    from siloquent.schema.domains import DomainFolder

    if not _TABLE.fullmatch(table):
        raise SchemaError(
            "A table's name takes 1 to 63 letters, digits and '_', starting with a letter.", fix='name = "visits"'
        )
    if parse_schema(toml, DomainFolder(folder)).name != table:
        raise SchemaError(f"The text declares a table other than {table!r}.", fix=f'name = "{table}"')
