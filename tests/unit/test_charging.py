"""One request as the ledger knows it: its key, its limit, and the promise of what was charged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import pytest

import siloquent as sq
from siloquent.charge import Charge, require_planned, run_once
from siloquent.errors import BudgetExceeded, DataError, KeyReused, NotAllowed, RequestError, SchemaError
from siloquent.ledger import Permit, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace, Event
from siloquent.releases.guarantees import build_guarantee, compute_charged_amount
from siloquent.schema import TableSchema
from siloquent.session import WorkspaceSession, create_workspace, open_workspace_ledger
from unit.explore.plan.tables import table
from unit.sketch.tables import PURE, rows, schema

THIRD = DiscreteLaplace(scale=Fraction(3), l1=1)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[WorkspaceSession]:
    workspace = create_workspace(tmp_path / "w")
    with WorkspaceSession(workspace, open_workspace_ledger(workspace)) as opened:
        opened.ledger.open_account("t@1", limit=Cost(10**9), accountant="pure", unit="row", adjacency="add-remove")
        yield opened


def charge(session: WorkspaceSession, key: str | None = "monday", **more: object) -> Charge:
    return Charge(key, session.ledger.get_account("t@1"), "d" * 64, **more)  # type: ignore[arg-type]


def test_each_step_of_a_request_has_a_key_of_its_own(session: WorkspaceSession) -> None:
    first = charge(session)
    assert (first.own_key, first.build_next_step(THIRD).own_key) == ("t@1:monday", "t@1+2:monday")
    assert charge(session, None).build_next_step(THIRD).own_key is None


@pytest.mark.parametrize("key", ["", "x" * 65, "é", "two\nlines"])
def test_a_key_that_cannot_be_kept_is_refused(session: WorkspaceSession, key: str) -> None:
    with pytest.raises(RequestError, match="1 to 64"):
        charge(session, key)


def test_a_limit_that_cannot_be_read_is_refused_before_anything_is_asked(session: WorkspaceSession) -> None:
    with pytest.raises(RequestError):
        charge(session, max_cost="much")


def test_the_limit_is_compared_with_what_would_be_charged_and_not_with_the_exact_price(
    session: WorkspaceSession,
) -> None:
    refusal = charge(session, max_cost="0.333333333").find_cost_refusal(
        session, THIRD
    )  # charged: one third, rounded up
    assert refusal is not None
    assert 'max_cost="0.3334"' in str(refusal)
    assert charge(session, max_cost="0.333333334").find_cost_refusal(session, THIRD) is None


def test_what_was_paid_before_counts_towards_the_limit(session: WorkspaceSession) -> None:
    second = charge(session, max_cost="0.5").build_next_step(THIRD)
    with pytest.raises(RequestError, match=r"more than the 0\.5"):
        second.require_affordable(session, THIRD)


def test_what_was_paid_under_a_key_is_found_again_and_is_nobody_elses(session: WorkspaceSession) -> None:
    asked = charge(session)
    permit = asked.reserve(session, THIRD)
    assert isinstance(permit, Permit)
    session.ledger.settle(permit, THIRD, b"kept")
    found = asked.find_existing(session)
    assert isinstance(found, SettledAnswer)
    assert found.payload == b"kept"
    assert replace(asked, max_cost="0.1").find_cost_refusal(session, THIRD) is None
    with pytest.raises(KeyReused, match="another sketch"):
        replace(asked, digest="e" * 64, what="sketch").find_existing(session)


def test_a_seed_is_the_same_at_every_retry_and_another_under_another_key(session: WorkspaceSession) -> None:
    seeds = {charge(session, key).derive_seed(session) for key in ("a", "a", "b")}
    assert len(seeds) == 2
    assert charge(session, None).derive_seed(session) is None


def test_a_permit_for_something_else_measures_nothing(session: WorkspaceSession) -> None:
    permit = charge(session).reserve(session, THIRD)
    assert isinstance(permit, Permit)
    require_planned(permit, THIRD)
    with pytest.raises(RequestError, match="for a different plan"):
        require_planned(permit, replace(THIRD, scale=Fraction(4)))


def test_what_another_run_of_the_request_released_first_is_the_release(session: WorkspaceSession) -> None:
    asked = charge(session)
    permit = asked.reserve(session, THIRD)
    assert isinstance(permit, Permit)
    open_permit = permit

    def late() -> SettledAnswer:
        session.ledger.settle(open_permit, THIRD, b"first")  # the other run, in the midst of this one
        session.ledger.require_open(open_permit, account="t@1")
        raise AssertionError("a settled permit measures nothing")

    kept, is_others = asked.measure_once(session, late)
    assert (kept.payload, is_others) == (b"first", True)


def test_a_refusal_that_is_nobodys_release_stays_one(session: WorkspaceSession) -> None:
    def refused() -> SettledAnswer:
        raise NotAllowed("no")

    for key in ("nothing under it", None):
        with pytest.raises(NotAllowed):
            charge(session, key).measure_once(session, refused)


def test_the_guarantee_of_two_steps_is_what_both_were_charged(session: WorkspaceSession) -> None:
    schema = table()
    kept = []
    for asked in (charge(session), charge(session).build_next_step(THIRD)):
        permit = asked.reserve(session, THIRD)
        assert isinstance(permit, Permit)
        kept.append(session.ledger.settle(permit, THIRD, b""))
    found = build_guarantee(schema, *kept)
    assert found.epsilon == compute_charged_amount(schema, *kept) == 2 * Fraction(333_333_334, 10**9)
    assert (found.spent_before, found.spent_after) == (0, found.epsilon)


@dataclass(frozen=True)
class Planned:
    """A plan as every task has one."""

    schema: TableSchema
    event: Event = THIRD


@pytest.fixture
def points(tmp_path: Path) -> Iterator[sq.Session]:
    sq.create_workspace(tmp_path / "p")
    with sq.open(tmp_path / "p") as opened:
        opened.add_frame(schema(budget=PURE), rows(5))
        yield opened


def build(opened: sq.Session, key: str | None = "monday", **more: object) -> tuple[Charge, Planned]:
    return Charge(key, opened.get_account("points"), "d" * 64, **more), Planned(opened.schema("points"))  # type: ignore[arg-type]


def spent(opened: sq.Session) -> int:
    return opened.get_account("points").spent.amount


def test_a_paid_request_takes_its_steps_in_one_order(points: sq.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, planned = build(points, max_cost="1")
    steps: list[str] = []
    for owner, name in (
        *((Charge, one) for one in ("find_existing", "require_affordable", "reserve", "measure_once")),
        (WorkspaceSession, "open_planned_table"),
        (type(points.ledger), "settle"),
    ):

        def noted(*given: object, _name: str = name, _real: object = getattr(owner, name), **more: object) -> object:
            steps.append(_name)
            return _real(*given, **more)  # type: ignore[operator]

        monkeypatch.setattr(owner, name, noted)

    def measure(_: object, permit: Permit) -> bytes:
        points.ledger.require_open(permit, account=asked.account.name)
        steps.append("measure")
        return b"kept"

    stored = run_once(points, asked, planned, measure, rehearse=lambda: steps.append("rehearse"))
    assert stored.payload == b"kept"
    order = [name for name in dict.fromkeys(steps) if name != "open_planned_table"]
    assert order == ["find_existing", "rehearse", "require_affordable", "reserve", "measure_once", "measure", "settle"]
    assert steps.index("open_planned_table") < steps.index("reserve")
    steps.clear()
    assert run_once(points, asked, planned, measure, rehearse=lambda: steps.append("rehearse")) == stored
    assert steps == ["find_existing"]


@pytest.mark.parametrize(
    ("more", "changed", "refusal"),
    [
        ({"max_cost": "0.1"}, {}, RequestError),
        ({}, {"event": DiscreteLaplace(scale=Fraction(1, 2_000), l1=1)}, BudgetExceeded),
        ({}, {"schema": schema(budget=PURE, size=7)}, SchemaError),
    ],
)
def test_what_is_refused_measures_and_costs_nothing(
    points: sq.Session, more: dict[str, object], changed: dict[str, object], refusal: type[Exception]
) -> None:
    asked, planned = build(points, **more)

    def measure(_: object, __: object) -> bytes:
        raise AssertionError("rows are read")

    with pytest.raises(refusal):
        run_once(points, asked, replace(planned, **changed), measure)  # type: ignore[arg-type]
    assert spent(points) == 0


def test_a_rehearsal_that_fails_costs_nothing_and_is_left_out_of_a_repeat(points: sq.Session) -> None:
    asked, planned = build(points)

    def fail() -> None:
        raise RequestError("too large")

    with pytest.raises(RequestError, match="too large"):
        run_once(points, asked, planned, lambda _, __: b"", rehearse=fail)
    assert spent(points) == 0
    run_once(points, asked, planned, lambda _, __: b"kept")
    assert run_once(points, asked, planned, lambda _, __: b"", rehearse=fail).payload == b"kept"


def test_a_measurement_that_fails_stays_charged_and_the_key_ends_it_at_no_cost(points: sq.Session) -> None:
    asked, planned = build(points)

    def fail(_: object, __: object) -> bytes:
        raise DataError(charged=True)

    with pytest.raises(DataError):
        run_once(points, asked, planned, fail)
    paid = spent(points)
    assert paid > 0
    with pytest.raises(RequestError, match="for a different plan"):
        run_once(points, asked, replace(planned, event=replace(THIRD, scale=Fraction(4))), lambda _, __: b"")
    assert run_once(points, asked, planned, lambda _, __: b"kept").payload == b"kept"
    assert spent(points) == paid
