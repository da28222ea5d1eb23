"""How often a plan asks the law of its noise: a few dozen times, however small or large the budget or the error is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from siloquent.errors import AccuracyUnreachable
from siloquent.explore.plan import planner
from siloquent.maths.tails import errors as error_tails
from siloquent.maths.tails import order_statistics
from unit.explore.plan.tables import planned

BLOCKS = 2**11
"""Coarser than in earnest: what is counted is calls."""
MOST = 300 * BLOCKS
"""Numbers that all calls of a law of order statistics may go through for one plan; halving takes some 5,000 blocks."""
ASK = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 "


class TooOften(Exception):
    """The laws were asked more often than a plan may."""


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call of a law counts from when nothing is known of it, and too many end the test."""
    forget()
    monkeypatch.setattr(order_statistics, "BLOCKS", BLOCKS)
    numbers, largest = 0, order_statistics._compute_largest_tails

    def counting(tails: order_statistics.Reals, draws: int) -> order_statistics.Reals:
        nonlocal numbers
        numbers += len(tails)
        if numbers > MOST:
            raise TooOften
        return largest(tails, draws)

    monkeypatch.setattr(order_statistics, "_compute_largest_tails", counting)
    yield
    forget()


def forget() -> None:
    """As in a process that has planned nothing yet."""
    for one in (
        error_tails.find_largest_scale,
        error_tails.find_smallest_error,
        error_tails._hint,
        order_statistics._smallest_normal,
    ):
        one.cache_clear()


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize("end", ["BUDGET 1e-9 EPSILON", "BUDGET 1e9 EPSILON", "ERROR 1e9", "ERROR 1e-9", "ERROR 40"])
def test_top_lists_are_planned_in_few_calls(end: str, accountant: str) -> None:
    with suppress(AccuracyUnreachable):
        planned(ASK + end, accountant)


def test_halving_would_take_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(value: Callable[[int], float], low: int, high: int, *, at_low: float, at_high: float) -> int:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if value(middle) <= 0 else (low, middle)
        return low

    for module in (planner, error_tails):
        monkeypatch.setattr(module, "last_negative", halved)
    with pytest.raises(TooOften):
        planned(f"{ASK} BUDGET 1e-9 EPSILON", "pure")


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_what_is_known_of_a_law_changes_no_plan(accountant: str) -> None:
    fresh = planned(f"{ASK} BUDGET 0.5 EPSILON", accountant)
    forget()
    planned(f"{ASK} BUDGET 0.03 EPSILON", accountant)
    again = planned(f"{ASK} BUDGET 0.5 EPSILON", accountant)
    assert (again.event, again.alpha) == (fresh.event, fresh.alpha)
