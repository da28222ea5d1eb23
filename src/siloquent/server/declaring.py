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

from siloquent.errors import SchemaError
from siloquent.fixes import build_fix, let_owner_run, run
from siloquent.server.access.acts import write_act
from siloquent.server.problems import Refused
from siloquent.server.state import get_app_state

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_FILES = ("csv", "csv-records", "parquet", "duckdb")
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


async def write_declaration(request: Request, table: str, toml: str, precondition: Precondition | None = None) -> str:
    """Write a table file if the ledger permits it, and return the entity tag of the current declaration.

    Raises:
        Refused: 409, the account was opened for another unit, adjacency or accountant, or with another budget; 412, the
            file has since changed.
        SchemaError: the file cannot be parsed.
    """
    from siloquent.schema.build import parse_schema
    from siloquent.schema.domains import DomainFolder

    house, folder = get_app_state(request), Path(request.app.state.folder)
    # On a thread: the search for the lines that are meant may take a second.
    schema = await asyncio.to_thread(parse_schema, toml, DomainFolder(folder))

    require_source(house.settings.sources, schema.source, folder, table)
    await house.desk.run(None, lambda session: _require_same_account(session, schema, table))

    def write() -> str:
        require_name(table, toml, folder)
        with hold_declarations(folder):
            (precondition or Precondition()).require(table, tag_of(folder, table))
            write_act(house.store, request.state.person, "put_table", table)
            _replace(folder, table, toml)
        return _tag(toml.encode())

    return await asyncio.to_thread(write)


def _require_same_account(session: Any, schema: TableSchema, table: str) -> None:
    """Refuse a declaration with which nobody could ask any more.

    Raises:
        Refused: 409.
    """
    from siloquent.session import compute_budget_limit, compute_share_limits

    known = {one.name: one for one in session.ledger.list_accounts()}
    ours = (schema.budget.accountant, schema.unit.code, schema.adjacency)
    account = known.get(schema.account)
    if account is None:
        return
    if (account.accountant, account.unit, account.adjacency) != ours:
        detail = "This table's spending was recorded under another unit, adjacency or accountant."
        raise Refused(409, "conflict", detail, fix=run("epoch open", table))
    limits = {schema.account: compute_budget_limit(schema.budget), **compute_share_limits(schema)}
    if any(known[name].limit != limit for name, limit in limits.items() if name in known):
        detail = f"The ledger holds another budget for {table!r}; budgets change on the server's machine alone."
        raise Refused(
            409, "conflict", detail,
            fix=build_fix(f"keep the budget, or edit schemas/{table}.toml there, then ",
                          let_owner_run("budget set", table)),
        )  # fmt: skip


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


def _replace(folder: Path, table: str, toml: str) -> None:
    """Write a table file atomically."""
    building = folder / "schemas" / f".{table}.{secrets.token_hex(4)}"  # allowed: a name or a key, no noise
    building.write_text(toml, encoding="utf-8", newline="")
    os.replace(building, folder / "schemas" / f"{table}.toml")
