"""The kinds of document that a session returns, with their fields."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from siloquent.errors import SiloquentError
from siloquent.remote.api_document import (
    ApiDocument,
    DocumentField,
    read_amount,
    read_boolean,
    read_integer,
    read_many,
    read_object,
    read_optional,
    read_text,
)
from siloquent.remote.replies import parse_error

ENDED = ("done", "failed", "cancelled")


class Person(ApiDocument):
    """The holder of a token (``siloquent/person/1``)."""

    name = DocumentField(read_text)
    role = DocumentField(read_text)
    tables = DocumentField(read_many(read_text))
    expires = DocumentField(read_text)


class TableLine(ApiDocument):
    """A line of the list of tables; ``problem`` describes an error in its declaration."""

    name = DocumentField(read_text)
    attributes = DocumentField(read_integer)
    unit = DocumentField(read_text)
    symbol = DocumentField(read_optional(read_text))
    left = DocumentField(read_optional(read_amount))
    problem = DocumentField(read_text)


class Table(ApiDocument):
    """The declaration of a table (``siloquent/table/1``).

    ``tag``: for owners, an identifier of this declaration for ``declare(..., if_match=)``. ``rows``: since when its
    rows count, if they were ever replaced. ``changes``: of a declaration just sent, each with its class.
    """

    tag: str | None = None
    name = DocumentField(read_text)
    unit = DocumentField(read_text)
    adjacency = DocumentField(read_text)
    attributes = DocumentField(read_many(read_object), shown=False)
    constraints = DocumentField(read_many(read_object), shown=False)
    account = DocumentField(read_object, shown=False)
    digest = DocumentField(read_text)
    rows = DocumentField(read_optional(read_object), shown=False)
    changes = DocumentField(read_optional(read_many(read_object)), shown=False)


class History(ApiDocument):
    """The questions asked about a table (``siloquent/history/1``), oldest first."""

    table = DocumentField(read_text)
    questions = DocumentField(read_many(read_object), shown=False)


class Check(ApiDocument):
    """The problems in a table's rows, for its owner only (``siloquent/check/1``)."""

    clean = DocumentField(read_boolean)
    tables = DocumentField(read_many(read_object))


class Refreshed(ApiDocument):
    """New rows of a table, for its owner only (``siloquent/refresh/1``): their check, version and ledger entry."""

    table = DocumentField(read_text)
    rows = DocumentField(read_optional(read_integer))
    clean = DocumentField(read_boolean)
    version = DocumentField(read_integer)
    entry = DocumentField(read_integer)
    at = DocumentField(read_text)


class ProtectionReport(ApiDocument):
    """A report on declarations, who may ask and what was spent (``siloquent/protection-report/1``)."""

    at = DocumentField(read_text)
    ledger = DocumentField(read_object, shown=False)
    tables = DocumentField(read_many(read_object), shown=False)


class Upload(ApiDocument):
    """An uploaded file; ``source`` is the name for use in a table file."""

    id = DocumentField(read_text)
    source = DocumentField(read_text)


class Job(ApiDocument):
    """Work that takes longer than an answer (``siloquent/job/1``)."""

    id = DocumentField(read_text)
    name = DocumentField(read_text, shown=False)
    task = DocumentField(read_text)
    spec = DocumentField(read_object, shown=False)
    state = DocumentField(read_text)
    done = DocumentField(read_integer)
    steps = DocumentField(read_integer)
    result = DocumentField(read_optional(read_object), shown=False)
    account = DocumentField(read_optional(read_text), shown=False)
    cost = DocumentField(read_optional(read_object), shown=False)
    cancelled_by = DocumentField(read_optional(read_text), shown=False)
    created = DocumentField(read_integer, shown=False)
    changed = DocumentField(read_integer, shown=False)

    @property
    def spent(self) -> Fraction | None:
        """The ledger's charge for the job so far, in the account's epsilon or rho; None: nothing."""
        return None if self.cost is None else read_amount(self.cost.get("spent"))

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, failed or cancelled."""
        return self.state in ENDED

    @property
    def release(self) -> str | None:
        """The release that the job made; None if there is none."""
        found = self.get("release") or (self.result or {}).get("release")
        return found if isinstance(found, str) else None

    @property
    def error(self) -> SiloquentError | None:
        """The failure, as the error that the same verb raises without a server; None if the job did not fail."""
        return parse_error(422, json.dumps(self.result or {}).encode()) if self.state == "failed" else None


class JobPlan(ApiDocument):
    """The price and method of a job: a plan of its task, by its ``schema``."""

    schema = DocumentField(read_text)
    table = DocumentField(read_optional(read_text))


class Discovery(ApiDocument):
    """The keys or bounds that a discovery found (``siloquent/discovery/1``), and the ``declaration`` that uses them.

    ``kind``: keys or bounds. ``name``: of the released domain at the server. ``lo``, ``hi``: None if noise hides them.
    """

    table = DocumentField(read_text)
    column = DocumentField(read_text)
    kind = DocumentField(read_text)
    name = DocumentField(read_text)
    lo = DocumentField(read_optional(read_text))
    hi = DocumentField(read_optional(read_text))
    declaration = DocumentField(read_text, shown=False)
    guarantee = DocumentField(read_text, shown=False)

    @property
    def discovered(self) -> tuple[str, ...]:
        """The keys that were found; none if bounds were asked for."""
        return tuple(map(read_text, self["keys"]))


class FoundOffers(ApiDocument):
    """Offers of a catalogue by their gain for a model of one's own table (``siloquent/found/1``)."""

    table = DocumentField(read_text)
    scoring = DocumentField(read_text)
    candidates = DocumentField(read_integer)
    ranked = DocumentField(read_many(read_object), shown=False)
    chosen = DocumentField(read_many(read_object), shown=False)
    model = DocumentField(read_object, shown=False)


