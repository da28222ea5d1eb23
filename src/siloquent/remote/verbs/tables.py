"""Tables: what is declared, what is left, and their owner's work on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.documents.money import told_amount
from siloquent.errors import LedgerError, RequestError, UnknownName
from siloquent.ledger import Account
from siloquent.remote.calls import Call, call
from siloquent.remote.documents import Check, History, Person, Table, TableLine, Upload
from siloquent.remote.exchange import Steps
from siloquent.remote.faces import Face, verb
from siloquent.remote.told import listed
from siloquent.remote.verbs.asking import checked_key

if TYPE_CHECKING:
    from siloquent.privacy import Cost


class TableVerbs(Face):
    """What is declared and what is left; declare, check and upload for owners."""

    @verb
    def me(self) -> Steps[Person]:
        """Who the token is for, its role and its tables."""
        return (yield from self._told(Person, call("me")))

    @verb
    def tables(self) -> Steps[list[str]]:
        """The declared tables that the token is for, by name."""
        return [one.name for one in (yield from _lines(self))]

    @verb
    def table_lines(self) -> Steps[list[TableLine]]:
        """The tables that the token is for, with what is left of each."""
        return (yield from _lines(self))

    @verb
    def table_document(self, name: str) -> Steps[Table]:
        """What is declared about a table.

        Raises:
            UnknownName: the token is for no such table (did you mean).
        """
        return (yield from _table(self, name))

    @verb
    def account(self, name: str) -> Steps[Account]:
        """The account that pays for questions about table ``name``.

        Raises:
            UnknownName: as in ``table_document``.
        """
        table = yield from _table(self, name)
        return account_of(table.account)

    @verb
    def left(self, name: str) -> Steps[Cost]:
        """What this token can still spend on table ``name``: the least of its account and the accounts above."""
        table = yield from _table(self, name)
        known = account_of(table.account)
        return type(known.limit)(_units(table.account["left"], _scale(known)), known.left.delta)

    @verb
    def history(self, table: str) -> Steps[History]:
        """The newest 1,000 questions that were asked of a table, oldest first."""
        return (yield from self._told(History, call("table_history", {"table": table})))

    @verb
    def declare(self, table: str, toml: str, *, if_match: str | None = None, if_new: bool = False) -> Steps[Table]:
        """Declare a table by the text of its table file, or declare it anew. What was spent stays spent. For owners.

        Args:
            if_match: The ``tag`` of the declaration that this one takes the place of; another one is not touched.
            if_new: Only if the table has no declaration yet.
        Raises:
            SchemaError: the text declares no such table.
            RequestError: the ledger cannot go on with it, or ``code`` is ``precondition_failed``: somebody was faster.
        """
        headers = {name: told for name, told in (("If-Match", if_match), ("If-None-Match", "*" * if_new)) if told}
        return (yield from _tagged(self, call("put_table", {"table": table}, body={"toml": toml}, headers=headers)))

    @verb
    def check(self, table: str) -> Steps[Check]:
        """What is wrong with a table's rows, in exact counts: for its owner only, no privacy."""
        return (yield from self._told(Check, call("check_table", {"table": table})))

    @verb
    def upload(self, file: Path | bytes, *, key: str | None = None) -> Steps[Upload]:
        """Upload a CSV or Parquet file; its ``source`` is what a table file names. For owners.

        Args:
            key: Sent again with its key, a file is kept once; without one a fresh key is made.
        Raises:
            RequestError: the file cannot be read, or is of another kind.
        """
        if not isinstance(file, bytes) and not Path(file).is_file():
            raise RequestError(f"{file} is not a file.", fix="name a CSV or Parquet file")
        data = file if isinstance(file, bytes) else Path(file)
        return (yield from self._told(Upload, call("upload", data=data, key=checked_key(key))))

    @verb
    def uploads(self) -> Steps[list[Upload]]:
        """The newest 100 uploads. For owners."""
        document = yield from self._document(call("list_uploads"))
        return listed(Upload, document, "uploads")

    @verb
    def delete_upload(self, upload: str) -> Steps[None]:
        """Delete an uploaded file that no table names. For owners."""
        yield from self._send(call("delete_upload", {"upload": upload}))


def _lines(face: Face) -> Steps[list[TableLine]]:
    document = yield from face._document(call("list_tables"))
    return listed(TableLine, document, "tables")


def _table(face: Face, name: str) -> Steps[Table]:
    known = [one.name for one in (yield from _lines(face))]
    if name not in known:
        raise UnknownName("table", name, known, fix="siloquent tables")
    return (yield from _tagged(face, call("show_table", {"table": name})))


def _tagged(face: Face, asked: Call) -> Steps[Table]:
    """A table with the tag of its declaration."""
    reply = yield from face._send(asked)
    found = Table(reply.document())
    found.tag = reply.headers.get("etag")
    return found


def account_of(document: Mapping[str, Any]) -> Account:
    """The account of a document of kind ``siloquent/account/1``.

    Raises:
        RequestError: it cannot be read.
    """
    from siloquent.privacy import ATTO, Cost, accountant

    try:
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
    except (LedgerError, RequestError, LookupError, TypeError, ValueError):
        raise RequestError("The server's account cannot be read.", fix="pip install --upgrade siloquent") from None


def _scale(account: Account) -> int:
    from siloquent.privacy import accountant

    return accountant(account.accountant).scale


def _units(text: str, scale: int) -> int:
    return int(told_amount(text) * scale)
