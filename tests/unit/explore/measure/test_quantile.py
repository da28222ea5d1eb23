"""Utilities of quantiles: whole, 0 for a right value, and moved by max(a, b - a) a row at most."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.explore.measure.selection import compute_rank_utilities
from siloquent.explore.plan.mechanisms.quantile import RankRequirement
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse
from unit.explore.plan.tables import PLENTY, table

SHARES = [Fraction(1, 2), Fraction(9, 10), Fraction(1, 4), Fraction(9_999, 10_000)]
counts = st.lists(st.integers(0, 12), min_size=2, max_size=9).map(lambda rows: np.array(rows, dtype=np.int64))


@given(counts, st.sampled_from(SHARES))
def test_the_best_value_is_a_quantile_of_the_rows(found: np.ndarray, share: Fraction) -> None:
    off = compute_rank_utilities(found, share)
    assert off.max() == 0
    rows = int(found.sum())
    for value in np.flatnonzero(off == 0):
        assert found[:value].sum() <= share * rows
        assert found[value + 1 :].sum() <= (1 - share) * rows


@given(counts, st.sampled_from(SHARES))
def test_a_utility_is_the_error_of_rank_times_b(found: np.ndarray, share: Fraction) -> None:
    rows = int(found.sum())
    for value, utility in enumerate(compute_rank_utilities(found, share).tolist()):
        wanted = share * rows
        below, upto = int(found[:value].sum()), int(found[: value + 1].sum())
        assert -Fraction(utility, share.denominator) == max(0, below - wanted, wanted - upto)


@given(counts, st.sampled_from(SHARES), st.data())
def test_one_row_moves_a_utility_by_the_larger_of_a_and_the_rest(
    found: np.ndarray, share: Fraction, data: st.DataObject
) -> None:
    more = found.copy()
    more[data.draw(st.integers(0, len(found) - 1))] += 1
    moved = np.abs(compute_rank_utilities(more, share) - compute_rank_utilities(found, share)).max()
    assert moved <= max(share.numerator, share.denominator - share.numerator)


def test_that_bound_is_reached() -> None:
    share = Fraction(9, 10)
    one, other = np.array([0, 5, 0]), np.array([0, 5, 1])
    assert np.abs(compute_rank_utilities(one, share) - compute_rank_utilities(other, share)).max() == 9


def test_very_large_tables_do_not_overflow() -> None:
    off = compute_rank_utilities(np.array([2**60, 2**60, 2**60]), Fraction(9_999, 10_000))
    assert off.tolist() == [-(2**60), -(2**60), 0]


@pytest.mark.parametrize("share", SHARES)
def test_an_empty_group_says_nothing(share: Fraction) -> None:
    assert compute_rank_utilities(np.zeros(4, dtype=np.int64), share).tolist() == [0, 0, 0, 0]


@given(st.sampled_from(SHARES), st.fractions(min_value=Fraction(1, 64), max_value=64, max_denominator=64))
def test_the_smallest_gap_that_breaks_the_promise_is_of_more_than_alpha_rows(share: Fraction, alpha: Fraction) -> None:
    gap = RankRequirement(share, 5, alpha, 0.1).m
    assert Fraction(gap, share.denominator) > alpha >= Fraction(gap - 1, share.denominator)


@pytest.mark.parametrize("account", ["pure", "zcdp"])
def test_a_choice_is_no_linear_measurement_that_later_answers_may_draw_from(account: str) -> None:
    (found,) = plan_query(parse("SELECT MEDIAN(age) FROM visits ERROR 200"), table(account), left=PLENTY).first.plans
    assert found.candidates
    assert {(one.priced.form, one.priced.reusable) for one in found.candidates} == {("chosen", False)}
