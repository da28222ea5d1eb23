"""Quantiles as black boxes, and the faults they invite: sensitivity 1 for a or b - a, one row for m, one group for all.

A release is one selection a group at the rate that the plan's event pays for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.explore.measure.selection import compute_rank_utilities
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse
from siloquent.privacy import ExponentialSelect, PermuteAndFlip
from siloquent.privacy.noise.selection import Rule, draw_selections
from unit.explore.plan.tables import PLENTY, table

pytestmark = pytest.mark.statistical
N = 60_000
TEXT = "SELECT QUANTILE(age, 0.9) FROM visits ERROR {} CONFIDENCE 0.9"
SHARE = Fraction(9, 10)
Counts = NDArray[np.int64]
# One value holds the rows, many lie just as far below: one row more at the top moves the former by a, the latter by -a.
FEW = np.array([0] * 6 + [10, 1])
PAIRS = {
    "a row at the top": (FEW, FEW + np.array([0] * 7 + [1])),
    "a row at the bottom": (FEW, FEW + np.array([1] + [0] * 7)),
    "from nothing": (np.zeros(8, dtype=np.int64), np.array([0] * 7 + [1])),
}


def planned(error: int, accountant: str, **more: object) -> Plan:
    (plan,) = plan_query(parse(TEXT.format(error)), table(accountant, **more), left=PLENTY).first.plans  # type: ignore[arg-type]
    return plan


def scale_of(event: object, change: int) -> Fraction:
    epsilon = event.epsilon if isinstance(event, PermuteAndFlip) else event.range  # type: ignore[attr-defined]
    return Fraction(2 * change) / epsilon


def release(plan: Plan, change: int, rows: int = 1) -> Callable[[Counts, int], NDArray[np.float64]]:
    """What is released if one unit is said to move the utilities by ``change``; ``rows`` change at once."""
    rule: Rule = "permute-and-flip" if isinstance(plan.event, PermuteAndFlip) else "exponential"

    def run(counts: Counts, n: int) -> NDArray[np.float64]:
        base = PAIRS["a row at the top"][0]
        moved = base + rows * (counts - base) if rows > 1 else counts
        exact = compute_rank_utilities(np.asarray(moved, dtype=np.int64), SHARE)
        return draw_selections(exact, rate=1 / scale_of(plan.event, change), rule=rule, times=n).astype(np.float64)[
            :, None
        ]

    return run


def epsilon_of(plan: Plan) -> float:
    event = plan.event
    assert isinstance(event, (PermuteAndFlip, ExponentialSelect))
    return float(event.epsilon if isinstance(event, PermuteAndFlip) else event.range)


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
@pytest.mark.parametrize("error", [3, 30])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_quantile_is_as_private_as_its_event_says(accountant: str, error: int, pair: str) -> None:
    plan = planned(error, accountant)
    assert_private(release(plan, 9), PAIRS[pair], epsilon=epsilon_of(plan), n=N)


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_a_sensitivity_of_one_instead_of_a_is_caught(accountant: str) -> None:
    plan = planned(30, accountant)
    assert_caught(release(plan, 1), PAIRS["a row at the top"], epsilon=epsilon_of(plan), n=N)


def test_the_rows_of_a_user_count() -> None:
    plan = planned(30, "pure", users=4)
    assert_private(release(plan, 4 * 9, rows=4), PAIRS["a row at the top"], epsilon=epsilon_of(plan), n=N)


def test_one_row_for_a_users_four_is_caught() -> None:
    plan = planned(30, "pure", users=4)
    forgot = replace(plan, chosen=replace(plan.chosen, event=PermuteAndFlip(epsilon=plan.event.epsilon / 4)))  # type: ignore[union-attr]
    assert_caught(release(plan, 4 * 9, rows=4), PAIRS["a row at the top"], epsilon=epsilon_of(forgot), n=N)
