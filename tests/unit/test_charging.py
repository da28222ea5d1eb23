"""One request as the ledger knows it: its key, its limit, and the promise of what was charged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from siloquent.charge import Charge, build_guarantee, compute_charged_amount, require_planned
from siloquent.errors import KeyReused, NotAllowed, RequestError
from siloquent.ledger import Permit, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.session import WorkspaceSession, create_workspace, open_workspace_ledger
from unit.explore.plan.tables import table

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
    assert "--max-cost 0.3334" in str(refusal)
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
    seeds = {charge(session, key).derive_seed("ledger") for key in ("a", "a", "b")}
    assert len(seeds) == 2
    assert charge(session, None).derive_seed("ledger") is None


def test_a_permit_for_something_else_measures_nothing(session: WorkspaceSession) -> None:
    permit = charge(session).reserve(session, THIRD)
    assert isinstance(permit, Permit)
    require_planned(permit, THIRD)
    with pytest.raises(RequestError, match="planned differently"):
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
