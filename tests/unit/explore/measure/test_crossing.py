"""Where a chain of counts crosses a threshold: the utility of a place says whether reporting it breaks the promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.explore.measure.selection import compute_crossing_utilities
from siloquent.maths.tails.errors import compute_breaking_error

chains = st.lists(st.integers(0, 12), min_size=1, max_size=6).map(sorted)
halves = st.integers(-3, 30).map(lambda x: Fraction(x, 2))


def whole_threshold(op: str, c: Fraction) -> int:
    return math.floor(c) if op == ">" else math.ceil(c) - 1


@given(chains, st.sampled_from([">", ">="]), halves, st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(5, 2)]))
def test_a_place_that_breaks_the_promise_is_m_or_more_below_the_best(
    counts: list[int], op: str, c: Fraction, alpha: Fraction
) -> None:
    found = compute_crossing_utilities(np.array(counts), whole_threshold(op, c))
    assert found.max() == 0
    for place, utility in enumerate(found):
        reported, left_out = counts[place:], counts[:place]
        broken = any(count < c - alpha for count in reported) or any(count > c + alpha for count in left_out)
        if broken:
            assert utility <= -compute_breaking_error(alpha)


@given(chains, st.integers(-2, 14))
def test_the_places_that_are_exactly_right_have_utility_zero(counts: list[int], threshold: int) -> None:
    found = compute_crossing_utilities(np.array(counts), threshold)
    right = sum(count <= threshold for count in counts)
    assert found[right] == 0


@given(chains, st.integers(-2, 14), st.data())
def test_one_unit_moves_a_utility_by_what_it_moves_a_count(
    counts: list[int], threshold: int, data: st.DataObject
) -> None:
    """A row is counted by all predicates of a chain from some place on."""
    start = data.draw(st.integers(0, len(counts)))
    size = data.draw(st.integers(1, 3))
    more = np.array(counts) + size * (np.arange(len(counts)) >= start)
    change = compute_crossing_utilities(more, threshold) - compute_crossing_utilities(np.array(counts), threshold)
    assert np.abs(change).max() <= size


@pytest.mark.parametrize(("far", "expected"), [(2**60, [0, 2**58 - 2**60]), (-(2**60), [-(2**60), 0])])
def test_counts_at_the_limit_do_not_overflow(far: int, expected: list[int]) -> None:
    assert compute_crossing_utilities(np.array([far]), 2**58).tolist() == expected
