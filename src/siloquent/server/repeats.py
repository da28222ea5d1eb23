"""Requests that make something, sent again with their key: what they made the first time, and nothing new.

The reply is kept in the transaction that makes the thing, so that a crash loses both or none, and of two at once, also
at two servers, one makes it. Answers and jobs, whose key is the ledger's as well, are kept by themselves.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from siloquent.server.guard import check_key
from siloquent.server.problems import Refused
from siloquent.server.store import Store
from siloquent.server.tokens import Principal

REPLAYED = {"Idempotency-Replayed": "true"}


class KeyTaken(Exception):
    """Another request with the same key made its thing meanwhile."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A key, whose it is, and what it is bound to beside the body: route, role and tables of the token."""

    name: str
    key: str
    route: str

    def bound(self, body: bytes) -> bytes:
        """What the key stands for: route and body, of which ``body`` is SHA-256."""
        return hashlib.sha256(self.route.encode("utf-8", "surrogatepass") + b"\0" + body).digest()


def repeat_of(request: Request, person: Principal) -> Repeat | None:
    """The key of a request that need not have one.

    Raises:
        Refused: 400, it cannot be a key.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    check_key(key)
    return Repeat(
        person.name, key, json.dumps([request.method, request.scope["path"], person.role, sorted(person.tables)])
    )


def is_known(store: Store, repeat: Repeat) -> bool:
    """Whether something was made under the key."""
    return store.fetch_one("SELECT 1 FROM made WHERE name = ? AND key = ?", repeat.name, repeat.key) is not None


def kept(store: Store, repeat: Repeat, body: bytes) -> dict[str, Any] | None:
    """What was answered under the key to the same request; None if the key is new.

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
    """Keep what is answered, within the transaction that makes it.

    Raises:
        KeyTaken: the key is known by now.
    """
    try:
        db.execute(
            "INSERT INTO made (name, key, body, document, created) VALUES (?, ?, ?, ?, ?)",
            (repeat.name, repeat.key, repeat.bound(body), json.dumps(document), int(time.time())),
        )
    except sqlite3.IntegrityError:
        raise KeyTaken from None


def key_reused(what: str = "request") -> Refused:
    """The answer to a key that stands for something else."""
    return Refused(409, "key_reused", f"This key belongs to another {what} of yours.", fix="use a new key")
