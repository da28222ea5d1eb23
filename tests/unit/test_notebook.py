"""In a notebook an error is its sentence and progress one line; scripts and prompts are as before."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.errors import LedgerError, SiloquentError, UnknownName
from siloquent.notebook import ProgressLine, build_step_display, is_notebook
from siloquent.synth import Budget, SynthSpec


class Output:
    """What a notebook shows: each display has an id, under which it is replaced."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.updates = 0

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Output:
        assert raw
        assert display_id
        self.shown.append(data)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown[-1] = data
        self.updates += 1


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    found = Output()
    fake: Any = ModuleType("IPython")
    fake.get_ipython = lambda: SimpleNamespace(kernel=object())
    fake.display = SimpleNamespace(display=found.display)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return found


def test_a_script_and_a_terminal_of_ipython_are_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not is_notebook()
    assert build_step_display("synthesis", 10) is None
    fake: Any = ModuleType("IPython")
    for shell in (None, SimpleNamespace()):
        fake.get_ipython = lambda shell=shell: shell
        monkeypatch.setitem(sys.modules, "IPython", fake)
        assert not is_notebook()


def test_progress_is_one_line_that_is_replaced(output: Output) -> None:
    tell = build_step_display("synthesis", 2_000)
    assert tell is not None
    for done in range(1, 2_001):
        tell(done)
    assert len(output.shown) == 1
    assert output.shown[0]["text/plain"] == "synthesis: step 2,000 of 2,000"
    assert output.shown[0]["text/html"].startswith('<progress value="2000" max="2000">')
    assert 1 <= output.updates < 100


def test_progress_is_shown_at_most_five_times_a_second_and_escaped(output: Output) -> None:
    now = 0.0
    line = ProgressLine("<b>", clock=lambda: now)
    for step in range(100):
        now = step / 50
        line.say(f"round {step}", often=True)
    assert output.updates <= 10
    assert "<b>" not in output.shown[0]["text/html"]


def test_long_work_shows_its_steps_in_a_notebook(output: Output, tmp_path: Path) -> None:
    frame = pa.table({"ward": ["A", "B"] * 50, "floor": ["1", "2"] * 50})
    columns = {"ward": ["A", "B"], "floor": ["1", "2"]}
    declaration = sq.declare(frame, columns, name="visits", person="none", accept=True, epsilon=50, empty="drop")
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        session.add_frame(declaration, frame)
        plan = session.synth.explain(SynthSpec(table="visits", budget=Budget(epsilon="20"), rows=50))
        made = session.synth.synthesize(SynthSpec(table="visits", budget=Budget(epsilon="20"), rows=50))
        assert output.shown[-1]["text/plain"] == f"synthesis: step {plan.steps} of {plan.steps}"
        assert made.to_pandas().shape == (50, 2)
        assert str(made).startswith("50 synthetic rows of 2 columns from visits@1")
        session.profile.local("visits")
    assert output.shown[-1]["text/plain"].startswith("dependencies: left sides of 1 columns")
    assert len(output.shown) == 2


def raise_in_siloquent() -> None:
    sq.parse("SELECT COUNT(* FROM visits")


def test_an_error_in_a_notebook_is_its_sentence_its_fix_and_the_callers_line() -> None:
    with pytest.raises(SiloquentError) as refused:
        raise_in_siloquent()
    error = refused.value
    said = error._render_traceback_()
    assert said[0] == f"{error.title} [{error.code}]"
    assert error.detail in said
    assert "Spent: nothing." in said
    assert said[-1].endswith('sq.parse("SELECT COUNT(* FROM visits")')
    assert len(said) <= 6
    assert not any("src/siloquent" in line for line in said)


def test_a_fix_and_a_note_are_shown() -> None:
    error = UnknownName("table", "vists", ["visits"], fix="siloquent tables")
    error.add_note("Job 7; its key is 'monday'.")
    assert error._render_traceback_()[2:] == ["Fix: siloquent tables", "Spent: nothing.", "Job 7; its key is 'monday'."]


def test_a_script_keeps_its_traceback() -> None:
    with pytest.raises(SiloquentError) as refused:
        raise_in_siloquent()
    text = "".join(traceback.format_exception(refused.value))
    assert text.startswith("Traceback (most recent call last):")
    assert "raise_in_siloquent" in text


def test_an_error_of_our_own_keeps_its_traceback_in_a_notebook() -> None:
    with pytest.raises(SiloquentError) as broken:
        raise SiloquentError("a count is negative")
    assert "Traceback" in broken.value._render_traceback_()[0]
    assert "Traceback" not in LedgerError("locked")._render_traceback_()[0]
