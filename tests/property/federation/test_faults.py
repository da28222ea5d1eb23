"""Seeded faults: whatever is lost, repeated, delayed, changed or killed, a session ends right or with a name.

A failing seed is shrunk to the fewest faults that still fail. More: ``python -m benchmarks profile --only faults``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from simulation.parts import HOSTILE
from simulation.profiles import CALLS, ProfileSimulation
from simulation.simulator import FAULTS, Outcome, Run, Simulation, failing, shrunk

SEEDS = 100


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="siloquent.federation")


def play(run: Run) -> Outcome:
    return Simulation(run).play()


@pytest.mark.slow
def test_no_seed_ends_in_what_must_never_be() -> None:
    ends: dict[str, int] = {}
    for seed in range(SEEDS):
        run = Run.of(seed)
        outcome = play(run)
        assert outcome.impossible == [], f"{outcome.impossible}: {shrunk(run)}"
        end = "sum" if outcome.total is not None else "named"
        ends[end] = ends.get(end, 0) + 1
    assert ends["sum"] > SEEDS / 2  # most faults are survived
    assert ends["named"] > 0  # and some cannot be


@pytest.mark.parametrize("fault", [kind for kind in FAULTS if kind not in (*HOSTILE, "lose state", "second process")])
def test_one_honest_fault_early_or_late_does_not_cost_the_session(fault: str) -> None:
    for call in (20, 150):
        outcome = play(Run(7, ((call, fault),)))
        assert outcome.impossible == []
        assert outcome.total is not None or fault in ("disk full", "clock jump"), (call, outcome.code)


def test_the_same_run_ends_the_same_way() -> None:
    run = Run.of(11, most=8)
    one, two = play(run), play(run)
    assert (one.calls, one.code, one.states) == (two.calls, two.code, two.states)


def test_a_planted_fault_is_caught_and_shrunk() -> None:
    def draws_twice(run: Run) -> Outcome:
        """A build whose parties forget their vector when they are killed."""
        outcome = play(run)
        if any(kind == "kill" for _, kind in run.faults):
            outcome.impossible.append("measured twice")
        return outcome

    run = replace(Run.of(3), faults=((30, "delay"), (60, "kill"), (90, "duplicate")))
    assert failing(run, draws_twice)
    assert shrunk(run, draws_twice).faults == ((60, "kill"),)


def test_a_build_that_forgets_its_vector_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.parts.SimJournal.get", lambda self, session, key: None)
    assert any(failing(Run(seed, ((call + seed, "kill"),))) for call in (145, 155) for seed in range(12))


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["padded", "fast", "smfd"])
def test_no_seed_of_a_profile_ends_in_what_must_never_be(protocol: Literal["padded", "fast", "smfd"]) -> None:
    right = 0
    for seed in range(8):
        run = Run.of(seed, calls=CALLS)
        outcome = ProfileSimulation(run, protocol).play()
        assert outcome.impossible == [], f"{outcome.impossible}: {run}"
        assert outcome.total is not None or outcome.code
        right += outcome.total is not None
    assert right >= 4  # most faults are survived


def test_a_profile_with_a_wrong_result_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.profiles.in_the_open", lambda rows: [(1, 1)])
    assert "north has wrong dependencies" in ProfileSimulation(Run(2, ()), "padded").play().impossible
