"""One sketch of several silos: everyone keeps the same one, with one silo's noise, and pays the whole event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import siloquent as sq
from siloquent.errors import KeyReused, ProtocolError, RequestError
from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork, run_all
from siloquent.federation.measure import add_full_noise
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.sums import SERVICE, SumResult, build_worker_part
from siloquent.privacy import SummedGaussian
from siloquent.sketch import Budget, Density, SketchSpec, ask
from siloquent.sketch.federated import add_protocols, build_invitation, build_sum, build_sum_event, plan_silo_sum
from siloquent.sketch.sketch import Sketch
from siloquent.sketch.task import explain
from unit.federation.shares import recorded_shares
from unit.sketch.tables import PURE, ZCDP, rows, session, spec

module = import_module("siloquent.sketch.federated")
SILOS = ("north", "river", "hill")
MEMBERS = Members(
    (
        *(Member(name, "party", name) for name in SILOS),
        Member("w1", "worker", "a"),
        Member("w2", "worker", "b"),
        Member("office", "moderator", "c"),
    )
)


@pytest.fixture
def silos(tmp_path: Path) -> dict[str, sq.Session]:
    return {name: session(tmp_path / name, rows().slice(100 * k, 700 + 100 * k)) for k, name in enumerate(SILOS)}


def shared(silos: dict[str, sq.Session], **changed: object) -> SketchSpec:
    """A spec with the hash plan that all silos share."""
    asked = spec(rows=64, **changed)
    path = silos["north"].workspace.folder / "plan.json"
    path.write_text(explain(silos["north"], asked).hash_plan.to_json())
    return replace(asked, plan_file=path)


def together(silos: dict[str, sq.Session], asked: SketchSpec, *, absent: str = "", least: int = 3) -> dict[str, Any]:
    """Every role's part by the registry that a federation uses; ``absent`` was invited and did not join."""
    walks = ProtocolRegistry()
    add_protocols(walks)
    walks.add("worker", SERVICE, build_worker_part(add_full_noise))
    invitation = build_invitation(plan_silo_sum(silos["north"], asked, min_parties=least), parties=3, min_parties=least)

    def role(kind: Any, desk: Any) -> Callable[[Channel], Any]:
        return lambda channel: walks.get_part(kind, invitation)(channel, invitation, desk)

    parts = {name: role("party", silos[name]) for name in SILOS} | {name: role("worker", None) for name in ("w1", "w2")}
    parts["office"] = role("moderator", None)
    there = Members(tuple(member for member in MEMBERS if member.name != absent))
    return run_all(MemoryNetwork(there), {name: part for name, part in parts.items() if name != absent})


def test_every_silo_keeps_the_same_counters_and_they_are_near_the_truth(silos: dict[str, sq.Session]) -> None:
    asked = shared(silos)
    made = together(silos, asked)
    sketches: list[Sketch] = [made[name] for name in SILOS]
    summed: SumResult = made["office"]
    assert all(np.array_equal(one.counters, sketches[0].counters) for one in sketches)
    assert summed.total[: sketches[0].counters.size].tolist() == sketches[0].counters.ravel().tolist()
    one = sketches[0]
    total = float(one.estimate_class_sizes()[0])
    assert abs(total - 2400) < 8 * one.class_size_variance**0.5 + 1
    lone = explain(silos["north"], asked)
    assert lone.parameter < one.variance < 2 * lone.parameter  # with full noise at each silo it were 3 times that
    assert ask(one, Density([[0.5, 0.5]])).values.shape == (1,)


def test_every_silo_pays_once_and_saves_the_release(silos: dict[str, sq.Session]) -> None:
    together(silos, shared(silos))
    for opened in silos.values():
        assert opened.ledger.get_account("points@1").spent.amount > 0
        assert len([folder for folder in opened.workspace.releases.iterdir() if folder.is_dir()]) == 1


def test_a_silo_that_did_not_join_is_left_out_and_noise_enough_is_in(silos: dict[str, sq.Session]) -> None:
    asked = shared(silos)
    made = together(silos, asked, absent="hill", least=2)
    sketch, lone = made["north"], explain(silos["north"], asked)
    assert made["office"].parties == ("north", "river")
    assert sketch.variance >= 2 * lone.parameter  # of two of which one may show its noise, each adds the whole
    assert not silos["hill"].ledger.list_accounts()


def test_a_silo_under_two_names_is_refused_and_nobody_gets_a_sum(silos: dict[str, sq.Session]) -> None:
    asked = shared(silos)
    with pytest.raises((KeyReused, ProtocolError)) as refused:
        together({**silos, "river": silos["north"]}, asked)
    assert refused.value.code in ("key_reused", "aborted_by")
    assert not [found for opened in silos.values() for found in opened.workspace.releases.glob("r-*")]


