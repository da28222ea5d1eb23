"""The Python front door: a session with the verbs of every task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from siloquent import session as floor
from siloquent.errors import NotAllowed
from siloquent.schema import TableSchema
from siloquent.schema.workspace import find_workspace, read_workspace

if TYPE_CHECKING:
    from siloquent.data import CheckReport
    from siloquent.explore import Answer, CompositeExplanation, Explanation, Query
    from siloquent.sketch.verbs import SketchVerbs


@runtime_checkable
class Asks(Protocol):
    """Anything that ends in a query, such as ``count("visits").by("ward").within(rows=200)``."""

    def query(self) -> Query:
        """The finished question."""
        ...


class Session(floor.Session):
    """A workspace's tables, its ledger and one analyst, with the verbs: ``ask``, ``explain``, ``check``, ``save``."""

    def ask(self, question: str | Query | Asks, *, key: str | None = None, max_cost: str | None = None) -> Answer:
        """Answer a question in SQL, BIN or from the builder; see ``siloquent.explore.answer`` for what may be raised.

        Args:
            question: Text, a ``Query``, or a builder that ends in one.
            key: An idempotency key of 1 to 64 printable characters: asking again with it is free.
            max_cost: The highest price, in the account's epsilon or rho, as text.
        Privacy:
            As declared for the table: charged to this session's account before a row is read.
        """
        from siloquent import explore

        return explore.answer(self, _query(question), key=key, max_cost=max_cost)

    def explain(self, question: str | Query | Asks) -> Explanation | CompositeExplanation:
        """What ``question`` would cost, how it would be answered, what would be left. Touches no data."""
        from siloquent import explore

        return explore.explain(self, _query(question))

    def check(self, table: str) -> CheckReport:
        """What is wrong with a table's rows, for its owner's eyes only: exact counts, no privacy.

        Raises:
            NotAllowed: this session is an analyst's.
        """
        if self.analyst is not None:
            raise NotAllowed(
                "check shows exact counts, so it is the owner's alone.", fix="leave --analyst out, as the owner"
            )
        from siloquent.data import check

        return check(self.table(table))

    @property
    def sketch(self) -> SketchVerbs:
        """Sketches of this session's tables: ``build``, ``explain``, ``ask``, ``merge``, ``save``, ``load``."""
        from siloquent.sketch.verbs import SketchVerbs

        return SketchVerbs(self)

    def save(self, answer: Answer) -> Path:
        """Write ``answer`` as a release folder in the workspace; the same answer is written once."""
        from siloquent.explore import release_of

        return release_of(answer, self.workspace.releases)


def _query(question: str | Query | Asks) -> Query:
    from siloquent.explore import Query, parse

    if isinstance(question, str):
        return parse(question)
    return question if isinstance(question, Query) else question.query()


def open_session(folder: Path | str | None = None, *, analyst: str | None = None) -> Session:
    """Open the workspace in ``folder`` (default: the nearest one at or above the current folder).

    Args:
        analyst: Who asks: their share of each budget pays, where the table declares shares.
    Raises:
        SchemaError: there is no workspace, or its file is wrong.
        LedgerError: the ledger is missing, unreadable, or older than its head.
    """
    workspace = read_workspace(Path(folder) if folder is not None else find_workspace(Path.cwd()))
    return Session(workspace, floor.open_workspace_ledger(workspace), analyst=analyst)


def read_schema(text: str) -> TableSchema:
    """The table that the TOML ``text`` declares; for frames that live in Python only."""
    from siloquent.schema.build import parse_schema

    return parse_schema(text)
