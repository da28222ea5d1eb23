"""The accounts that a session charges: opened at the first charge, kept to what is declared, renewed by their owner."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from siloquent.errors import (
    DataError,
    LedgerError,
    MissingExtra,
    NotAllowed,
    RequestError,
    SchemaError,
    SiloquentError,
    UnknownName,
)
from siloquent.fixes import build_fix, let_owner_run, run
from siloquent.ledger import Account, Ledger
from siloquent.ledger.declared import EVERYTHING, ComparedFile, RecordedDeclarations, Refresh
from siloquent.ledger.rules import (
    ADDS_UP,
    NEW_PEOPLE,
    build_account,
    build_refusal,
    find_short_account,
    format_cost,
    open_epoch_of,
    parse_table_name,
    price_event,
)
from siloquent.privacy import Cost, Event
from siloquent.privacy.accountants import AccountantName
from siloquent.schema import TableSchema
from siloquent.schema.changes import DeclarationChange, describe_declaration, restore_planning_facts
from siloquent.schema.earlier_columns import restore_columns
from siloquent.schema.table import list_tables_of
from siloquent.schema.workspace import Workspace
from siloquent.session.budget_edits import Amount, writing_budget
from siloquent.session.declared_limits import compute_budget_limit, compute_share_limits

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger.budget_status import BudgetStatus
    from siloquent.ledger.marks import SourceMark

MAX_EARLIER = 50
"""The number of earlier declarations under which the charge of a key is looked for."""


class SessionAccounts:
    """The part of a session that knows its accounts, and the declarations and rows that the ledger records of them."""

    def __init__(self, workspace: Workspace, ledger: Ledger, analyst: str | None) -> None:
        self.workspace, self.ledger, self.analyst = workspace, ledger, analyst
        self._declared = RecordedDeclarations(ledger)
        self._described: dict[str, tuple[TableSchema, dict[str, Any]]] = {}

    @abstractmethod
    def list_tables(self) -> list[str]:
        """Return the names of the declared tables."""

    @abstractmethod
    def schema(self, name: str) -> TableSchema:
        """Return the declaration of table ``name``."""

    @property
    @abstractmethod
    def earlier(self) -> str:
        """The changes of a declaration since, in a session as of an earlier one; else empty."""

    @abstractmethod
    def table(self, name: str) -> PrivateTable:
        """Return the private table ``name``."""

    @abstractmethod
    def compute_source_mark(self, table: PrivateTable) -> SourceMark:
        """Compute the marks of the rows of ``table`` as opened."""

    def find_table(self, payer: str) -> str:
        """Return a table that ``payer`` pays for: the table of that name, or the first of a unit (``unit.NAME``).

        Raises:
            UnknownName: no table is linked to that unit.
        """
        unit = payer.removeprefix("unit.")
        if unit == payer:
            return payer
        known = {}
        for name in reversed(self.list_tables()):
            with suppress(SiloquentError):  # a table that cannot be read is told where it is asked for
                known[self.schema(name).unit.of] = name
        if unit not in known:
            raise UnknownName("unit with linked tables", unit, filter(None, known))
        return known[unit]

    def get_account(self, name: str) -> Account:
        """Return the account charged for queries on table ``name``.

        Looking writes nothing: until the first reservation it is as declared, with nothing spent, and in no ledger.

        Raises:
            LedgerError: the ledger holds the account with other settings than the table file now declares.
            NotAllowed: the table lists its analysts and this one is not listed.
        """
        return self._list_charged(name)[0]

    def list_accounts(self) -> list[Account]:
        """Return the ledger's accounts, and those of declared tables to which nothing was charged yet, by name."""
        known = {one.name: one for one in self.ledger.list_accounts()}
        for name in self.list_tables():
            with suppress(SiloquentError):  # a table that cannot be read, or in which this analyst has no share
                known = {**{one.name: one for one in self._list_charged(name)}, **known}
        return [known[name] for name in sorted(known)]

    def open_account(self, account: str, event: Event, *, table: str = "") -> None:
        """Open ``account``, with those above it, if ``event`` is the first charge to it.

        Args:
            table: The table that is asked about; empty if the account is its own.
        Raises:
            BudgetExceeded: the declared budget does not cover ``event``. NotAllowed: its price is invalid there. The
                account stays unopened, so that its declaration can still be changed freely.
        """
        name = table or parse_table_name(account)
        if self._find_account(account) is not None:
            if list_tables_of(name)[0] in self.list_tables() and self.schema(name).account == account.partition("/")[0]:
                self.record_declaration(name)
            return
        line = self._list_charged(name)
        if self._find_account(line[-1].name) is None:  # afterwards the ledger refuses, and records it
            cost = price_event(line, event)
            if (short := find_short_account(line, cost)) is not None:
                raise build_refusal(short, cost)
        for one in reversed(line):
            own: dict[str, Any] = {key: getattr(one, key) for key in ("accountant", "unit", "adjacency", "disclosures")}
            own["declaration"] = self._describe(self.schema(name))
            self.ledger.open_account(one.name, limit=one.limit, parent=one.parent, **({} if one.parent else own))
        self.record_declaration(name)

    def list_files_alike(
        self, schema: TableSchema, columns: Collection[str] | None = None, also: Sequence[str] = ()
    ) -> list[str]:
        """Return the digests of recorded table files under which a request on ``columns`` means as under ``schema``.

        Args:
            schema: Of today, or with the digest of an earlier file: none if that was never recorded.
            columns: The columns that the request reads; None: all, in their order.
            also: Further declared facts that it depends on, such as ``size_hint``.
        """
        return [one.digest for one in self.compare_files(schema, columns, also) if not one.differs]

    def compare_files(
        self, schema: TableSchema, columns: Collection[str] | None = None, also: Sequence[str] = ()
    ) -> list[ComparedFile]:
        """Compare the recorded table files with ``schema``, newest first.

        Args:
            schema, columns, also: As for ``list_files_alike``.
        """
        is_current = self.schema(schema.name).digest == schema.digest
        declared = (
            self._describe(self.schema(schema.name))
            if is_current
            else self._declared.get_file(schema.account, schema.digest, table=schema.entry_name)
        )
        return [] if declared is None else self._declared.compare_files(schema.account, declared, columns, also)

    def restore_declaration(self, schema: TableSchema, file: str) -> TableSchema:
        """Return ``schema`` with the facts that only planning reads as recorded of the table file ``file``."""
        recorded = self._declared.get_file(schema.account, file, table=schema.entry_name)
        return schema if recorded is None else restore_planning_facts(schema, recorded)

    def restore_columns(self, schema: TableSchema, file: str) -> TableSchema | None:
        """Return ``schema`` with the columns recorded of the table file ``file``; None where that cannot be."""
        recorded = self._declared.get_file(schema.account, file, table=schema.entry_name)
        if recorded is None:
            return None
        related = [
            [then for each in self.list_files(one) if (then := self.restore_columns(one, each)) is not None]
            for one in schema.related
        ]
        return restore_columns(schema, recorded, related)

    def list_relations(self, name: str) -> list[str]:
        """Return the relations with table ``name`` that were charged, newest first."""
        recorded = self._declared.list_tables(self.schema(name).account)
        return [one for one in recorded if one != name and name in list_tables_of(one)]

    def list_files(self, schema: TableSchema) -> list[str]:
        """Return the digests of the newest recorded table files under which a column was declared otherwise."""
        return [one.digest for one in self.compare_files(schema)[:MAX_EARLIER] if one.differs]

    def describe_differences(self, schema: TableSchema, file: str) -> str:
        """Return what ``schema`` declares otherwise than the recorded table file ``file``, as text."""
        return next((one.differs for one in self.compare_files(schema) if one.digest == file), "")

    def record_declaration(self, name: str) -> None:
        """Record how table ``name`` is declared now, if its account is open and recorded something else last."""
        if self.earlier:
            return
        schema = self.schema(name)
        if self._find_account(schema.account) is not None:
            for one in (schema, *schema.related):  # of a related table, the relation's own record has a digest only
                self._declared.record(schema.account, self._describe(one))

    def list_changes(self, name: str) -> tuple[DeclarationChange, ...]:
        """Return what is declared of table ``name`` otherwise than recorded at its account, each change with its class.

        Empty while nothing is charged to the table: until then everything can be changed freely.
        """
        return self.compare_with_recorded(self.schema(name))

    def compare_with_recorded(self, schema: TableSchema) -> tuple[DeclarationChange, ...]:
        """Return what ``schema``, declared or to be declared, says otherwise than the ledger records, as classed."""
        account = self._find_account(schema.account)
        if account is None or account.successor:
            account = self._find_newest_epoch(schema.payer)
        return () if account is None else self._declared.find_changes(account, self._describe(schema))

    def build_epoch_refusal(self, schema: TableSchema) -> LedgerError | None:
        """Build the refusal of ``schema`` if it makes another promise than the newest epoch's; None if it does not."""
        newest = self._find_newest_epoch(schema.payer)
        changes = self.compare_with_recorded(schema)
        if newest is None or not any(one.effect == "new epoch" for one in changes):
            return None
        return self._build_epoch_refusal(newest, changes)

    def find_rows_since(self, name: str) -> int:
        """Return the newest entry before which other rows of table ``name`` counted; answers up to it are not reused.

        Rows of a user that count are chosen by all columns together: with other columns, others may count.
        """
        schema = self.schema(name)
        since = self._declared.find_rows_since(schema.account, self._describe(schema))
        # What is declared of the tables that it is linked through is a part of its own declaration.
        return max(since, *(self._find_refresh(one).seq for one in (schema, *schema.ancestors)))

    def find_refresh(self, name: str, before: int = EVERYTHING) -> Refresh:
        """Return the newest recorded replacement of the rows of table ``name`` before entry ``before``."""
        return self._find_refresh(self.schema(name), before)

    def _find_refresh(self, schema: TableSchema, before: int = EVERYTHING) -> Refresh:
        return self._declared.find_refresh(schema.account, before, table=schema.entry_name)

    def find_replacement(self, account: str, seq: int, *, table: str) -> str:
        """Return when the rows that entry ``seq`` of ``account`` is about gave way to others; empty: they count now.

        Only what the ledger records is known here: refreshes and declared new versions, in that epoch and the current.

        Args:
            table: The table that the entry is about.
        """
        whole = account.partition("/")[0]
        if list_tables_of(table)[0] not in self.list_tables():
            return self._declared.find_replacement(whole, seq)
        schema = self.schema(table)
        found = (
            self._declared.find_replacement(one, seq, table=each.entry_name)
            for one in (whole, schema.account)
            for each in (schema, *schema.ancestors)
        )
        return next(filter(None, found), "")

    def find_rows_start(self, name: str) -> tuple[int, str]:
        """Return the entry and the time since when the rows of table ``name`` count; (0, ""): as first declared."""
        schema = self.schema(name)
        starts = (
            self._declared.find_rows_start(one.account, table=one.entry_name) for one in (schema, *schema.ancestors)
        )
        return max(starts)

    def find_rows_of(self, name: str, seq: int) -> Refresh | None:
        """Return the refresh that put the rows of entry ``seq`` in place; None if others are in place now.

        A source that changed without a refresh is recognised by its mark.
        """
        of_entry, newest = self.find_refresh(name, seq), self.find_refresh(name)
        if of_entry != newest:
            return None
        entry = next(iter(self.ledger.iter_entries(after=seq - 1)), None)
        mark = "" if entry is None else str(entry.body.get("source_mark", ""))
        try:
            return newest if self.compute_source_mark(self.table(name)).fits(mark) else None
        except (SchemaError, DataError, MissingExtra):  # a missing source has not changed
            return newest

    def open_epoch(self, name: str, *, statement: str = "") -> Account:
        """Close the newest epoch of table ``name`` and open the next one, as declared now. Its file is not written.

        Args:
            statement: Whether persons may be in both epochs, as in ``siloquent.ledger.rules``; needless if nothing was
                ever charged to the old one.
        Raises:
            RequestError: nothing was charged to the table, so that no epoch is needed; or the statement is missing.
        """
        schema = self.schema(self.find_table(name))
        newest = self._find_newest_epoch(schema.payer)
        if newest is None:
            raise RequestError(
                f"Nothing was charged to {name} yet: no new epoch is needed, and everything can still be redeclared.",
                fix=run("check", name),
            )
        known = self._find_account(schema.account)
        if known is not None and known.successor and _list_settings(newest) == _list_declared(schema):
            return newest  # its number was not written into the file yet
        number = _count_epoch(schema, newest)
        stated = statement.strip().rstrip(".").casefold()
        if not self.is_charged(newest.name):
            stated = stated or "nothing was charged before"
        elif stated not in (NEW_PEOPLE, ADDS_UP):
            raise RequestError(
                f"A new epoch is the owner's statement: {ADDS_UP!r} if persons may have been in the table before, or "
                f"{NEW_PEOPLE!r} if none was.",
                fix=open_epoch_of(name),
            )
        after = replace(schema, budget=replace(schema.budget, epoch=number))
        accountant, unit, adjacency = _list_declared(schema)
        limit, allowed = compute_budget_limit(schema.budget), schema.budget.disclosures
        wanted = build_account(
            after.account, None, limit=limit, accountant=accountant, unit=unit, adjacency=adjacency, disclosures=allowed
        )
        told = describe_declaration(after)
        return self.ledger.open_epoch(newest.name, after.account, statement=stated, settings=wanted, declaration=told)

    def find_next_epoch(self, schema: TableSchema) -> int:
        """Return the number of the epoch that ``open_epoch`` would open for ``schema``."""
        newest = self._find_newest_epoch(schema.payer)
        return schema.budget.epoch if newest is None else _count_epoch(schema, newest)

    def is_charged(self, account: str) -> bool:
        """Return whether anything was ever reserved under ``account``, even at no cost."""
        known = self._find_account(account)
        if known is None or known.spent != Cost(0):
            return known is not None
        return any(one.kind == "reserve" for one in self.ledger.iter_entries(account=account))

    def _describe(self, schema: TableSchema) -> dict[str, Any]:
        known = self._described.get(schema.name)
        if known is None or known[0] is not schema:
            self._described[schema.name] = known = (schema, describe_declaration(schema))
        return known[1]

    def _find_newest_epoch(self, name: str) -> Account | None:
        """Return the account of the newest epoch of ``name``, a table or ``unit.NAME``; None if nothing was charged."""
        found = [one for one in self.ledger.list_accounts() if one.parent is None and one.name.startswith(f"{name}@")]
        return max(found, key=lambda one: int(one.name.rpartition("@")[2]), default=None)

    def _list_charged(self, name: str) -> list[Account]:
        """Return the account of this session on table ``name`` and those above it."""
        name = self.find_table(name)
        schema = self.schema(name)
        whole = compute_budget_limit(schema.budget)
        account = self._read_account(schema.account, whole, schema)
        shares = dict(schema.budget.shares)
        if self.analyst is None or not shares:
            return [account]
        if self.analyst not in shares:
            raise NotAllowed(
                f"{self.analyst!r} has no share of {name!r}.",
                fix=build_fix(f'{self.analyst} = "0.1" in analysts, then: ', let_owner_run("budget set", name)),
            )
        part = shares[self.analyst]
        limit = Cost(math.floor(whole.amount * part), math.floor(whole.delta * part))
        return [self._read_account(f"{schema.account}/{self.analyst}", limit, schema, parent=account), account]

    def get_remaining(self, name: str) -> Cost:
        """Return this session's remaining budget for table ``name``: the minimum over its account and all parents."""
        left = [account.left for account in self._list_charged(name)]
        return Cost(min(one.amount for one in left), min(one.delta for one in left))

    def get_budget(self, name: str) -> BudgetStatus:
        """Return what this session may spend on table ``name``, what is spent and what is left, as a readable value."""
        from siloquent.ledger.budget_status import build_budget_status

        schema = self.schema(self.find_table(name))
        delta = schema.budget.delta - schema.budget.delta_events
        account, left = self.get_account(name), self.get_remaining(name)
        return build_budget_status(name, account, left, unit=schema.unit.description, delta=delta)

    def set_budget(self, name: str, *, epsilon: Amount | None = None, rho: Amount | None = None) -> Account:
        """Update the ledger's limits to the table file's, for the table and every analyst's share.

        An account to which nothing was charged yet is not in the ledger, and has the declared limit without this.

        Args:
            epsilon: Declare this whole budget in the table's file first; so ``rho``, if the file declares rho.
        Raises:
            RequestError: a new limit is below the amount already spent; the file stays as it was.
            SchemaError: the file must be edited by hand. NotAllowed: an analyst may not declare a budget.
        """
        name = self.find_table(name)
        with writing_budget(self.workspace.folder, self.schema(name), self.analyst, epsilon=epsilon, rho=rho):
            return self._apply_limits(name)

    def _apply_limits(self, name: str) -> Account:
        schema = self.schema(name)
        whole = compute_budget_limit(schema.budget)
        account = self._find_account(schema.account)
        if account is not None and account.limit != whole:
            self._set_limit(name, schema.account, whole)
        for share, limit in self.share_limits(name).items():
            known = self._find_account(share)
            if known is not None and known.limit != limit:
                self._set_limit(name, share, limit)
        account = self._read_account(schema.account, whole, schema)
        self.record_declaration(name)
        return account

    def has_declared_limits(self, name: str) -> bool:
        """Return whether the ledger's limits of table ``name`` and its shares are those that its file declares."""
        schema = self.schema(name)
        limits = {schema.account: compute_budget_limit(schema.budget), **self.share_limits(name)}
        known = {account: self._find_account(account) for account in limits}
        return all(one is None or one.limit == limits[account] for account, one in known.items())

    def share_limits(self, name: str) -> dict[str, Cost]:
        """Return the declared limit of every analyst's share of table ``name``, by the share's account."""
        return compute_share_limits(self.schema(self.find_table(name)))

    def _set_limit(self, name: str, account: str, limit: Cost) -> None:
        try:
            self.ledger.set_limit(account, limit)
        except RequestError as refused:
            refused.remedy = refused.remedy or build_fix(
                run("ledger show", name), " shows the amount spent: declare at least that"
            )
            raise

    def _find_account(self, account: str) -> Account | None:
        with suppress(UnknownName):
            return self.ledger.get_account(account)
        return None

    def _read_account(
        self, account: str, limit: Cost, schema: TableSchema, *, parent: Account | None = None
    ) -> Account:
        """Return the ledger's account if it is as declared; what it would be opened as if nothing was charged to it."""
        known = self._find_account(account)
        declared = _list_declared(schema)
        if known is None and parent is None and (newest := self._find_newest_epoch(schema.payer)) is not None:
            raise LedgerError(
                f"The ledger has no account {account!r}: a new epoch is the owner's statement, not an edit.",
                fix=build_fix(
                    f"restore epoch = {newest.name.rpartition('@')[2]}, or for a new epoch: ", open_epoch_of(account)
                ),
            )
        if known is None:
            own: dict[str, Any] = dict(zip(("accountant", "unit", "adjacency"), declared, strict=True))
            allowed = schema.budget.disclosures and parent is None
            return build_account(account, parent, limit=limit, **own, disclosures=allowed)
        if _list_settings(known) != declared:
            raise self._build_epoch_refusal(known, self._declared.find_changes(known, self._describe(schema)))
        if known.limit != limit:
            was, now = (format_cost(known.accountant, one, delta=one.delta > 0) for one in (known.limit, limit))
            raise LedgerError(
                f"The budget in {schema.budget_file} is not the one in the ledger: {account!r} had the limit "
                f"{was}, and {now} is declared.",
                fix=let_owner_run("budget set", schema.name),
                http_status=409,
            )
        return known

    def _build_epoch_refusal(self, known: Account, changes: Sequence[DeclarationChange]) -> LedgerError:
        """Build the refusal of a declaration with another promise than the one that was paid for under ``known``."""
        table = parse_table_name(known.name)
        told = "; ".join(str(one) for one in changes if one.effect == "new epoch")
        if not self.is_charged(known.name.partition("/")[0]):
            return LedgerError(
                f"Account {known.name!r} was opened for another declaration, though nothing was charged to it: {told}.",
                fix=run("epoch open", table),
                http_status=409,
            )
        return LedgerError(
            f"Account {known.name!r} was opened for another declaration: {told}. The amount spent cannot be converted; "
            "the budget of a new epoch adds to it for everybody who is in both.",
            fix=build_fix("restore the declaration, or for a new epoch: ", open_epoch_of(table)),
            http_status=409,
        )


def _count_epoch(schema: TableSchema, newest: Account) -> int:
    return max(schema.budget.epoch, int(newest.name.rpartition("@")[2]) + 1)


def _list_settings(account: Account) -> tuple[AccountantName, str, str]:
    return account.accountant, account.unit, account.adjacency


def _list_declared(schema: TableSchema) -> tuple[AccountantName, str, str]:
    return schema.budget.accountant, schema.unit.code, schema.adjacency
