"""Tables: declarations, remaining budgets, and the owner's work on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from siloquent.documents.ledger import parse_amount
from siloquent.errors import LedgerError, RequestError, UnknownName
from siloquent.fixes import run
from siloquent.ledger import Account
from siloquent.remote.api_document import read_list
from siloquent.remote.calls import ApiCall, build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import Check, History, Person, ProtectionReport, Refreshed, Table, TableLine, Upload
from siloquent.remote.exchange import Steps
from siloquent.remote.verbs.asking import require_key
from siloquent.schema.files.reading_edits import name_source

if TYPE_CHECKING:
    from siloquent.ledger.budget_status import BudgetStatus
    from siloquent.privacy import Cost
    from siloquent.schema import TableSchema


class SupportsToml(Protocol):
    """Any object that declares a table as text, such as the result of ``siloquent.declare``."""

    def to_schema(self) -> TableSchema:
        """Return the finished declaration."""
        ...

    def to_toml(self) -> str:
        """Return the table file."""
        ...


class TableVerbs(ApiClient):
    """The verbs for declarations and remaining budgets; declare, check and upload are for owners."""

    @verb
    def get_person(self) -> Steps[Person]:
        """Return the holder of the token, its role and its tables."""
        return (yield from self._fetch_as(Person, build_call("me")))

    @verb
    def list_tables(self) -> Steps[list[str]]:
        """Return the names of the declared tables that the token is for."""
        return [one.name for one in (yield from _fetch_table_lines(self))]

    @verb
    def list_table_lines(self) -> Steps[list[TableLine]]:
        """Return the tables that the token is for, with the remaining budget of each."""
        return (yield from _fetch_table_lines(self))

    @verb
    def get_table_document(self, name: str) -> Steps[Table]:
        """Return the declaration of a table.

        Raises:
            UnknownName: the token is for no such table (with suggestions).
        """
        return (yield from _fetch_table(self, name))

    @verb
    def get_account(self, name: str) -> Steps[Account]:
        """Return the account that pays for questions about table ``name``.

        Raises:
            UnknownName: as in ``get_table_document``.
        """
        table = yield from _fetch_table(self, name)
        return build_account(table.account)

    @verb
    def get_remaining(self, name: str) -> Steps[Cost]:
        """Return what this token can still spend on table ``name``: the least of its account and the accounts above."""
        table = yield from _fetch_table(self, name)
        known = build_account(table.account)
        return type(known.limit)(_parse_units(table.account["left"], _compute_scale(known)), known.left.delta)

    @verb
    def get_budget(self, name: str) -> Steps[BudgetStatus]:
        """Return what this token may spend on table ``name``, what is spent and what is left, as a readable value."""
        from siloquent.ledger.budget_status import build_budget_status
        from siloquent.schema import Unit

        account = yield from TableVerbs.get_account(self, name)
        left = yield from TableVerbs.get_remaining(self, name)
        return build_budget_status(name, account, left, unit=Unit.from_code(account.unit).description)

    @verb
    def get_history(self, table: str) -> Steps[History]:
        """Return the newest 1,000 questions asked about a table, oldest first."""
        return (yield from self._fetch_as(History, build_call("table_history", {"table": table})))

    @verb
    def declare(
        self,
        table: str | SupportsToml,
        toml: str | None = None,
        *,
        source: str | None = None,
        if_match: str | None = None,
        if_new: bool = False,
        new_epoch: str | None = None,
    ) -> Steps[Table]:
        """Declare a table by the text of its table file, or redeclare it. Charges remain. For owners.

        The result's ``changes`` say what each change means for what was charged before.

        Args:
            table: The table's name; or a declaration from ``siloquent.declare``, which is the text, too.
            source: The place of the rows, in place of the text's own: the ``source`` of an upload.
            if_match: The ``tag`` of the declaration to replace; a declaration with another tag is not changed.
            if_new: Only if the table has no declaration yet.
            new_epoch: For another unit, adjacency or accountant, with ``if_match``: "the budgets add up", or "these are
                new people". It closes the old account for good and opens a new budget.
        Raises:
            SchemaError: the text declares no such table.
            RequestError: the ledger does not permit the change, or ``code`` is ``precondition_failed``: the declaration
                was changed in the meantime.
        """
        if not isinstance(table, str):
            declaration = table
            table, toml = declaration.to_schema().name, declaration.to_toml()
        if toml is None:
            raise RequestError("A name alone declares no table.", fix="session.declare(table, toml)")
        toml = toml if source is None else name_source(toml, source)
        body = {"toml": toml, **({} if new_epoch is None else {"new_epoch": new_epoch})}
        headers = {name: told for name, told in (("If-Match", if_match), ("If-None-Match", "*" * if_new)) if told}
        return (yield from _fetch_tagged(self, build_call("put_table", {"table": table}, body=body, headers=headers)))

    @verb
    def check(self, table: str) -> Steps[Check]:
        """Return the problems in a table's rows, as exact counts: for its owner only, not private."""
        return (yield from self._fetch_as(Check, build_call("check_table", {"table": table})))

    @verb
    def get_report(self, table: str | None = None) -> Steps[ProtectionReport]:
        """Return what is declared, who may ask and what was spent, for a data protection officer. For owners."""
        return (yield from self._fetch_as(ProtectionReport, build_call("show_report", query={"table": table})))

    @verb
    def refresh(self, table: str, source: str | None = None, *, despite_findings: bool = False) -> Steps[Refreshed]:
        """Replace a table's rows after a check; what was spent stays, and earlier answers are not drawn from.

        For its owner only: the check has exact counts.

        Args:
            source: The new rows, such as the ``source`` of an upload; None: the table's own source holds them already.
            despite_findings: Take rows in which the check finds problems, too.
        Raises:
            SchemaError: the rows do not fit the declaration; they stay as they were.
            RequestError: ``code`` is ``source_not_allowed``: rows in that place are not replaced over HTTP.
        """
        body = {"source": source, "despite_findings": despite_findings}
        return (yield from self._fetch_as(Refreshed, build_call("refresh_table", {"table": table}, body=body)))

    @verb
    def upload(self, file: Path | bytes, *, key: str | None = None) -> Steps[Upload]:
        """Upload a CSV or Parquet file; its ``source`` is the name for use in a table file. For owners.

        Args:
            key: A request repeated with its key stores one file; without one a fresh key is made.
        Raises:
            RequestError: the file cannot be read, or its type is not supported.
        """
        if not isinstance(file, bytes) and not Path(file).is_file():
            raise RequestError(f"{file} is not a file.", fix="name a CSV or Parquet file")
        data = file if isinstance(file, bytes) else Path(file)
        return (yield from self._fetch_as(Upload, build_call("upload", data=data, key=require_key(key))))

    @verb
    def list_uploads(self) -> Steps[list[Upload]]:
        """Return the newest 100 uploads. For owners."""
        document = yield from self._fetch_document(build_call("list_uploads"))
        return read_list(Upload, document, "uploads")

    @verb
    def delete_upload(self, upload: str) -> Steps[None]:
        """Delete an uploaded file that no table names. For owners."""
        yield from self._send(build_call("delete_upload", {"upload": upload}))


