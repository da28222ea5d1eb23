"""The demo's story: short to begin with, honest about how each step ends."""

from __future__ import annotations

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
