"""Top lists read off one strategy keep their promise where all that is left out lies just too low; too much is caught.

With beta = 0.05 and 2,300 runs, a right program fails a test once in 10^9 runs.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from siloquent.explore.plan.planner import Plan
from siloquent.maths.strategies import reconstruct
from siloquent.privacy.noise import add_gaussian
from unit.explore.plan.tables import planned

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9
RUNS, BETA, K = 2_300, 0.05, 5
WINDOWS = ", ".join(f"age BETWEEN {low} AND {low + 9}" for low in range(90))
TEXT = f"BIN visits ON COUNT(*) WHERE W = {{{WINDOWS}}} ORDER BY COUNT(*) DESC LIMIT {K} ERROR 300 CONFIDENCE 0.95"


def misses(plan: Plan, *, rows: int = 301) -> int:
    """How often one of 85 windows, each ``rows`` below the other five, gets into the list."""
    (matrix,) = plan.chosen.strategy
    back = reconstruct(plan.compiled.parts[0].matrix, matrix)  # type: ignore[arg-type]
    assert back is not None
    noise = add_gaussian(np.zeros(RUNS * len(matrix), dtype=np.int64), variance=plan.event.variance)  # type: ignore[union-attr]
    seen = noise.reshape(RUNS, -1) @ back.T
    high = np.zeros(90, dtype=bool)
    high[::18] = True
    return int((seen[:, high].min(axis=1) + rows <= seen[:, ~high].max(axis=1)).sum())


def assert_rate_at_most(hits: int, trials: int, rate: float) -> None:
    limit = binom.isf(FALSE_ALARM, trials, rate)
    assert hits <= limit, f"{hits} hits in {trials}; a true rate of {rate} gives at most {limit:.0f}"


def test_a_list_keeps_its_promise() -> None:
    plan = planned(TEXT, "zcdp")
    assert plan.chosen.name == "gaussian factorisation"
    assert_rate_at_most(misses(plan), RUNS, BETA)


def test_differences_taken_for_single_errors_are_caught() -> None:
    """Noise for values 300 off instead of two values 300 apart: as if half the difference were allowed."""
    plan = planned(TEXT, "zcdp")
    with pytest.raises(AssertionError, match="hits in"):
        assert_rate_at_most(misses(plan, rows=150), RUNS, BETA)
