"""What draws noise is loaded before anything is charged: a broken installation is refused free."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siloquent as sq
from siloquent.errors import InstallationError
from siloquent.privacy.budget import Budget
from siloquent.privacy.noise import opendp_noise
from siloquent.session import WorkspaceSession as WorkspaceSession
from siloquent.synth import SynthSpec
from unit.data.clinic import clinic_schema, visits

QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Any]:
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as opened:
        opened.add_frame(clinic_schema(), visits(300))
        yield opened


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OpenDP is there, and its library cannot be loaded."""
    for kept in (opendp_noise.load, opendp_noise._build_cached):  # what other tests made would serve here, too
        kept.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    yield
    opendp_noise.load.cache_clear()


def reserves(session: Any) -> int:
    return sum(entry.kind == "reserve" for entry in session.ledger.iter_entries())


ACTS: dict[str, Callable[[Any], Any]] = {
    "explore": lambda session: session.ask(QUESTION, key="k"),
    "synth": lambda session: session.synth.synthesize(SynthSpec("visits", budget=Budget(epsilon="0.1")), key="k"),
}


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", ACTS)
def test_a_broken_installation_is_refused_free(session: Any, name: str) -> None:
    with pytest.raises(InstallationError) as refused:
        ACTS[name](session)
    assert refused.value.spent == "nothing"
    assert reserves(session) == 0


@pytest.mark.usefixtures("broken")
def test_without_the_check_the_same_question_is_charged_for_nothing(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkspaceSession, "require_samplers", lambda self: None)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is, it comes after the charge
        session.ask(QUESTION, key="k")
    assert reserves(session) == 1
