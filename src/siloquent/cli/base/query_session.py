"""A session that prices, answers and describes, whether its workspace is a folder here or behind a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from siloquent.documents.ledger import (
    build_entry_document,
    build_history_document,
    build_ledger_document,
    build_session_account_document,
)
from siloquent.documents.tables import build_shown_table, build_table_line

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.explore import Answer, Query
    from siloquent.ledger import Entry, Ledger

Document = Mapping[str, Any]


class ShownPrice(Protocol):
    """The price of a query, from a plan or from a server's document."""

    @property
    def symbol(self) -> str:
        """The account's unit: epsilon or rho."""

    @property
    def price(self) -> Fraction:
        """The price in the account's epsilon or rho."""

    @property
    def account(self) -> str:
        """The account that would pay."""

    @property
    def left_before(self) -> Fraction:
        """The remaining budget."""

    @property
    def left_after(self) -> Fraction | None:
        """The budget that would remain; None if the price exceeds it."""

    @property
    def promise(self) -> str:
        """The guarantee of the answer."""

    @property
    def chosen(self) -> str:
        """The mechanism's name."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Further notes."""

    def to_json(self) -> dict[str, Any]:
        """Return the document of the price and the plan."""


class PreparedQuestion(Protocol):
    """A query whose price can be read before it is answered."""

    @property
    def explanation(self) -> ShownPrice:
        """The price. Does not read data; free."""

    def run(self, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        """Answer the query; charged once for ``key``."""


class QuerySession(Protocol):
    """The verbs that a workspace here and a workspace on a server share; descriptions are documents."""

    def parse(self, text: str) -> Query:
        """Parse a query; a refusal suggests one that can be asked, where the tables are known."""

    def explain(self, question: Query) -> ShownPrice:
        """Return the price of ``question``. Does not read data; free."""

    def ask(self, question: Query, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        """Answer ``question``; charged once for ``key``."""

    def save(self, answer: Answer) -> object:
        """Keep ``answer`` as a release."""

    def list_table_lines(self) -> Sequence[Document]:
        """Return the lines of a document of kind ``siloquent/table-list/1``."""

    def get_table_document(self, name: str) -> Document:
        """Return a document of kind ``siloquent/table/1``, with the remaining budget."""

    def list_tables(self) -> list[str]:
        """Return the names of the declared tables."""

    def get_report(self, table: str | None = None) -> Document:
        """Return a document of kind ``siloquent/protection-report/1``: of one table, or of all."""

    def get_history(self, table: str) -> Document:
        """Return a document of kind ``siloquent/history/1``."""

    def get_ledger_document(self, table: str | None = None, *, last: int = 20) -> Document:
        """Return a document of kind ``siloquent/ledger/1``: accounts, and the ``last`` newest entries."""


class WorkspaceQueries:
    """A ``QuerySession`` over a workspace in a folder."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def parse(self, text: str) -> Query:
        """Parse a query; a refusal suggests one that this session can ask."""
        from siloquent.explore import read_question

        return read_question(self.session, text)

    def explain(self, question: Query) -> ShownPrice:
        """Return the price of ``question``, as ``siloquent.Session.explain`` does."""
        return self.session.explain(question)

    def ask(self, question: Query, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        """Answer ``question``, as ``siloquent.Session.ask`` does."""
        return self.session.ask(question, key=key, max_cost=max_cost)

    def save(self, answer: Answer) -> object:
        """Write ``answer`` as a release into the workspace."""
        return self.session.save(answer)

    def list_table_lines(self) -> Sequence[Document]:
        """Return a line for each declared table."""
        return [build_table_line(self.session, name) for name in self.session.list_tables()]

    def get_table_document(self, name: str) -> Document:
        """Return the declaration of a table, with this analyst's remaining budget."""
        return build_shown_table(self.session, name)

    def list_tables(self) -> list[str]:
        """Return the names of the declared tables."""
        return self.session.list_tables()

    def get_report(self, table: str | None = None) -> Document:
        """Return what is declared, who may ask and what was spent, for the owner. Reads no rows."""
        from siloquent.documents.reports.protection import build_report_document

        names = self.session.list_tables() if table is None else [table]
        return build_report_document(self.session, names, _list_people(self.session.workspace.folder))

    def get_history(self, table: str) -> Document:
        """Return the queries and discoveries of a table, oldest first."""
        return build_history_document(table, self.session.list_history(table))

    def get_ledger_document(self, table: str | None = None, *, last: int = 20) -> Document:
        """Return all accounts for the owner, and an analyst's own for an analyst, with their newest entries."""
        session, ledger = self.session, self.session.ledger
        table = session.find_table(table) if table else None
        names = [session.schema(table).account] if table else []
        if session.analyst:
            names = [session.get_account(name).name for name in ([table] if table else session.list_tables())]
        accounts = [one for one in session.list_accounts() if not names or _is_under(one.name, names)]
        return build_ledger_document(
            ledger.id,
            [build_session_account_document(session, account) for account in accounts],
            [build_entry_document(entry) for entry in _list_newest(ledger, names, last)],
        )


def _list_people(folder: Path) -> Sequence[Document]:
    """Return who has a token of the workspace's server, if it has one."""
    if not (folder / "server.sqlite").is_file():
        return ()
    try:
        from siloquent.server.access.tokens import Tokens
        from siloquent.server.store import Store
    except ImportError:  # the extra is not installed here: nobody is served from this machine
        return ()
    return Tokens(Store(folder / "server.sqlite")).list_people()


@dataclass(frozen=True, slots=True)
class _SentQuestion:
    """A question whose price and answer are separate requests of a session."""

    session: QuerySession
    question: Query
    key: str | None

    @property
    def explanation(self) -> ShownPrice:
        return self.session.explain(self.question)

    def run(self, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        return self.session.ask(self.question, key=self.key if key is None else key, max_cost=max_cost)


def prepare_question(session: QuerySession, question: Query, *, key: str | None = None) -> PreparedQuestion:
    """Return ``question`` for its price and its answer: planned once here, sent twice to a server.

    Args:
        key: The key of the run, if known.
    """
    if isinstance(session, WorkspaceQueries):
        return session.session.prepare(question, key=key)
    return _SentQuestion(session, question, key)


def _is_under(name: str, roots: list[str]) -> bool:
    return any(f"{name}/".startswith(f"{root}/") for root in roots)


def _list_newest(ledger: Ledger, names: list[str], last: int) -> list[Entry]:
    """Return the ``last`` newest entries of these accounts, in order; of all accounts if none is named."""
    if not last:
        return []
    if not names:
        return list(ledger.iter_entries(after=max(0, ledger.read_head().seq - last)))
    found = [entry for name in names for entry in ledger.iter_entries(account=name)]
    return sorted(found, key=lambda entry: entry.seq)[-last:]
