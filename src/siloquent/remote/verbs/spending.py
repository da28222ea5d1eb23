"""Accounts, the ledger's entries and its verification, spending and recorded refusals."""

from __future__ import annotations

import json
from typing import Any

from siloquent.documents.ledger import build_ledger_document
from siloquent.errors import LedgerError, RequestError, UnknownName
from siloquent.fixes import run
from siloquent.ledger import Account, Checkpoint, Head, LedgerVerdict
from siloquent.ledger import Entry as LedgerEntry
from siloquent.remote.api_document import (
    ApiDocument,
    DocumentField,
    read_boolean,
    read_integer,
    read_list,
    read_optional,
    read_text,
)
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import AccountLine, Denial, EntryLine, LedgerHead, RecordedAct, SpendingLine
from siloquent.remote.exchange import Steps
from siloquent.remote.replies import UPGRADE
from siloquent.remote.verbs.tables import build_account


class _Verdict(ApiDocument):
    ok = DocumentField(read_boolean)
    entries = DocumentField(read_integer)
    first_bad_seq = DocumentField(read_optional(read_integer))
    problem = DocumentField(read_text)


class SpendingVerbs(ApiClient):
    """The verbs for accounts, ledger entries, spending, refusals and acts."""

    @verb
    def list_accounts(self) -> Steps[list[AccountLine]]:
        """Return the accounts that the token may see: an analyst's own, all for owners and auditors."""
        return (yield from _fetch_accounts(self))

    @verb
    def list_entries(self, account: str, *, after: int = 0, limit: int | None = None) -> Steps[list[EntryLine]]:
        """Return up to ``limit`` (500) entries of an account after the entry ``after``, oldest first."""
        return (yield from _fetch_entries(self, account, after, limit))

    @verb
    def list_account_entries(self, account: str) -> Steps[list[EntryLine]]:
        """Return all entries of an account that the token may see; none of an account shared with others."""
        return (yield from _fetch_visible_entries(self, account))

    @verb
    def get_ledger_id(self) -> Steps[str]:
        """Return the id of the ledger that pays."""
        return (yield from self._fetch_as(LedgerHead, build_call("ledger_head"))).ledger

    @verb
    def get_ledger_document(self, table: str | None = None, *, last: int = 20) -> Steps[dict[str, Any]]:
        """Return the visible accounts, of one table or of all, and the newest entries that the token may see.

        Args:
            last: The number of entries.
        """
        accounts = yield from _fetch_accounts(self)
        accounts = [one for one in accounts if table is None or one.name.partition("@")[0] == table]
        entries: list[EntryLine] = []
        for one in accounts if last else ():
            entries += yield from _fetch_visible_entries(self, one.name)
        newest = sorted(entries, key=lambda one: one.seq)[-last:]
        head = yield from self._fetch_as(LedgerHead, build_call("ledger_head"))
        return build_ledger_document(
            head.ledger, [one.to_json() for one in accounts], [one.to_json() for one in newest]
        )

    @verb
    def list_spending(self) -> Steps[list[SpendingLine]]:
        """Return each analyst's spending on each task. For owners and auditors."""
        document = yield from self._fetch_document(build_call("list_spending"))
        return read_list(SpendingLine, document, "lines")

    @verb
    def list_denials(self, *, before: int | None = None) -> Steps[list[Denial]]:
        """Return up to 500 refusals and failed logins, newest first, before id ``before``. For owners and auditors."""
        document = yield from self._fetch_document(build_call("list_denials", query={"before": before}))
        return read_list(Denial, document, "denials")

    @verb
    def list_acts(self, *, before: int | None = None) -> Steps[list[RecordedAct]]:
        """Return up to 500 acts that concern others, newest first, before id ``before``. For owners and auditors."""
        document = yield from self._fetch_document(build_call("list_acts", query={"before": before}))
        return read_list(RecordedAct, document, "acts")


class RemoteLedgerVerbs(ApiClient):
    """Read access to the ledger of a server: the verbs and results of ``siloquent.Session.ledger``."""

    @verb
    def list_accounts(self) -> Steps[list[Account]]:
        """Return the accounts that the token may see."""
        return [build_account(one) for one in (yield from _fetch_accounts(self))]

    @verb
    def get_account(self, name: str) -> Steps[Account]:
        """Return one account.

        Raises:
            UnknownName: the token may see no such account (with suggestions).
        """
        known = {one.name: one for one in (yield from _fetch_accounts(self))}
        if name not in known:
            raise UnknownName("account", name, known, fix=run("ledger show"))
        return build_account(known[name])

    @verb
    def iter_entries(self, after: int = 0, account: str | None = None) -> Steps[list[LedgerEntry]]:
        """Return the entries after the entry ``after``, oldest first: of one account, or of all visible ones."""
        names = [account] if account is not None else [one.name for one in (yield from _fetch_accounts(self))]
        found = []
        for name in names:
            found += yield from _fetch_all_entries(self, name, after)
        found.sort(key=lambda one: one.seq)
        return [LedgerEntry(one.seq, one.at, one.kind, one.body, one.prev, one.hash) for one in found]

    @verb
    def read_head(self) -> Steps[Head]:
        """Return the newest entry's position and hash."""
        told = yield from self._fetch_as(LedgerHead, build_call("ledger_head"))
        return Head(told.seq, told.hash)

    @verb
    def verify(self) -> Steps[LedgerVerdict]:
        """Recompute chain, totals, permits, answers and limits at the server. For owners and auditors.

        The result is only as trustworthy as the server: keep a ``create_checkpoint`` elsewhere and compare.
        """
        told = yield from self._fetch_as(_Verdict, build_call("verify_ledger"))
        return LedgerVerdict(told.ok, told.entries, told.first_bad_seq, told.problem)

    @verb
    def create_checkpoint(self) -> Steps[Checkpoint]:
        """Return the ledger's head and totals, to keep where the server cannot change them. For owners and auditors."""
        document = yield from self._fetch_document(build_call("make_checkpoint"))
        try:
            return Checkpoint.from_json(json.dumps(document))
        except LedgerError:
            raise RequestError("The server's checkpoint cannot be read.", fix=UPGRADE) from None


def _fetch_accounts(face: ApiClient) -> Steps[list[AccountLine]]:
    document = yield from face._fetch_document(build_call("list_accounts"))
    return read_list(AccountLine, document, "accounts")


def _fetch_entries(face: ApiClient, account: str, after: int, limit: int | None = None) -> Steps[list[EntryLine]]:
    query = {"after": after, "limit": limit}
    document = yield from face._fetch_document(build_call("list_entries", {"account": account}, query=query))
    return read_list(EntryLine, document, "entries")


def _fetch_visible_entries(face: ApiClient, account: str) -> Steps[list[EntryLine]]:
    """Return all entries of an account; none of one that the token may not read."""
    try:
        return (yield from _fetch_all_entries(face, account, 0))
    except RequestError as refused:
        if refused.code != "not_found":
            raise
        return []


def _fetch_all_entries(face: ApiClient, account: str, after: int) -> Steps[list[EntryLine]]:
    found: list[EntryLine] = []
    while page := (yield from _fetch_entries(face, account, after)):
        if page[-1].seq <= after:
            raise RequestError("The server's list of entries is incomplete.", fix=UPGRADE)
        found, after = found + page, page[-1].seq
    return found
