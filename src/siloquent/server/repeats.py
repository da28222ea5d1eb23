"""Idempotency of requests that create something: a repeated key returns the first result and creates nothing.

The reply is stored in the transaction that creates the thing, so that a crash loses both or neither, and of two
simultaneous requests, even at two servers, one creates it. Answers and jobs, whose key is also the ledger's, are
stored separately.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import string
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused
from siloquent.server.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request

REPLAYED = {"Idempotency-Replayed": "true"}
_PRINTABLE = frozenset(string.printable[:95])


class KeyTaken(Exception):
    """Another request with the same key created its thing in the meantime."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key, its person, and what it is bound to beside the body: route, role and tables of the token."""

    name: str
    key: str
    route: str

    def bound(self, body: bytes) -> bytes:
        """Return what the key identifies: the route and the body, whose SHA-256 is ``body``."""
        return hashlib.sha256(self.route.encode("utf-8", "surrogatepass") + b"\0" + body).digest()


def read_key(request: Request) -> str:
    """Return the idempotency key of a request that spends.

    Raises:
        Refused: the key is missing or invalid.
    """
    return _read_only_key(request) or ""


def _read_only_key(request: Request, *, is_required: bool = True) -> str | None:
    """Return the request's one key: of two, a proxy in front could take the other one than this server."""
    keys = request.headers.getlist("idempotency-key")
    if not keys and not is_required:
        return None
    key = keys[0] if len(keys) == 1 else ""
    check_key(key)
    return key


def check_key(key: str) -> None:
    """Refuse an invalid key.

    Raises:
        Refused: 400.
    """
    if not 1 <= len(key) <= 64 or not set(key) <= _PRINTABLE:
        raise Refused(
            400,
            "idempotency_key_missing",
            "A request that spends needs one header Idempotency-Key with 1 to 64 printable characters; sending it "
            "again is safe.",
            fix="Idempotency-Key: monday-report",
        )


def repeat_of(request: Request, person: Principal) -> Repeat | None:
    """Return the key of a request for which a key is optional; None without one.

    Raises:
        Refused: 400, the key is invalid.
    """
    key = _read_only_key(request, is_required=False)
    if key is None:
        return None
    return Repeat(
        person.name, key, json.dumps([request.method, request.scope["path"], person.role, sorted(person.tables)])
    )


def is_known(store: Store, repeat: Repeat) -> bool:
    """Return whether something was created under the key."""
    return store.fetch_one("SELECT 1 FROM made WHERE name = ? AND key = ?", repeat.name, repeat.key) is not None


def find_reply(store: Store, repeat: Repeat, body: bytes) -> dict[str, Any] | None:
    """Return the reply stored under the key for the same request; None if the key is new.

    Raises:
        Refused: 409, the key belongs to another request.
    """
    row = store.fetch_one("SELECT body, document FROM made WHERE name = ? AND key = ?", repeat.name, repeat.key)
    if row is None:
        return None
    if bytes(row["body"]) != repeat.bound(body):
        raise key_reused()
    found: dict[str, Any] = json.loads(row["document"])
    return found


def keep(db: sqlite3.Connection, repeat: Repeat, body: bytes, document: dict[str, Any]) -> None:
    """Store the reply, within the transaction that creates the thing.

    Raises:
        KeyTaken: the key is already in use.
    """
    try:
        db.execute(
            "INSERT INTO made (name, key, body, document, created) VALUES (?, ?, ?, ?, ?)",
            (repeat.name, repeat.key, repeat.bound(body), json.dumps(document), int(time.time())),
        )
    except sqlite3.IntegrityError:
        raise KeyTaken from None


def key_reused(what: str = "request") -> Refused:
    """Return the refusal of a key that belongs to another request."""
    return Refused(409, "key_reused", f"This key belongs to another {what} of yours.", fix="use a new key")


def build_ledger_key(name: str, key: str) -> str:
    """Return the ledger key; it contains the name, so that keys of analysts who share an account do not collide."""
    return hashlib.sha256(f"{name}|{key}".encode()).hexdigest()[:48]
