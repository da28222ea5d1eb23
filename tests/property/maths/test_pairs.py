"""Counts of violating pairs against the double loop, on every way through the counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.maths.pairs import counting as pairs
from siloquent.maths.pairs.counting import (
    FLIPPED,
    PairComparison,
    PairRule,
    apply_operator,
    count_earlier_pairs,
    count_matches_per_row,
    count_violating_pairs,
    count_violations_per_row,
)

OPERATORS = sorted(FLIPPED)


@st.composite
def rules(draw: st.DrawFn) -> PairRule:
    rows = draw(st.integers(0, 14))
    column = st.lists(st.integers(-2, 3), min_size=rows, max_size=rows)
    columns = [np.array(draw(column), dtype=np.int64) for _ in range(3)]
    which = st.tuples(st.sampled_from(OPERATORS), st.integers(0, 2), st.integers(0, 2))
    tests = tuple(PairComparison(op, columns[a], columns[b]) for op, a, b in draw(st.lists(which, max_size=4)))
    flags = st.lists(st.booleans(), min_size=rows, max_size=rows)
    return PairRule(tests, np.array(draw(flags), dtype=bool), np.array(draw(flags), dtype=bool))


def all_pairs(rule: PairRule) -> np.ndarray:
    found = rule.first[:, None] & rule.second[None, :]
    for test in rule.tests:
        found = found & apply_operator(test.left[:, None], test.op, test.right[None, :])
    return found


@pytest.mark.parametrize("most_dense", [10**7, 0])
@settings(max_examples=150, deadline=None)
@given(rule=rules())
def test_counts_are_those_of_the_double_loop(most_dense: int, rule: PairRule) -> None:
    kept, pairs.MAX_DENSE = pairs.MAX_DENSE, most_dense
    try:
        one_way = all_pairs(rule)
        either = (one_way | one_way.T) & ~np.eye(len(one_way), dtype=bool)
        assert count_matches_per_row(rule).tolist() == one_way.sum(axis=1).tolist()
        assert count_violations_per_row(rule).tolist() == either.sum(axis=1).tolist()
        assert count_violating_pairs(rule) == either.sum() // 2
        assert count_earlier_pairs(rule) == np.triu(one_way, 1).sum()
    finally:
        pairs.MAX_DENSE = kept