class ReleaseFileLine(ApiDocument):
    """A file of a release."""

    name = DocumentField(read_text)
    sha256 = DocumentField(read_text)


class Release(ApiDocument):
    """A release's manifest (``siloquent/release/1``): its guarantee and cost."""

    id = DocumentField(read_text)
    task = DocumentField(read_text)
    table = DocumentField(read_text)
    files = DocumentField(read_many(ReleaseFileLine), shown=False)
    shared = DocumentField(read_optional(read_boolean))
    deleted = DocumentField(read_optional(read_boolean))


class SketchAnswer(ApiDocument):
    """An answer of a sketch (``siloquent/sketch-answer/2``): each point with its value and error; free."""

    columns = DocumentField(read_many(read_text))
    rows = DocumentField(read_many(tuple), shown=False)
    guarantee = DocumentField(read_text, shown=False)

    def get_column(self, name: str) -> tuple[Any, ...]:
        """Return the values of the column ``name``, such as "value" or "outside".

        Raises:
            KeyError: there is no such column.
        """
        if name not in self.columns:
            raise KeyError(name)
        return tuple(row[self.columns.index(name)] for row in self.rows)


class Dependencies(ApiDocument):
    """The dependencies found by a profile over silos (``siloquent/fd-report/1``)."""

    id = DocumentField(read_text)
    protocol = DocumentField(read_text)


class CatalogueListing(ApiDocument):
    """The offers in a catalogue (``siloquent/catalogue/2``)."""

    offers = DocumentField(read_many(read_object))
    notes = DocumentField(read_many(read_text), shown=False)


class Federation(ApiDocument):
    """The federation that a workspace takes part in, with its sessions (``siloquent/federation/1``)."""

    name = DocumentField(read_text)
    version = DocumentField(read_integer)
    role = DocumentField(read_text)
    sessions = DocumentField(read_many(read_object), shown=False)


class FederationSession(ApiDocument):
    """One session of a federation (``siloquent/federation-session/1``)."""

    session = DocumentField(read_text)
    state = DocumentField(read_text)
    task = DocumentField(read_text)
    decided = DocumentField(read_optional(read_text))


class CollectionAnswer(ApiDocument):
    """Estimates from devices' reports (``siloquent/collect-answer/1``): free, with standard errors."""

    collection = DocumentField(read_text, shown=False)
    sql = DocumentField(read_text)
    columns = DocumentField(read_many(read_text))
    rows = DocumentField(read_many(tuple), shown=False)
    users = DocumentField(read_integer)
    guarantee = DocumentField(read_text, shown=False)


class ReportCounts(ApiDocument):
    """The counts of reports, by reason."""

    counters = DocumentField(read_object)


class LedgerHead(ApiDocument):
    """The newest entry of a ledger (``siloquent/head/1``)."""

    ledger = DocumentField(read_text)
    seq = DocumentField(read_integer)
    hash = DocumentField(read_text)


class EntryLine(ApiDocument):
    """An entry of the ledger (``siloquent/entry/1``); ``hash`` covers ``body``."""

    seq = DocumentField(read_integer)
    at = DocumentField(read_text)
    kind = DocumentField(read_text)
    account = DocumentField(read_text)
    hash = DocumentField(read_text, shown=False)
    prev = DocumentField(read_text, shown=False)
    body = DocumentField(read_object, shown=False)


class AccountLine(ApiDocument):
    """An account (``siloquent/account/1``): its limit, spent and remaining amounts, exactly."""

    name = DocumentField(read_text)
    symbol = DocumentField(read_text)
    limit = DocumentField(read_amount)
    spent = DocumentField(read_amount)
    left = DocumentField(read_amount)


class SpendingLine(ApiDocument):
    """An analyst's spending on a task."""

    account = DocumentField(read_text)
    analyst = DocumentField(read_text)
    task = DocumentField(read_text)
    symbol = DocumentField(read_text)
    spent = DocumentField(read_amount)
    charges = DocumentField(read_integer)


class Denial(ApiDocument):
    """A recorded refusal of a person's request or of a login."""

    id = DocumentField(read_integer)
    at = DocumentField(read_text)
    name = DocumentField(read_text)
    role = DocumentField(read_text)
    route = DocumentField(read_text)
    code = DocumentField(read_text)
    times = DocumentField(read_integer)


class RecordedAct(ApiDocument):
    """A recorded act that concerns others: tokens, tables, cancelled jobs, shared and deleted releases."""

    id = DocumentField(read_integer)
    at = DocumentField(read_text)
    name = DocumentField(read_text)
    role = DocumentField(read_text)
    what = DocumentField(read_text)
    subject = DocumentField(read_text)


class TokenLine(ApiDocument):
    """A token without its secret."""

    id = DocumentField(read_text)
    name = DocumentField(read_text)
    role = DocumentField(read_text)
    tables = DocumentField(read_many(read_text))
    expires = DocumentField(read_integer)
    revoked = DocumentField(read_optional(read_boolean))


class NewToken(ApiDocument):
    """A new token; its text is in ``token`` and is not shown again."""

    id = DocumentField(read_text)
    name = DocumentField(read_text)
    role = DocumentField(read_text)
    tables = DocumentField(read_many(read_text))
    expires = DocumentField(read_integer)
    token = DocumentField(read_text, shown=False)