def _fetch_table_lines(face: ApiClient) -> Steps[list[TableLine]]:
    document = yield from face._fetch_document(build_call("list_tables"))
    return read_list(TableLine, document, "tables")


def _fetch_table(face: ApiClient, name: str) -> Steps[Table]:
    known = [one.name for one in (yield from _fetch_table_lines(face))]
    if name not in known:
        raise UnknownName("table", name, known, fix=run("tables"))
    return (yield from _fetch_tagged(face, build_call("show_table", {"table": name})))


def _fetch_tagged(face: ApiClient, asked: ApiCall) -> Steps[Table]:
    """Return a table with the tag of its declaration."""
    reply = yield from face._send(asked)
    found = Table(reply.require_document())
    found.tag = reply.headers.get("etag")
    return found


def build_account(document: Mapping[str, Any]) -> Account:
    """Return the account in a document of kind ``siloquent/account/1``.

    Raises:
        RequestError: the document is invalid.
    """
    from siloquent.privacy import ATTO, Cost, get_accountant

    try:
        scale = get_accountant(document["accountant"]).scale
        limit, spent = (
            Cost(_parse_units(document[name], scale), _parse_units(document[f"delta_{name}"], ATTO))
            for name in ("limit", "spent")
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


def _compute_scale(account: Account) -> int:
    from siloquent.privacy import get_accountant

    return get_accountant(account.accountant).scale


def _parse_units(text: str, scale: int) -> int:
    return int(parse_amount(text) * scale)
