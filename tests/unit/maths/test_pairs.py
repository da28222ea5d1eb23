"""Pair counts at the edges that random small tables seldom reach."""

from __future__ import annotations

import numpy as np

from siloquent.maths.pairs import PairRule, PairTest, conjunction, earlier_pairs, violating_pairs


def rule(rows: int, *tests: PairTest) -> PairRule:
    return PairRule(tests, np.ones(rows, dtype=bool), np.ones(rows, dtype=bool))


def test_a_rule_without_tests_is_broken_by_every_pair_once() -> None:
    assert violating_pairs(rule(5)) == 10


def test_a_rule_that_two_equal_rows_break_does_not_count_a_row_against_itself() -> None:
    same = np.zeros(4, dtype=np.int64)
    assert violating_pairs(rule(4, PairTest("=", same, same))) == 6


def test_tests_that_contradict_one_another_break_nothing() -> None:
    assert conjunction(["<", ">="]) is None
    line = np.arange(3)
    assert violating_pairs(rule(3, PairTest("<", line, line), PairTest(">", line, line))) == 0


def test_the_earlier_row_count_depends_on_the_order_and_the_pair_count_does_not() -> None:
    rising, falling = np.array([1, 2, 3]), np.array([3, 2, 1])
    forward = rule(3, PairTest("<", rising, rising), PairTest(">", falling, falling))
    backward = rule(3, PairTest("<", rising[::-1], rising[::-1]), PairTest(">", falling[::-1], falling[::-1]))
    assert (violating_pairs(forward), violating_pairs(backward)) == (3, 3)
    assert (earlier_pairs(forward), earlier_pairs(backward)) == (3, 0)


def test_huge_positions_far_apart_are_counted_like_small_ones() -> None:
    wide = np.array([-(2**60), 0, 2**60])
    assert violating_pairs(rule(3, PairTest("<", wide, wide), PairTest("<=", wide, wide))) == 3
