"""The last number before a growing function passes zero: the one that halving finds, in fewer calls."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.maths.roots import last_negative


class Counted:
    def __init__(self, function: Callable[[int], float]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, place: int) -> float:
        self.calls += 1
        return self.function(place)


def found(function: Callable[[int], float], low: int, high: int) -> tuple[int, int]:
    counted = Counted(function)
    place = last_negative(counted, low, high, at_low=function(low), at_high=function(high))
    return place, counted.calls


@given(
    low=st.integers(0, 10**6), width=st.integers(1, 2**50), share=st.floats(0, 1), far=st.sampled_from([1.0, math.inf])
)
def test_any_step_is_found_in_at_most_four_times_the_calls_of_halving(
    low: int, width: int, share: float, far: float
) -> None:
    last = low + min(int(share * width), width - 1)
    place, calls = found(lambda n: -far if n <= last else far, low, low + width)
    assert place == last
    assert calls <= 4 * max(1, math.ceil(math.log2(width)))


@pytest.mark.parametrize("power", [0.5, 1, 2, 3])
@pytest.mark.parametrize("root", [17, 123_456, 987_654_321, 2**45 + 7])
def test_a_power_is_closed_in_in_a_few_calls(power: float, root: int) -> None:
    place, calls = found(lambda n: power * (math.log(n) - math.log(root)), max(1, root // 3), 5 * root)
    assert place == root
    assert calls <= 6


def test_numbers_that_no_double_tells_apart_take_no_more_than_halving_does() -> None:
    root = 2**58
    place, calls = found(lambda n: math.log(n / root), root // 3, 5 * root)
    assert math.isclose(place, root, rel_tol=1e-15)
    assert calls <= 4 * 60
