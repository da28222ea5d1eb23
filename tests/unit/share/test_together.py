"""Secure sums of several clinics in one process: the same release at all of them, and one noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import siloquent as sq
from siloquent import share
from siloquent.errors import ProtocolError, RequestError
from siloquent.federation.channel import Member, Members, MemoryNetwork
from siloquent.federation.channel.memory import run_all
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.sums import add_shares
from siloquent.share import Budget, LearnSpec, ShareRelease, ShareSpec
from siloquent.share.federated import add_protocols, build_invitation, build_sum_spec, hold_sum
from siloquent.share.measure.counting import count_exactly
from siloquent.share.plan import SharePlan
from unit.federation.shares import recorded_shares
from unit.share.tables import PURE, ZCDP, rows, session, spec

NAMES = ("north", "river", "hill")


def summed_spec(**changed: Any) -> ShareSpec:
    return spec(
        **{"trust": "sum", "agents": 3, "honest": 2, "method": "gram", "budget": Budget(epsilon="4"), **changed}
    )


def clinics(folder: Path, budget: str = PURE) -> dict[str, sq.Session]:
    return {name: session(folder / name, rows(300, seed=i), budget=budget) for i, name in enumerate(NAMES)}


def network(names: tuple[str, ...] = NAMES) -> MemoryNetwork:
    parties = [Member(name, "party") for name in names]
    return MemoryNetwork(
        Members((*parties, Member("w1", "worker"), Member("w2", "worker"), Member("office", "moderator")))
    )


def services(planned: SharePlan, timeout: float | None = None) -> dict[str, Callable[[Any], Any]]:
    """The parts of workers and moderator."""
    told = build_sum_spec(planned)
    parts: dict[str, Callable[[Any], Any]] = {
        worker: (lambda channel: add_shares(channel, told, timeout=timeout)) for worker in ("w1", "w2")
    }
    return {**parts, "office": lambda c: hold_sum(c, told, planned.agreement.compute_prints(), timeout=timeout)}


def giving(opened: dict[str, sq.Session], wanted: ShareSpec) -> dict[str, Callable[[Any], Any]]:
    """The parts of clinics."""
    return {name: (lambda channel, one=one: one.share.release_sum(wanted, channel)) for name, one in opened.items()}


def together(opened: dict[str, sq.Session], wanted: ShareSpec, net: MemoryNetwork | None = None) -> dict[str, Any]:
    planned = next(iter(opened.values())).share.explain(wanted)
    return run_all(net or network(), {**giving(opened, wanted), **services(planned)})


CASES = [("marginals", PURE), ("gram", PURE), ("marginals", ZCDP), ("gram", ZCDP), ("moments", ZCDP)]


@pytest.mark.parametrize(
    ("method", "budget"), CASES, ids=["marginals", "gram", "marginals-zcdp", "gram-zcdp", "moments"]
)
def test_all_clinics_get_one_release_and_pay_the_whole_price_each(tmp_path: Path, method: str, budget: str) -> None:
    opened = clinics(tmp_path, budget)
    wanted = summed_spec(method=method)
    made = together(opened, wanted)
    releases: list[ShareRelease] = [made[name] for name in NAMES]
    assert all(np.array_equal(release.counts, made["office"].total) for release in releases)
    assert releases[0].members == NAMES
    assert "as long as 2 of the 3 silos" in releases[0].describe_guarantee()
    for one in opened.values():
        planned = one.share.explain(wanted)
        assert (
            one.get_account("patients").spent.amount
            == planned.price * {"pure": 10**9, "zcdp": 10**12}[budget_name(one)]
        )
    model = share.learn(opened["hill"], LearnSpec("patients", "sick", releases[:1]))
    assert model.silos == 3


@pytest.mark.parametrize(("method", "budget"), [CASES[0], CASES[1], CASES[3], CASES[4]])
def test_each_clinic_adds_the_share_of_noise_that_its_ledger_was_charged_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, budget: str
) -> None:
    opened, wanted, seen = clinics(tmp_path, budget), summed_spec(method=method), recorded_shares(monkeypatch)
    together(opened, wanted)
    planned = opened["north"].share.explain(wanted)
    kind = "laplace" if budget == PURE else "gaussian"
    assert Counter(seen) == {(kind, run.parameter, 2, run.length): 3 * planned.runs.count(run) for run in planned.runs}


def budget_name(opened: sq.Session) -> str:
    return opened.schema("patients").budget.accountant


def test_the_sum_is_near_the_sum_of_exact_vectors(tmp_path: Path) -> None:
    opened = clinics(tmp_path)
    made = together(opened, summed_spec(budget=Budget(epsilon="400")))["north"]
    layout = opened["north"].share.explain(summed_spec()).layout
    assert layout is not None
    exact = np.zeros(layout.length, dtype=np.int64)
    for i in range(3):
        table = rows(300, seed=i)
        encoding = layout.encoding
        places = encoding.compute_indices({name: table[name].to_pylist() for name in encoding.names[:-1]})
        label = np.array([encoding.label.index(value) for value in table["sick"].to_pylist()])
        exact += count_exactly(layout, np.column_stack([places, label]))
    # Noise of scale 15/400 is 0 nearly always; 10 is beyond e^-266.
    assert abs(made.counts - exact).max() <= 10


def test_own_rows_are_taken_off_ones_own_copy_of_a_sum(tmp_path: Path) -> None:
    """Else the shared model has seen what it is judged on: here nobody but north has rows, so it can know nothing."""
    opened = clinics(tmp_path)
    for name in ("river", "hill"):
        opened[name] = session(tmp_path / f"empty-{name}", rows(0))
    made = together(opened, summed_spec(budget=Budget(epsilon="400"), method="marginals"))  # noise is 0 but for e^-90
    mine = opened["north"].share.advise(LearnSpec("patients", "sick", [made["north"]]))
    seen = opened["north"].share.advise(LearnSpec("patients", "sick", [made["river"]]))
    assert mine.measures["shared"].auc == pytest.approx(0.5)
    assert seen.measures["shared"].auc > 0.8
    assert not mine.recommended
    assert opened["north"].share.learn(LearnSpec("patients", "sick", [made["north"]])).silos == 2


def test_no_message_holds_a_clinics_own_vector(tmp_path: Path) -> None:
    opened, net = clinics(tmp_path), network()
    together(opened, summed_spec(), net)
    layout = opened["north"].share.explain(summed_spec()).layout
    assert layout is not None
    for (sender, _, step, _), payload in net.list_traffic().items():
        if sender in NAMES and step == "a2" and len(payload) > 100:
            words = np.frombuffer(payload[-8 * layout.length :], dtype="<i8")
            assert np.median(abs(words.astype(float))) > 2**55


def test_a_release_of_a_sum_is_kept_and_verified(tmp_path: Path) -> None:
    opened = clinics(tmp_path)
    made = together(opened, summed_spec())["river"]
    folder = opened["river"].share.save(made)
    assert opened["river"].verify(folder).ok
    assert share.load_release(folder).members == NAMES


def test_a_clinic_that_cannot_pay_spends_nothing(tmp_path: Path) -> None:
    opened = clinics(tmp_path)
    wanted = summed_spec(budget=Budget(epsilon="4000"))
    with pytest.raises((ProtocolError, sq.SiloquentError)):
        together(opened, wanted)
    assert all(one.get_account("patients").spent.amount == 0 for one in opened.values())


def test_a_local_spec_needs_no_channel_and_a_sum_of_two_is_refused(tmp_path: Path) -> None:
    opened = clinics(tmp_path)["north"]
    with pytest.raises(RequestError, match="needs no other silo"):
        opened.share.release_sum(spec(), network().open_channel("north"))
    with pytest.raises(RequestError, match="too long to draw"):
        opened.share.explain(summed_spec(method="moments"))
    with pytest.raises(RequestError, match="Of two parties"):
        build_sum_spec(opened.share.explain(summed_spec(agents=2, honest=1)))


def test_two_copies_of_one_sum_are_not_added_up(tmp_path: Path) -> None:
    opened = clinics(tmp_path)
    made = together(opened, summed_spec())
    with pytest.raises(RequestError, match="one release for all"):
        share.learn(opened["hill"], LearnSpec("patients", "sick", [made["north"], made["river"]], use_own=False))


@pytest.mark.parametrize(
    "shown",
    [
        {"columns": ("age",)},
        {"tables": ("visits",)},
        {"price": "epsilon 0.1"},
        {"statement": "a number"},
        {"min_parties": 2},
    ],
    ids=lambda shown: next(iter(shown)),
)
def test_a_clinic_does_not_run_a_body_that_is_not_what_the_invitation_showed(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    opened, net, walks = clinics(tmp_path)["north"], network(), ProtocolRegistry()
    add_protocols(walks)
    told = replace(build_invitation(opened, summed_spec()), **shown)
    with pytest.raises(ProtocolError) as refused:
        walks.get_part("party", told)(net.open_channel("north"), told, opened)
    assert refused.value.code == "planner_mismatch"
    assert opened.get_account("patients").spent.amount == 0
    assert not net.list_traffic()


@pytest.mark.parametrize("method", ["marginals", "gram", "moments"])
def test_a_gaussian_sum_takes_its_budget_but_for_a_thousandth(tmp_path: Path, method: str) -> None:
    opened = clinics(tmp_path, ZCDP)["north"]
    planned = opened.share.explain(summed_spec(method=method, budget=Budget(rho="0.0001")))
    assert 0.999 * 0.0001 < planned.price <= 0.0001


def test_noise_beside_an_average_cell_falls_with_the_number_of_silos(tmp_path: Path) -> None:
    opened = clinics(tmp_path, ZCDP)["north"]
    few, many = (
        opened.share.explain(summed_spec(method="moments", agents=agents, honest=2, budget=Budget(rho="0.1")))
        for agents in (3, 9)
    )
    found = [planned.compute_relative_noise() for planned in (few, many)]
    assert found[0] == pytest.approx(3 * found[1], rel=1e-6)  # type: ignore[operator]
