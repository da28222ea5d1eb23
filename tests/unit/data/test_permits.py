"""What opens the data room: a paid permit of this very table; and rows of a user are chosen anew in a new epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from siloquent.api import Session
from siloquent.data import PrivateTable, open_table
from siloquent.errors import NotAllowed
from siloquent.ledger import Ledger, MemoryLedger, Permit, open_ledger
from siloquent.privacy import FREE, Composed, Cost, DiscreteLaplace, Disjoint, Event
from siloquent.schema import Block, TableSchema
from siloquent.schema.workspace import Workspace
from unit.data.clinic import clinic_schema, visits

ONE = DiscreteLaplace(scale=1, l1=1)
NOTHING: list[Event] = [FREE, Composed(()), Disjoint(()), Composed((FREE, Disjoint((FREE,))))]


def asks(table: PrivateTable, permit: Permit) -> list[Callable[[], object]]:
    block = Block((), ())
    return [
        lambda: table.count_by_cell([block], permit),
        lambda: table.sum_by_cell([block], "age", permit),
        lambda: table.read_rows(["age"], permit),
        lambda: table.read_rows(["age"], permit, encoded=True),
        lambda: table.fold(lambda batch: np.zeros(1), np.add, ["age"], permit),
    ]


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made: Any = MemoryLedger() if request.param == "memory" else open_ledger(tmp_path / "l.sqlite", create=True)
    yield made
    made.close()


def reserved(ledger: Ledger, account: str, event: Event = ONE) -> Permit:
    permit = ledger.reserve(account, event, key=None, digest="0" * 64)
    assert isinstance(permit, Permit)
    return permit


def opened(ledger: Ledger, schema: TableSchema) -> PrivateTable:
    ledger.open_account(
        schema.account, limit=Cost(10**12), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    return open_table(schema, None, ledger, salt="00", frame=visits(50))


@pytest.mark.parametrize("other", ["visit", "visits2", "visits@10", "other"])
def test_a_permit_of_another_table_of_the_same_ledger_opens_nothing(ledger: Ledger, other: str) -> None:
    table = opened(ledger, clinic_schema())
    account = other if "@" in other else f"{other}@1"
    ledger.open_account(account, limit=Cost(10**12), accountant="pure", unit="row", adjacency="add-remove")
    for permit in (reserved(ledger, account), replace(reserved(ledger, account), account=table.schema.account)):
        for ask in asks(table, permit):
            with pytest.raises(NotAllowed):
                ask()
    assert table.count_by_cell([Block((), ())], reserved(ledger, table.schema.account))[0].tolist() == [50]


@pytest.mark.parametrize("event", NOTHING, ids=repr)
def test_a_permit_that_paid_for_nothing_opens_nothing(ledger: Ledger, event: Event) -> None:
    table = opened(ledger, clinic_schema())
    permit = reserved(ledger, table.schema.account, event)
    assert permit.cost == Cost(0)
    for ask in asks(table, permit):
        with pytest.raises(NotAllowed, match="reserved no cost"):
            ask()


# Which rows of a user count


SEVERAL = clinic_schema(unit='{ kind = "user", column = "patient", max_rows = 1 }')


def chosen(session: Session, schema: TableSchema) -> list[tuple[object, ...]]:
    """The rows that count: of each of 60 patients, one of four."""
    ages = range(4 * 60)
    rows = visits(4 * 60).set_column(0, "patient", pa.array([i // 4 for i in ages], pa.int64()))
    session.add_frame(schema, rows.set_column(rows.column_names.index("age"), "age", pa.array([i % 90 for i in ages])))
    session.open_account(schema.account, FREE, table=schema.name)
    permit = reserved(session.ledger, schema.account)
    batches = session.table(schema.name).read_rows(["patient", "age"], permit)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def epochs(session: Session) -> list[list[tuple[object, ...]]]:
    """The rows that count in epoch 1, again in epoch 1, and in epoch 2."""
    second = replace(SEVERAL, budget=replace(SEVERAL.budget, epoch=2))
    first = [chosen(session, SEVERAL), chosen(session, SEVERAL)]
    session.ledger.open_epoch(SEVERAL.account, second.account, statement="new people")
    return [*first, chosen(session, second)]


def test_a_new_epoch_chooses_each_users_rows_anew(tmp_path: Path) -> None:
    first, again, second = epochs(Session(Workspace(tmp_path), MemoryLedger()))
    assert len(first) == len(second) == 60
    assert first == again
    # Each of 60 patients keeps its row with probability 1/4: that all do has probability 4^-60.
    assert first != second


def test_a_salt_without_the_epoch_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Session._compute_salt
    monkeypatch.setattr(
        Session,
        "_compute_salt",
        lambda self, schema: whole(self, replace(schema, budget=replace(schema.budget, epoch=1))),
    )
    first, _, second = epochs(Session(Workspace(tmp_path), MemoryLedger()))
    assert first == second


def test_another_ledger_and_another_table_choose_other_rows(tmp_path: Path) -> None:
    sessions = [Session(Workspace(tmp_path), MemoryLedger()) for _ in range(2)]
    other = replace(SEVERAL, name="stays")
    found = [chosen(sessions[0], SEVERAL), chosen(sessions[0], other), chosen(sessions[1], SEVERAL)]
    assert found[0] != found[1] != found[2] != found[0]
