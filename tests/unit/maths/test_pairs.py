"""Pair counts at the edges that random small tables seldom reach."""

from __future__ import annotations

import numpy as np

from siloquent.maths.pairs.counting import (
    PairComparison,
    PairRule,
    combine_operators,
    count_earlier_pairs,
    count_violating_pairs,
)


def rule(rows: int, *tests: PairComparison) -> PairRule:
    return PairRule(tests, np.ones(rows, dtype=bool), np.ones(rows, dtype=bool))


def test_a_rule_without_tests_is_broken_by_every_pair_once() -> None:
    assert count_violating_pairs(rule(5)) == 10


def test_a_rule_that_two_equal_rows_break_does_not_count_a_row_against_itself() -> None:
    same = np.zeros(4, dtype=np.int64)
    assert count_violating_pairs(rule(4, PairComparison("=", same, same))) == 6


def test_tests_that_contradict_one_another_break_nothing() -> None:
    assert combine_operators(["<", ">="]) is None
    line = np.arange(3)
    assert count_violating_pairs(rule(3, PairComparison("<", line, line), PairComparison(">", line, line))) == 0


def test_the_earlier_row_count_depends_on_the_order_and_the_pair_count_does_not() -> None:
    rising, falling = np.array([1, 2, 3]), np.array([3, 2, 1])
    forward = rule(3, PairComparison("<", rising, rising), PairComparison(">", falling, falling))
    backward = rule(
        3, PairComparison("<", rising[::-1], rising[::-1]), PairComparison(">", falling[::-1], falling[::-1])
    )
    assert (count_violating_pairs(forward), count_violating_pairs(backward)) == (3, 3)
    assert (count_earlier_pairs(forward), count_earlier_pairs(backward)) == (3, 0)


def test_huge_positions_far_apart_are_counted_like_small_ones() -> None:
    wide = np.array([-(2**60), 0, 2**60])
    assert count_violating_pairs(rule(3, PairComparison("<", wide, wide), PairComparison("<=", wide, wide))) == 3
