"""Advice says yes to real gains alone: beyond chance, beyond the constant, beyond what few rows can show."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from siloquent.share.estimate.advise import Measures, PairedDifference, _compute_difference, is_gain

NUMBERS = st.floats(0, 2, allow_nan=False)
FALSE_ALARM = 1e-9


def measured(error: float, loss: float) -> Measures:
    return Measures(error, math.nan, math.nan, loss)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.floats(-1, 1), st.floats(0, 0.5), st.floats(-1, 1))
def test_yes_means_better_than_alone_and_than_no_model_at_all(
    error: float, loss: float, constant_error: float, constant_loss: float, mean: float, half: float, moved: float
) -> None:
    found = {"stacked": measured(error, loss), "constant": measured(constant_error, constant_loss)}
    told = is_gain(found, PairedDifference(moved, moved, moved), PairedDifference(mean, mean - half, mean + half))
    if told:
        assert mean + half < 0
        assert moved <= 0
        assert loss < constant_loss
        assert error <= constant_error


def test_what_is_no_better_than_the_constant_is_no_gain() -> None:
    surely = PairedDifference(-0.2, -0.3, -0.1)
    worse = {"stacked": measured(0.3, 0.6), "constant": measured(0.239, 0.55)}
    assert not is_gain(worse, surely, surely)
    assert is_gain({**worse, "stacked": measured(0.2, 0.5)}, surely, surely)


def alarms(rows: int, difference: Callable[[Any], PairedDifference] = _compute_difference) -> int:
    """How many of 4,000 tables without any difference seem to show one."""
    rng = np.random.default_rng(rows)
    return sum(difference(rng.normal(size=rows)).high < 0 for _ in range(4_000))


@pytest.mark.parametrize("rows", [2, 3, 5, 20, 400])
def test_few_rows_do_not_see_gains_that_are_not_there(rows: int) -> None:
    assert alarms(rows) <= binom.isf(FALSE_ALARM, 4_000, 0.025)


def test_intervals_of_the_normal_law_would_be_noticed() -> None:
    def narrow(each: Any) -> PairedDifference:
        mean, error = float(each.mean()), float(each.std(ddof=1)) / math.sqrt(len(each))
        return PairedDifference(mean, mean - 1.96 * error, mean + 1.96 * error)

    assert alarms(3, narrow) > binom.isf(FALSE_ALARM, 4_000, 0.025)
