"""What an idempotency key is bound to: change any of it, and the key is another request's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from siloquent.charge import compute_request_digest
from siloquent.explore.spec import Query, format_canonical, parse
from siloquent.ledger import Account
from siloquent.privacy import Cost
from siloquent.schema import TableSchema
from siloquent.session import WorkspaceSession, create_workspace, open_workspace_ledger
from unit.explore.plan.tables import table

QUESTION = "SELECT sex, COUNT(*) FROM visits GROUP BY sex ERROR 50"


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks what of which account under which declaration."""

    session: WorkspaceSession
    query: Query
    account: Account
    schema: TableSchema

    @property
    def digest(self) -> str:
        return compute_request_digest(self.session, self.account, self.schema, format_canonical(self.query))

    def by(self, analyst: str | None) -> Request:
        return replace(self, session=WorkspaceSession(self.session.workspace, self.session.ledger, analyst=analyst))

    def asking(self, text: str) -> Request:
        return replace(self, query=parse(text))


@pytest.fixture
def request_of_ana(tmp_path: Path) -> Iterator[Request]:
    workspace = create_workspace(tmp_path / "w")
    with WorkspaceSession(workspace, open_workspace_ledger(workspace), analyst="ana") as session:
        account = session.ledger.open_account(
            "visits@1", limit=Cost(10**9), accountant="pure", unit="row", adjacency="add-remove"
        )
        yield Request(session, parse(QUESTION), account, replace(table(), digest="a" * 64))


@pytest.mark.parametrize(
    "changed",
    [
        lambda one: one.by("bo"),
        lambda one: one.by(None),
        lambda one: one.asking(QUESTION.replace("50", "51")),
        lambda one: one.asking(f"{QUESTION} CONFIDENCE 0.9"),
        lambda one: one.asking(f"{QUESTION} REUSE NONE"),
        lambda one: one.asking(QUESTION.replace("COUNT(*)", "SUM(cost)")),
        lambda one: replace(one, account=replace(one.account, name="visits@1/ana")),
        lambda one: replace(one, account=replace(one.account, name="visits@2")),
        lambda one: replace(one, schema=replace(one.schema, digest="b" * 64)),
        lambda one: replace(one, schema=replace(one.schema, version=2)),
    ],
    ids=["analyst", "nobody", "error", "confidence", "reuse", "aggregate", "share", "epoch", "declaration", "version"],
)
def test_a_request_that_differs_in_anything_has_another_digest(
    request_of_ana: Request, changed: Callable[[Request], Request]
) -> None:
    assert changed(request_of_ana).digest != request_of_ana.digest


def test_the_same_request_in_other_words_has_the_same_digest(request_of_ana: Request) -> None:
    spaced = request_of_ana.asking("select  sex, count(*)  from visits group by sex error 50.0")
    assert spaced.by("ana").digest == request_of_ana.digest
