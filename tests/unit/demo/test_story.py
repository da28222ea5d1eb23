"""The demo's story: short to begin with, honest about how each step ends."""

from __future__ import annotations

from pathlib import Path

from siloquent.demo import story


def test_the_quick_story_is_the_beginning_of_the_whole_one() -> None:
    quick, whole = story(quick=True), story()
    assert whole[: len(quick)] == quick
    assert all(step.ends == 0 for step in quick)


def test_the_whole_story_holds_a_slip_and_a_refusal() -> None:
    ends = [step.ends for step in story()]
    assert 2 in ends
    assert 3 in ends


def test_every_step_says_why_it_is_there_in_lines_that_fit() -> None:
    for step in story():
        assert step.says.endswith((".", "?"))
        assert max(map(len, step.says.split("\n"))) <= 110


def test_a_session_by_processes_takes_the_place_of_the_one_in_threads() -> None:
    threads, processes = story(), story(roles_in=Path("clinic"))
    runs = [step.command for step in (*threads, *processes) if step.command[:2] == ("profile", "run")]
    assert ["--party" in run for run in runs] == [True, False]
    assert [step.command[:2] for step in processes if step.command[0] == "federation"] == [
        ("federation", "init"),
        ("federation", "check"),
        ("federation", "status"),
    ]
    assert all(step.says.endswith((".", "?")) for step in processes)
