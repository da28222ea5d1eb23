"""Accounts: tokens, shown once and stored as hashes, and the browser sessions that they open."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets  # allowed: tokens, no noise
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from siloquent.documents.server import build_token_document
from siloquent.errors import NotAllowed, RequestError, UnknownName
from siloquent.fixes import UseOption, run
from siloquent.schema.table import list_tables_of
from siloquent.server.store import Store

Role = Literal["owner", "analyst", "auditor", "collector", "operator"]
ROLES: tuple[Role, ...] = ("owner", "analyst", "auditor", "collector", "operator")
MACHINES: tuple[Role, ...] = ("collector", "operator")
MAX_DAYS = 365
LOGIN_SECONDS = 60
_TEXT = re.compile(r"sq_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request: the token's name, its role and its tables (none named: all)."""

    token: str
    name: str
    role: Role
    tables: tuple[str, ...]
    expires: int
    csrf: str = ""

    @property
    def analyst(self) -> str | None:
        """The analyst whose share of a budget pays; an owner asks through a separate analyst's token."""
        return self.name if self.role == "analyst" else None

    @property
    def sees_all(self) -> bool:
        """Whether the token is valid for every table."""
        return not self.tables

    def may_see(self, table: str) -> bool:
        """Return whether the token is valid for this table; for all of them in ``a+b``, tables that are joined."""
        return not self.tables or set(list_tables_of(table)) <= set(self.tables)


