"""The kinds of document that a session returns, with their fields."""

from __future__ import annotations

import json
from fractions import Fraction

from siloquent.errors import SiloquentError
from siloquent.remote.replies import error_of
from siloquent.remote.told import Field, Told, amount, flag, many, maybe, plain, text, whole

ENDED = ("done", "failed", "cancelled")


class Person(Told):
    """Who a token is for (``siloquent/person/1``)."""

    name = Field(text)
    role = Field(text)
    tables = Field(many(text))
    expires = Field(text)


class TableLine(Told):
    """A line of the list of tables; ``problem`` says what is wrong with its declaration."""

    name = Field(text)
    attributes = Field(whole)
    unit = Field(text)
    symbol = Field(maybe(text))
    left = Field(maybe(amount))
    problem = Field(text)


class Table(Told):
    """What is declared about a table (``siloquent/table/1``).

    ``tag``: to owners, a name of this declaration for ``declare(.., if_match=)``.
    """

    tag: str | None = None
    name = Field(text)
    unit = Field(text)
    adjacency = Field(text)
    attributes = Field(many(plain), shown=False)
    constraints = Field(many(plain), shown=False)
    account = Field(plain, shown=False)
    digest = Field(text)


class History(Told):
    """The questions that were asked of a table (``siloquent/history/1``), oldest first."""

    table = Field(text)
    questions = Field(many(plain), shown=False)


class Check(Told):
    """What is wrong with a table's rows, for its owner only (``siloquent/check/1``)."""

    clean = Field(flag)
    tables = Field(many(plain))


class Upload(Told):
    """A file that was uploaded; ``source`` is what a table file names."""

    id = Field(text)
    source = Field(text)


class Job(Told):
    """Work that takes longer than an answer (``siloquent/job/1``)."""

    id = Field(text)
    name = Field(text, shown=False)
    task = Field(text)
    spec = Field(plain, shown=False)
    state = Field(text)
    done = Field(whole)
    steps = Field(whole)
    result = Field(maybe(plain), shown=False)
    account = Field(maybe(text), shown=False)
    cost = Field(maybe(plain), shown=False)
    cancelled_by = Field(maybe(text), shown=False)
    created = Field(whole, shown=False)
    changed = Field(whole, shown=False)

    @property
    def spent(self) -> Fraction | None:
        """What the ledger has charged for it so far, in the account's epsilon or rho; None: nothing."""
        return None if self.cost is None else amount(self.cost.get("spent"))

    @property
    def has_ended(self) -> bool:
        """Whether it is done, failed or cancelled."""
        return self.state in ENDED

    @property
    def release(self) -> str | None:
        """The release that it made; None if it has made none."""
        found = self.get("release") or (self.result or {}).get("release")
        return found if isinstance(found, str) else None

    @property
    def error(self) -> SiloquentError | None:
        """Why it failed, as the error that the same verb raises without a server; None if it did not fail."""
        return error_of(422, json.dumps(self.result or {}).encode()) if self.state == "failed" else None


class Plan(Told):
    """What a job would cost and how it would be done: a plan of its task, by its ``schema``."""

    schema = Field(text)
    table = Field(maybe(text))


class ReleaseFile(Told):
    """A file of a release."""

    name = Field(text)
    sha256 = Field(text)


class Release(Told):
    """A release's manifest (``siloquent/release/1``): what was promised, and what it cost."""

    id = Field(text)
    task = Field(text)
    table = Field(text)
    files = Field(many(ReleaseFile), shown=False)
    shared = Field(maybe(flag))
    deleted = Field(maybe(flag))


class SketchAnswer(Told):
    """What a sketch answers (``siloquent/sketch-answer/1``): free, with its error."""

    columns = Field(many(text))
    rows = Field(many(tuple), shown=False)
    guarantee = Field(text, shown=False)


class Dependencies(Told):
    """The dependencies that a profile over silos found (``siloquent/fd-report/1``)."""

    id = Field(text)
    protocol = Field(text)


class Catalogue(Told):
    """The offers in a catalogue (``siloquent/catalogue/1``)."""

    offers = Field(many(plain))
    notes = Field(many(text), shown=False)


class Federation(Told):
    """The federation that a workspace takes part in, with its sessions (``siloquent/federation/1``)."""

    name = Field(text)
    version = Field(whole)
    role = Field(text)
    sessions = Field(many(plain), shown=False)


class FederationSession(Told):
    """One session of a federation (``siloquent/federation-session/1``)."""

    session = Field(text)
    state = Field(text)
    task = Field(text)
    decided = Field(maybe(text))


class CollectAnswer(Told):
    """Estimates from devices' reports (``siloquent/collect-answer/1``): free, with standard errors."""

    collection = Field(text, shown=False)
    sql = Field(text)
    columns = Field(many(text))
    rows = Field(many(tuple), shown=False)
    users = Field(whole)
    guarantee = Field(text, shown=False)


class Counts(Told):
    """What became of reports, by reason."""

    counters = Field(plain)


class LedgerHead(Told):
    """How far a ledger is (``siloquent/head/1``)."""

    ledger = Field(text)
    seq = Field(whole)
    hash = Field(text)


class Entry(Told):
    """An entry of the ledger (``siloquent/entry/1``); ``body`` is what ``hash`` covers."""

    seq = Field(whole)
    at = Field(text)
    kind = Field(text)
    account = Field(text)
    hash = Field(text, shown=False)
    prev = Field(text, shown=False)
    body = Field(plain, shown=False)


class AccountLine(Told):
    """An account (``siloquent/account/1``): its limit, what is spent and what is left, exactly."""

    name = Field(text)
    symbol = Field(text)
    limit = Field(amount)
    spent = Field(amount)
    left = Field(amount)


class Spending(Told):
    """What an analyst spent on a task."""

    account = Field(text)
    analyst = Field(text)
    task = Field(text)
    symbol = Field(text)
    spent = Field(amount)
    charges = Field(whole)


class Denial(Told):
    """A refusal on record: of what a person may do or has left, or of a login."""

    id = Field(whole)
    at = Field(text)
    name = Field(text)
    role = Field(text)
    route = Field(text)
    code = Field(text)
    times = Field(whole)


class Act(Told):
    """Who did what that concerns others: tokens, tables, cancelled jobs, shared and deleted releases."""

    id = Field(whole)
    at = Field(text)
    name = Field(text)
    role = Field(text)
    what = Field(text)
    subject = Field(text)


class TokenLine(Told):
    """A token without its secret."""

    id = Field(text)
    name = Field(text)
    role = Field(text)
    tables = Field(many(text))
    expires = Field(whole)
    revoked = Field(maybe(flag))


class NewToken(Told):
    """A token that was made just now; its text is in ``token`` and is not shown again."""

    id = Field(text)
    name = Field(text)
    role = Field(text)
    tables = Field(many(text))
    expires = Field(whole)
    token = Field(text, shown=False)