def test_a_gaussian_sum_has_an_event_of_its_own(silos: dict[str, sq.Session]) -> None:
    asked = shared(silos)
    lone, joint = explain(silos["north"], asked), plan_silo_sum(silos["north"], asked, min_parties=3)
    assert lone.noise == "gaussian"
    assert isinstance(build_sum_event(replace(joint, size_parameter=None), 2), SummedGaussian)
    assert joint.price >= 0
    assert float(joint.price) == pytest.approx(float(lone.price), rel=0.01)  # whole variances round up


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["0.01", "1", "30", "1000", "99999"]), st.integers(2, 9), st.booleans())
def test_every_budget_has_a_price_at_which_the_sum_is_proved(
    silos: dict[str, sq.Session], rho: str, least: int, labelled: bool
) -> None:
    asked = shared(silos, budget=Budget(rho=rho), **({"label": "kind"} if labelled else {}))
    chosen = plan_silo_sum(silos["north"], asked, min_parties=least)
    honest = least - 1
    assert 0 < chosen.price <= Decimal(rho) * Decimal("1.001")
    numbers = [one for one in (chosen.parameter, chosen.size_parameter) if one is not None]
    assert all(math.ceil(one / honest) >= 9 for one in numbers)
    assert build_sum_event(chosen, honest) == chosen.event
    lone = module.plan(asked, silos["north"].schema(asked.table), seed=0, summed=True)
    raised = min(one for one in (lone.parameter, lone.size_parameter) if one is not None) < 9 * honest
    assert any("costs less than the budget" in note for note in chosen.notes) == raised


def test_silos_without_a_shared_plan_or_with_no_honest_share_are_refused(silos: dict[str, sq.Session]) -> None:
    channel = MemoryNetwork(MEMBERS).open_channel("north")
    with pytest.raises(RequestError, match="one hash plan"):
        build_sum(silos["north"], spec(budget=Budget(epsilon="1")), channel, min_parties=3)
    with pytest.raises(RequestError, match="no noise"):
        build_sum(silos["north"], shared(silos), channel, min_parties=2, colluding=2)
    with pytest.raises(RequestError, match="its own share"):
        build_sum(silos["north"], shared(silos), channel, min_parties=3, colluding=0)
    assert not silos["north"].ledger.list_accounts()  # none was opened, so none was charged


@pytest.mark.parametrize(
    "shown",
    [
        {"columns": ("x",)},
        {"tables": ("other",)},
        {"price": "rho 0.0001"},
        {"statement": "a number"},
        {"task": "share"},
        {"min_parties": 2},
        {"body": {"max_sets": 3}},
    ],
    ids=lambda shown: next(iter(shown)),
)
def test_a_silo_does_not_run_a_body_that_is_not_what_the_invitation_showed(
    silos: dict[str, sq.Session], shown: dict[str, Any]
) -> None:
    walks = ProtocolRegistry()
    add_protocols(walks)
    made = build_invitation(plan_silo_sum(silos["north"], shared(silos), min_parties=3), parties=3, min_parties=3)
    told = replace(made, **{**shown, "body": {**made.body, **shown.get("body", {})}})
    network = MemoryNetwork(MEMBERS)
    with pytest.raises(ProtocolError) as refused:
        walks.get_part("party", told)(network.open_channel("north"), told, silos["north"])
    assert refused.value.code == "planner_mismatch"
    assert not silos["north"].ledger.list_accounts()  # none was opened, so none was charged
    assert not network.list_traffic()


def test_an_invitation_names_the_label_among_the_columns(silos: dict[str, sq.Session]) -> None:
    made = build_invitation(
        plan_silo_sum(silos["north"], shared(silos, label="kind"), min_parties=3), parties=3, min_parties=3
    )
    assert made.columns[-1] == "kind"


@pytest.mark.parametrize("label", [None, "kind"])
@pytest.mark.parametrize("budget", [ZCDP, PURE], ids=["zcdp", "pure"])
@pytest.mark.parametrize("planted", [0, 1])
def test_each_silo_adds_the_share_of_noise_that_its_ledger_was_charged_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str, label: str | None, planted: int
) -> None:
    """With ``planted`` a silo's share is for one honest silo more: noise that no account was charged for lacks."""
    silos = {name: session(tmp_path / name, rows(300, seed=k), budget=budget) for k, name in enumerate(SILOS)}
    asked = shared(silos, label=label, budget=Budget(epsilon="8" if budget == PURE else "2"))
    seen = recorded_shares(monkeypatch)
    real = module.measure_share
    monkeypatch.setattr(module, "measure_share", lambda *all_, honest: real(*all_, honest=honest + planted))
    made = together(silos, asked)
    chosen = plan_silo_sum(silos["north"], asked, min_parties=3)
    kind, counters = "gaussian" if budget == ZCDP else "laplace", made["north"].counters
    charged = {(kind, Fraction(chosen.parameter), 2, counters.size)}
    if chosen.size_parameter is not None:
        charged.add((kind, Fraction(chosen.size_parameter), 2, len(counters)))
    assert len(seen) == 3 * len(charged)
    assert (set(seen) == charged) == (planted == 0)  # three silos, of which one may show its noise: two are honest
