"""The benchmark frame: discovery, the table, JSON, and when a run fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import Options, Row, runner
from benchmarks.__main__ import main
from benchmarks.row import Broken

FASTER = Row(row="draws-laplace", ours=0.25, goal=0.5, better="lower", unit="CPU s", how="10^6 draws")
SLOWER = Row(row="draws-gaussian", ours=0.9, goal=0.8, better="lower", unit="CPU s")
MORE = Row(row="ledger-charges", ours=np.float64(250), peer=228, goal=200, better="higher", unit="1/s")
FREE = Row(row="session-ratio", ours=11.0, paper=9.2, better="higher")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task "planted" with two modules: one gives three rows and then breaks, the other gives one."""

    def first(options: Options) -> Iterator[Row]:
        yield from (FASTER, MORE, FREE)
        if options.only is None and not options.quick:
            raise RuntimeError("disk full")

    def second(options: Options) -> Iterator[Row]:
        if options.wants(SLOWER.row) and not options.quick:
            yield SLOWER

    for name, rows in (("one", first), ("two", second)):
        module = ModuleType(f"benchmarks.planted_{name}")
        module.rows = rows  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    planted = ["benchmarks.planted_one", "benchmarks.planted_two"]
    for place in (runner, sys.modules[main.__module__]):
        monkeypatch.setattr(place, "tasks", lambda: ["planted"])
        monkeypatch.setattr(place, "modules", lambda task: planted)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["planted", *arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.usefixtures("task")
def test_a_broken_module_is_shown_with_its_reason_and_the_others_still_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys)
    assert status == 1
    assert "RuntimeError: disk full" in out
    assert "draws-gaussian" in out


@pytest.mark.usefixtures("task")
def test_all_goals_met_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--quick")
    assert status == 0
    assert "draws-laplace" in out
    assert ">= 200" in out


@pytest.mark.usefixtures("task")
def test_a_missed_goal_exits_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--only", "draws-gaussian")
    assert (status, "MISSED" in out) == (1, True)


@pytest.mark.usefixtures("task")
def test_only_takes_a_beginning_that_ends_at_a_hyphen(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--only", "draws", "--json", "-")
    assert [row["row"] for row in json.loads(out)] == ["draws-laplace", "draws-gaussian"]
    assert run(capsys, "--only", "draw")[0] == 2


@pytest.mark.usefixtures("task")
def test_an_empty_selection_exits_with_two_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "--only", "nothing")
    assert status == 2
    assert "no row matches --only 'nothing'" in err


@pytest.mark.usefixtures("task")
def test_json_on_standard_output_is_the_only_thing_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--quick", "--json", "-")
    keys = ["row", "ours", "paper", "peer", "goal", "better", "unit", "how"]
    assert status == 0
    assert [list(row) for row in json.loads(out)] == [keys] * 3


@pytest.mark.usefixtures("task")
def test_json_in_a_file_comes_beside_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run(capsys, "--json", str(tmp_path / "rows.json"))
    rows = json.loads((tmp_path / "rows.json").read_text("utf-8"))
    assert "draws-laplace" in out
    assert [row["row"] for row in rows if row["how"].startswith("failed: ")] == ["planted_one"]


@pytest.mark.parametrize(
    ("row", "misses"),
    [
        (FASTER, False),
        (SLOWER, True),
        (MORE, False),
        (FREE, False),
        (Row(row="edge", ours=1.0, goal=1.0, better="lower"), False),
        (Row(row="edge", ours=1.0, goal=1.0, better="higher"), False),
    ],
)
def test_a_goal_is_missed_on_its_wrong_side_only(row: Row, misses: bool) -> None:
    assert row.misses is misses


@pytest.mark.parametrize("ours", [float("nan"), float("inf")])
def test_a_figure_that_is_not_finite_is_no_row(ours: float) -> None:
    with pytest.raises(ValueError, match="ours is"):
        Row(row="draws", ours=ours)


def test_a_name_in_another_style_is_no_row() -> None:
    with pytest.raises(ValueError, match="letters and digits with hyphens"):
        Row(row="draws laplace", ours=1)


def test_a_broken_row_has_the_keys_of_a_row() -> None:
    assert list(Broken("core_noise", "x").document()) == list(FASTER.document())


def test_an_unknown_task_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["nonsense"])
    assert end.value.code == 2
    assert "nonsense" in capsys.readouterr().err


def test_what_we_rebuilt_stands_beside_and_never_as_printed(tmp_path: Path) -> None:
    """The thesis prints none of these: its mechanisms are rebuilt, and stand in the column ``peer``."""
    from benchmarks.explore import costs as explore_costs

    names = ("fit-QW1", "cost-pure-QW1")
    found = [row for name in names for row in explore_costs.rows(Options(tmp_path, only=name))]
    assert [row.row for row in found] == list(names)
    assert all(row.paper is None and row.peer is not None for row in found)


def test_goals_of_the_designs_notes_stand_as_they_are(tmp_path: Path) -> None:
    from benchmarks.datasets.published import TWELVE
    from benchmarks.profile.smfd import LESS, SETS

    assert {asked.name: asked.pure for asked in TWELVE}["QI3"] == 0.0000593
    assert {name: LESS.get(name, 20) for name in SETS} == {
        "iris": 20,
        "balance-scale": 20,
        "chess": 150,
        "abalone": 90,
        "nursery": 20,
        "breast-cancer-wisconsin": 150,
        "bridges": 150,
        "echocardiogram": 150,
    }


def test_a_quick_run_has_no_goals_that_are_for_the_whole_size() -> None:
    from benchmarks.row import of_full_size

    made = of_full_size(lambda options: iter([MORE]))
    assert [row.goal for row in made(Options(Path()))] == [200]
    assert [(row.goal, row.ours) for row in made(Options(Path(), quick=True))] == [(None, 250)]


@pytest.mark.parametrize(
    "name", ["collect.syn", "collect.joins", "sketch.kde", "search.joins", "search.planted", "search.unions"]
)
def test_rows_of_fewer_seeds_than_their_goals_are_for_have_none(name: str) -> None:
    import importlib

    assert hasattr(importlib.import_module(f"benchmarks.{name}").rows, "__wrapped__")