class Tokens:
    """The tokens of one server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self,
        name: str,
        role: str,
        *,
        tables: tuple[str, ...] = (),
        days: int = 90,
        known: Iterable[str] | None = None,
        also: Callable[[sqlite3.Connection, str], None] | None = None,
    ) -> str:
        """Create a token; the returned text is shown once and cannot be recovered.

        Args:
            known: The declared tables, which must include ``tables``; None: not checked.
            also: A further write in the same transaction; it receives the token's id.
        Raises:
            RequestError: the name, role or days are invalid.
            UnknownName: a table is not declared.
        """
        if not _NAME.fullmatch(name):
            raise RequestError(
                "A token's name takes 1 to 64 letters, digits, '_', '.' and '-'.", fix=run("token create", "ana")
            )
        if role not in ROLES:
            raise RequestError(
                f"A role must be one of {', '.join(ROLES)}, not {role[:40]!r}.", fix=UseOption("role", "analyst")
            )
        if tables and role == "owner":
            raise RequestError("An owner declares tables and makes tokens, so an owner's token is for all of them.")
        declared = None if known is None else sorted(known)
        for table in tables:
            if declared is not None and table not in declared:
                raise UnknownName("table", table[:64], declared, fix=run("tables"))
        if not 1 <= days <= MAX_DAYS:
            raise RequestError(
                f"A token's lifetime must be between 1 and {MAX_DAYS} days, not {days}.", fix=UseOption("days", 90)
            )
        number = secrets.token_hex(4)  # allowed: an id
        secret, now = secrets.token_urlsafe(32), int(time.time())  # allowed: a token
        text = f"sq_{number}_{secret}"
        with self._store.open_transaction() as db:
            db.execute(
                "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (number, _hash_text(text), name, role, json.dumps(tables), now, now + days * 86_400),
            )
            if also is not None:
                also(db, number)
        return text

    def document(self, text: str) -> dict[str, object]:
        """Return a new token, with its text, as a document of kind ``siloquent/token/1``."""
        (row,) = self._store.fetch_all("SELECT id, name, role, tables, expires FROM token WHERE id = ?", text[3:11])
        return build_token_document({**row, "tables": json.loads(row["tables"])}, text)

    def find_by_text(self, text: str) -> Principal | None:
        """Return the principal of the token ``text``; None if it is unknown, expired or revoked."""
        found = _TEXT.fullmatch(text)
        row = self._store.fetch_one("SELECT * FROM token WHERE id = ?", found[1]) if found else None
        # The comparison always runs, so that its time does not reveal whether the id exists.
        same = hmac.compare_digest(_hash_text(text), bytes(row["digest"]) if row else bytes(32))
        return self._find_by_number(found[1]) if found and row and same else None

    def list(self) -> list[dict[str, object]]:
        """Return every token without its secret."""
        rows = self._store.fetch_all(
            "SELECT id, name, role, tables, created, expires, revoked FROM token ORDER BY created, id"
        )
        return [{**row, "tables": json.loads(row["tables"]), "revoked": row["revoked"] is not None} for row in rows]

    def list_people(self) -> Sequence[Mapping[str, Any]]:
        """Return who has a token that is neither revoked nor expired: name, role, tables (none: all) and last day."""
        now = int(time.time())
        rows = self._store.fetch_all(
            "SELECT name, role, tables, max(expires) AS expires FROM token WHERE revoked IS NULL AND expires > ? "
            "GROUP BY name, role, tables ORDER BY role, name",
            now,
        )
        return [
            {
                "name": row["name"],
                "role": row["role"],
                "tables": json.loads(row["tables"]),
                "until": time.strftime("%Y-%m-%d", time.gmtime(row["expires"])),
            }
            for row in rows
        ]

    def revoke(self, number: str, *, also: Callable[[sqlite3.Connection, str], None] | None = None) -> None:
        """Revoke a token and the browser sessions that it opened, at once; ``also``: as in ``create``.

        Raises:
            UnknownName: the token does not exist.
        """
        with self._store.open_transaction() as db:
            changed = db.execute(
                "UPDATE token SET revoked = coalesce(revoked, ?) WHERE id = ?", (int(time.time()), number)
            )
            if not changed.rowcount:
                raise UnknownName("token", number[:40], [], fix=run("token list"))
            db.execute("DELETE FROM browser WHERE token = ?", (number,))
            db.execute("DELETE FROM login WHERE token = ?", (number,))
            if also is not None:
                also(db, number)

    def is_open(self, number: str) -> bool:
        """Return whether a token is neither revoked nor expired."""
        return self._find_by_number(number) is not None

    def find_by_number(self, number: str) -> Principal | None:
        """Return the principal of a token that is neither revoked nor expired."""
        return self._find_by_number(number)

    def create_login_link(self, number: str, *, seconds: int = LOGIN_SECONDS) -> str:
        """Return the secret of a link that opens one browser session within ``seconds``."""
        secret = secrets.token_urlsafe(32)  # allowed: a name or a key, no noise
        self._store.write("INSERT INTO login VALUES (?, ?, ?)", _hash_text(secret), number, int(time.time()) + seconds)
        return secret

    def log_in(self, secret: str, *, hours: int) -> str:
        """Return the cookie of a new browser session, for a token's text or a link's secret; a link works once.

        Raises:
            NotAllowed: the secret is neither.
        """
        person, now = self.find_by_text(secret), int(time.time())
        if person is None:
            person = self._use_link(_hash_text(secret), now)
        if person is None or person.role in MACHINES:  # they have no pages
            raise NotAllowed("This token or link is not valid: it is unknown, used, revoked or expired.")
        cookie = secrets.token_urlsafe(32)  # allowed: a session's id
        csrf = secrets.token_urlsafe(32)  # allowed: a form's proof
        with self._store.open_transaction() as db:
            db.execute("DELETE FROM browser WHERE expires <= ?", (now,))
            until = now + hours * 3_600
            db.execute("INSERT INTO browser VALUES (?, ?, ?, ?)", (_hash_text(cookie), person.token, csrf, until))
        return cookie

    def _use_link(self, digest: bytes, now: int) -> Principal | None:
        """Return the principal of a link and use it up. A wrong guess writes nothing, so it never waits."""
        if self._store.fetch_one("SELECT 1 FROM login WHERE digest = ? AND expires > ?", digest, now) is None:
            return None
        with self._store.open_transaction() as db:
            row = db.execute(
                "DELETE FROM login WHERE digest = ? AND expires > ? RETURNING token", (digest, now)
            ).fetchone()
        return self._find_by_number(row["token"]) if row else None

    def find_by_cookie(self, cookie: str) -> Principal | None:
        """Return the principal of the browser session with this cookie."""
        row = self._store.fetch_one(
            "SELECT token, csrf FROM browser WHERE digest = ? AND expires > ?", _hash_text(cookie), int(time.time())
        )
        return self._find_by_number(row["token"], csrf=row["csrf"]) if row else None

    def log_out(self, cookie: str) -> None:
        """End a browser session."""
        self._store.write("DELETE FROM browser WHERE digest = ?", _hash_text(cookie))

    def _find_by_number(self, number: str, *, csrf: str = "") -> Principal | None:
        row = self._store.fetch_one(
            "SELECT * FROM token WHERE id = ? AND revoked IS NULL AND expires > ?", number, int(time.time())
        )
        if row is None:
            return None
        return Principal(number, row["name"], row["role"], tuple(json.loads(row["tables"])), row["expires"], csrf)


def _hash_text(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
