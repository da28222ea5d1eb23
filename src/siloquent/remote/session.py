"""The verbs of a session, asked of a server."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from siloquent.documents.money import told_amount
from siloquent.errors import ReleaseError, RequestError, UnknownName
from siloquent.ledger import Account
from siloquent.remote.answers import RemoteAnswer, RemoteExplanation, answer_of
from siloquent.remote.connection import UNKNOWN, Connection, Reply, find_token

if TYPE_CHECKING:
    from siloquent.door import Asks
    from siloquent.explore import Query
    from siloquent.privacy import Cost

ENDED = ("done", "failed", "cancelled")
POLL_SECONDS = 1.0


class RemoteSession:
    """One person's view of a workspace behind a server: the token says who asks and which share pays.

    ``ask``, ``explain``, ``tables``, ``account`` and ``left`` do what they do on a ``siloquent.Session``; the rest
    returns the server's documents.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed = False

    def __repr__(self) -> str:
        return f"RemoteSession({self._connection.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """This session asks nothing any more; there is nothing to give back."""
        self._closed = True

    def ask(self, question: str | Query | Asks, *, key: str | None = None, max_cost: str | None = None) -> RemoteAnswer:
        """Answer a question; see ``siloquent.Session.ask``.

        Args:
            key: An idempotency key of 1 to 64 printable characters: asking again with it is free. Without one a fresh
                key is made, under which the request is repeated if the connection breaks.
        Privacy:
            As declared for the table: charged to the token's account before a row is read.
        """
        body: dict[str, Any] = {"sql": _text(question)}
        if max_cost is not None:
            body["max_cost"] = max_cost
        reply = self._send("POST", "/answers", body, key=_key(key))
        try:
            return answer_of(reply.document(), replayed=reply.replayed)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RequestError):
            raise RequestError(
                "The server's answer cannot be read.", fix="pip install --upgrade siloquent", spent=UNKNOWN
            ) from None

    def explain(self, question: str | Query | Asks) -> RemoteExplanation:
        """What ``question`` would cost, how it would be answered, what would be left. Touches no data."""
        return RemoteExplanation(self._document("POST", "/explanations", {"sql": _text(question)}))

    def me(self) -> dict[str, Any]:
        """Who the token is for, as a document of kind ``siloquent/person/1``."""
        return self._document("GET", "/me")

    def tables(self) -> list[str]:
        """The declared tables that the token is for, by name."""
        return [one["name"] for one in self.table_lines()]

    def table_lines(self) -> list[dict[str, Any]]:
        """The lines of a document of kind ``siloquent/table-list/1``."""
        found: list[dict[str, Any]] = self._document("GET", "/tables")["tables"]
        return found

    def table_document(self, name: str) -> dict[str, Any]:
        """What is declared about a table, as a document of kind ``siloquent/table/1``.

        Raises:
            UnknownName: the token is for no such table (did you mean).
        """
        if name not in (known := self.tables()):
            raise UnknownName("table", name, known, fix="siloquent tables")
        return self._document("GET", f"/tables/{quote(name, safe='')}")

    def account(self, name: str) -> Account:
        """The account that pays for questions about table ``name``.

        Raises:
            UnknownName: as in ``table_document``.
        """
        return _account(self.table_document(name)["account"])

    def left(self, name: str) -> Cost:
        """What this token can still spend on table ``name``: the least of its account and the accounts above."""
        document = self.table_document(name)["account"]
        known = _account(document)
        return type(known.limit)(_units(document["left"], _scale(known)), known.left.delta)

    def accounts(self) -> list[dict[str, Any]]:
        """The accounts that the token may see, as documents of kind ``siloquent/account/1``."""
        found: list[dict[str, Any]] = self._document("GET", "/accounts")["accounts"]
        return found

    def entries(self, account: str, *, after: int = 0) -> list[dict[str, Any]]:
        """Up to 500 entries of an account behind the entry ``after``, as documents of kind ``siloquent/entry/1``."""
        path = f"/accounts/{quote(account)}/entries?after={after}"
        found: list[dict[str, Any]] = self._document("GET", path)["entries"]
        return found

    def account_entries(self, account: str) -> list[dict[str, Any]]:
        """All entries of an account that the token may see; none of an account that it shares with others."""
        found: list[dict[str, Any]] = []
        try:
            while more := self.entries(account, after=int(found[-1]["seq"]) if found else 0):
                found += more
        except RequestError as refused:
            if refused.code != "not_found":
                raise
        return found

    def ledger_id(self) -> str:
        """Which ledger pays."""
        return str(self._document("GET", "/ledger/head")["ledger"])

    def history(self, table: str) -> dict[str, Any]:
        """The questions asked of a table as a document of kind ``siloquent/history/1``, oldest first."""
        return self._document("GET", f"/tables/{quote(table, safe='')}/history")

    def releases(self) -> list[dict[str, Any]]:
        """The releases that the token may see, newest first, as documents of kind ``siloquent/release/1``."""
        found: list[dict[str, Any]] = self._document("GET", "/releases")["releases"]
        return found

    def release(self, name: str) -> dict[str, Any]:
        """A release's manifest as a document of kind ``siloquent/release/1``."""
        return self._document("GET", f"/releases/{quote(name, safe='')}")

    def download(self, release: str, file: str, target: Path | str, *, sha256: str | None = None) -> Path:
        """Write one file of a release to ``target``, which must not be there.

        Args:
            sha256: What the manifest says of it, in hexadecimal digits: something else is not written.
        Raises:
            RequestError: it is there, or cannot be written. ReleaseError: it is another file than the manifest's.
        """
        data = self._send("GET", f"/releases/{quote(release, safe='')}/files/{quote(file, safe='')}").body
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise ReleaseError(f"{file} is not what the manifest of {release} says.", fix="do not use it; fetch again")
        try:
            with Path(target).open("xb") as opened:
                opened.write(data)
        except OSError as failed:
            raise RequestError(f"{target} cannot be written: {failed.strerror}.", fix="name another file") from None
        return Path(target)

    def fetch(self, release: str, folder: Path | str) -> dict[str, Any]:
        """Write a release's files into a new ``folder``, each compared with the manifest; its document.

        Raises:
            RequestError: the folder is there, or a name leads out of it. ReleaseError: as in ``download``.
        """
        found, folder = self.release(release), Path(folder)
        try:
            files = [(str(one["name"]), str(one["sha256"])) for one in found["files"]]
        except (LookupError, TypeError):
            raise RequestError("The server's manifest cannot be read.", fix="pip install --upgrade siloquent") from None
        try:
            folder.mkdir()
        except OSError as failed:
            raise RequestError(f"{folder} cannot be made: {failed.strerror}.", fix="name a new folder") from None
        for name, digest in files:
            if Path(name).name != name:
                raise RequestError("The server names a file outside of the release.", fix="do not use it")
            self.download(release, name, folder / name, sha256=digest)
        return found

    def start(
        self, task: str, spec: Mapping[str, Any], *, key: str | None = None, max_cost: str | None = None
    ) -> dict[str, Any]:
        """Start work that takes longer than an answer, as a document of kind ``siloquent/job/1``.

        Args:
            task: sketch, synth, search or share.
            spec: The task's spec as plain values, as in its TOML file.
        Privacy:
            As the task's own verb, charged to the token's account under ``key``, once.
        """
        body: dict[str, Any] = {"task": task, "spec": dict(spec)}
        if max_cost is not None:
            body["max_cost"] = max_cost
        return self._send("POST", "/jobs", body, key=_key(key)).document()

    def jobs(self) -> list[dict[str, Any]]:
        """The newest jobs, as documents of kind ``siloquent/job/1``."""
        found: list[dict[str, Any]] = self._document("GET", "/jobs")["jobs"]
        return found

    def job(self, number: str) -> dict[str, Any]:
        """How far a job is."""
        return self._document("GET", f"/jobs/{quote(number, safe='')}")

    def wait(self, number: str, *, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """The job when it has ended.

        Args:
            progress: Told the number of finished steps, and of how many, whenever it changes.
        """
        last = (0, 0)
        while (found := self.job(number))["state"] not in ENDED:
            if (now := (found["done"], found["steps"])) != last and progress is not None:
                progress(*now)
            last = now
            time.sleep(POLL_SECONDS)
        return found

    def cancel(self, number: str) -> dict[str, Any]:
        """End a job that is not done. What it was charged stays."""
        return self._document("DELETE", f"/jobs/{quote(number, safe='')}")

    def _document(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self._send(method, path, body).document()

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> Reply:
        if self._closed:
            raise RequestError("This session is closed.", fix="siloquent.connect(ADDRESS)")
        return self._connection.send(method, path, body, key=key)


def connect(address: str, *, token_file: Path | str | None = None) -> RemoteSession:
    """A session at the server of ``address``. The token comes from a file or the environment, never from code.

    Args:
        address: ``https://..``; ``http://`` within this machine only.
        token_file: A file of mode 600 (default: SILOQUENT_TOKEN, or the file that SILOQUENT_TOKEN_FILE names).
    Raises:
        NotAllowed: there is no token, or others may read its file.
        RequestError: the address cannot be one.
    """
    return RemoteSession(Connection(address, find_token(token_file)))


def _text(question: str | Query | Asks) -> str:
    from siloquent.explore import Query
    from siloquent.explore.spec import render

    if isinstance(question, str):
        return question
    return render(question if isinstance(question, Query) else question.query())


def _key(key: str | None) -> str:
    """``key``, or a fresh one; what cannot be a key is refused before it is sent.

    Raises:
        RequestError: it cannot be one.
    """
    if key is None:
        return f"py-{uuid.uuid4().hex[:20]}"
    if not isinstance(key, str) or not 1 <= len(key) <= 64 or not key.isascii() or not key.isprintable():
        raise RequestError("A key has 1 to 64 printable characters.", fix=f"key={json.dumps(str(key)[:40])}")
    return key


def _account(document: Mapping[str, Any]) -> Account:
    from siloquent.privacy import ATTO, Cost, accountant

    scale = accountant(document["accountant"]).scale
    limit, spent = (
        Cost(_units(document[name], scale), _units(document[f"delta_{name}"], ATTO)) for name in ("limit", "spent")
    )
    return Account(
        name=document["name"],
        parent=document["parent"],
        accountant=document["accountant"],
        unit=document["unit"],
        adjacency=document["adjacency"],
        limit=limit,
        spent=spent,
        successor=document["successor"],
    )


def _scale(account: Account) -> int:
    from siloquent.privacy import accountant

    return accountant(account.accountant).scale


def _units(text: str, scale: int) -> int:
    return int(told_amount(text) * scale)
