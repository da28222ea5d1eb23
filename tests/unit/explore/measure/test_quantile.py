"""Utilities of quantiles: whole, 0 for a right value, and moved by max(a, b - a) a row at most."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.explore.measure.quantile import utilities

SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 4), Fraction(9_999, 10_000)]
counts = st.lists(st.integers(0, 12), min_size=2, max_size=9).map(lambda rows: np.array(rows, dtype=np.int64))


@given(counts, st.sampled_from(SHARES))
def test_the_best_value_is_a_quantile_of_the_rows(found: np.ndarray, share: Fraction) -> None:
    off = utilities(found, share)
    assert off.max() == 0
    rows = int(found.sum())
    for value in np.flatnonzero(off == 0):
        assert found[:value].sum() <= share * rows
        assert found[value + 1 :].sum() <= (1 - share) * rows


@given(counts, st.sampled_from(SHARES))
def test_a_utility_is_the_error_of_rank_times_b(found: np.ndarray, share: Fraction) -> None:
    rows = int(found.sum())
    for value, utility in enumerate(utilities(found, share).tolist()):
        wanted = share * rows
        below, upto = int(found[:value].sum()), int(found[: value + 1].sum())
        assert -Fraction(utility, share.denominator) == max(0, below - wanted, wanted - upto)


@given(counts, st.sampled_from(SHARES), st.data())
def test_one_row_moves_a_utility_by_the_larger_of_a_and_the_rest(
    found: np.ndarray, share: Fraction, data: st.DataObject
) -> None:
    more = found.copy()
    more[data.draw(st.integers(0, len(found) - 1))] += 1
    moved = np.abs(utilities(more, share) - utilities(found, share)).max()
    assert moved <= max(share.numerator, share.denominator - share.numerator)


def test_that_bound_is_reached() -> None:
    share = Fraction(9, 10)
    one, other = np.array([0, 5, 0]), np.array([0, 5, 1])
    assert np.abs(utilities(one, share) - utilities(other, share)).max() == 9


def test_very_large_tables_do_not_overflow() -> None:
    off = utilities(np.array([2**60, 2**60, 2**60]), Fraction(9_999, 10_000))
    assert off.tolist() == [-(2**60), -(2**60), 0]


@pytest.mark.parametrize("share", SHARES)
def test_an_empty_group_says_nothing(share: Fraction) -> None:
    assert utilities(np.zeros(4, dtype=np.int64), share).tolist() == [0, 0, 0, 0]
