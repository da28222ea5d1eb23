"""Huge questions are planned or refused in a process that may grow by 512 MB. All: ``explore --only plan-fuzz``."""

from __future__ import annotations

import pytest

from benchmarks.explore.plan_fuzz import explained


@pytest.mark.slow
@pytest.mark.parametrize(("accountant", "size"), [("pure", 2_500), ("zcdp", 12)])
def test_every_huge_question_is_planned_or_refused_within_its_room(accountant: str, size: int) -> None:
    """The child is killed after 60 CPU seconds; it takes some five."""
    lines = [line.split() for line in explained(accountant, size, seconds=60, quickly=True).splitlines()]
    assert len(lines) > 25
    assert [name for name, *_, outcome in lines if outcome == "broken"] == []
    assert {outcome for *_, outcome in lines} == {"planned", "refused"}
