"""Accounts, the ledger's entries and its verification, spending and refusals on record."""

from __future__ import annotations

import json

from siloquent.errors import LedgerError, RequestError, UnknownName
from siloquent.ledger import Account, Checkpoint, Head, Verdict
from siloquent.ledger import Entry as LedgerEntry
from siloquent.remote.calls import call
from siloquent.remote.documents import AccountLine, Act, Denial, Entry, LedgerHead, Spending
from siloquent.remote.exchange import Steps
from siloquent.remote.faces import Face, verb
from siloquent.remote.replies import UPGRADE
from siloquent.remote.told import Field, Told, flag, listed, maybe, text, whole
from siloquent.remote.verbs.tables import account_of


class _Verdict(Told):
    ok = Field(flag)
    entries = Field(whole)
    first_bad_seq = Field(maybe(whole))
    problem = Field(text)


class MoneyVerbs(Face):
    """accounts, entries, account_entries, ledger_id, spending, denials, acts."""

    @verb
    def accounts(self) -> Steps[list[AccountLine]]:
        """The accounts that the token may see: an analyst's own, everybody's for owners and auditors."""
        return (yield from _accounts(self))

    @verb
    def entries(self, account: str, *, after: int = 0, limit: int | None = None) -> Steps[list[Entry]]:
        """Up to ``limit`` (500) entries of an account after the entry ``after``, oldest first."""
        return (yield from _entries(self, account, after, limit))

    @verb
    def account_entries(self, account: str) -> Steps[list[Entry]]:
        """All entries of an account that the token may see; none of an account that it shares with others."""
        try:
            return (yield from _all_entries(self, account, 0))
        except RequestError as refused:
            if refused.code != "not_found":
                raise
            return []

    @verb
    def ledger_id(self) -> Steps[str]:
        """Which ledger pays."""
        return (yield from self._told(LedgerHead, call("ledger_head"))).ledger

    @verb
    def spending(self) -> Steps[list[Spending]]:
        """What each analyst spent on each task. For owners and auditors."""
        document = yield from self._document(call("list_spending"))
        return listed(Spending, document, "lines")

    @verb
    def denials(self, *, before: int | None = None) -> Steps[list[Denial]]:
        """Up to 500 refusals and failed logins, newest first, before the id ``before``. For owners and auditors."""
        document = yield from self._document(call("list_denials", query={"before": before}))
        return listed(Denial, document, "denials")

    @verb
    def acts(self, *, before: int | None = None) -> Steps[list[Act]]:
        """Up to 500 acts that concern others, newest first, before the id ``before``. For owners and auditors."""
        document = yield from self._document(call("list_acts", query={"before": before}))
        return listed(Act, document, "acts")


class LedgerVerbs(Face):
    """The ledger behind a server, to read: the verbs and results of ``siloquent.Session.ledger``."""

    @verb
    def accounts(self) -> Steps[list[Account]]:
        """The accounts that the token may see."""
        return [account_of(one) for one in (yield from _accounts(self))]

    @verb
    def account(self, name: str) -> Steps[Account]:
        """One account.

        Raises:
            UnknownName: the token may see no such account (did you mean).
        """
        known = {one.name: one for one in (yield from _accounts(self))}
        if name not in known:
            raise UnknownName("account", name, known, fix="siloquent ledger show")
        return account_of(known[name])

    @verb
    def entries(self, after: int = 0, account: str | None = None) -> Steps[list[LedgerEntry]]:
        """Entries after the entry ``after``, oldest first: of one account, or of all that the token may see."""
        names = [account] if account is not None else [one.name for one in (yield from _accounts(self))]
        found = []
        for name in names:
            found += yield from _all_entries(self, name, after)
        found.sort(key=lambda one: one.seq)
        return [LedgerEntry(one.seq, one.at, one.kind, one.body, one.prev, one.hash) for one in found]

    @verb
    def head(self) -> Steps[Head]:
        """The newest entry's place and hash."""
        told = yield from self._told(LedgerHead, call("ledger_head"))
        return Head(told.seq, told.hash)

    @verb
    def verify(self) -> Steps[Verdict]:
        """Recompute chain, totals, permits, answers and limits at the server. For owners and auditors.

        What a server says of itself is worth as much as the server: keep a ``checkpoint`` elsewhere and compare.
        """
        told = yield from self._told(_Verdict, call("verify_ledger"))
        return Verdict(told.ok, told.entries, told.first_bad_seq, told.problem)

    @verb
    def checkpoint(self) -> Steps[Checkpoint]:
        """The ledger's head and totals, to keep where the server cannot change them. For owners and auditors."""
        document = yield from self._document(call("make_checkpoint"))
        try:
            return Checkpoint.from_json(json.dumps(document))
        except LedgerError:
            raise RequestError("The server's checkpoint cannot be read.", fix=UPGRADE) from None


def _accounts(face: Face) -> Steps[list[AccountLine]]:
    document = yield from face._document(call("list_accounts"))
    return listed(AccountLine, document, "accounts")


def _entries(face: Face, account: str, after: int, limit: int | None = None) -> Steps[list[Entry]]:
    query = {"after": after, "limit": limit}
    document = yield from face._document(call("list_entries", {"account": account}, query=query))
    return listed(Entry, document, "entries")


def _all_entries(face: Face, account: str, after: int) -> Steps[list[Entry]]:
    found: list[Entry] = []
    while page := (yield from _entries(face, account, after)):
        if page[-1].seq <= after:
            raise RequestError("The server's list of entries does not go on.", fix=UPGRADE)
        found, after = found + page, page[-1].seq
    return found
