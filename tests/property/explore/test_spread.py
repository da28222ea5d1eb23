"""Intervals of averages, variances and deviations hold always: for any rows and any errors within their bounds."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.explore.estimate.variance import (
    NoisyValue,
    estimate_average,
    estimate_deviation,
    estimate_sample_variance,
    estimate_variance,
)
from siloquent.explore.plan.bounds import compute_bounds, compute_half_range
from siloquent.explore.plan.cells.predicates import compute_centre
from siloquent.explore.spec.aggregates import Deviation, Variance
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema

F = Fraction
errors = st.fractions(0, 40, max_denominator=16)
shares = st.fractions(-1, 1, max_denominator=64)


@st.composite
def measured(draw: st.DrawFn) -> tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]]:
    """A number's declaration, some rows, and their count, sum and squares around the centre, each off within bounds."""
    steps = draw(st.integers(2, 40))
    grid, first = draw(st.sampled_from(["1", "0.5", "0.01"])), draw(st.integers(-60, 60))
    lo, hi = (Decimal(grid) * place for place in (first, first + steps - 1))
    attribute = Attribute("cost", "real", lo=lo, hi=hi, grid=Decimal(grid))
    places = draw(st.lists(st.integers(0, steps - 1), min_size=1, max_size=30))
    rows = [F(lo) + F(grid) * place for place in places]
    away = [F(grid) * (place - compute_centre(attribute)) for place in places]
    exact = (F(len(rows)), sum(away, F(0)), sum((one**2 for one in away), F(0)))
    noisy = []
    for value in exact:
        error = draw(errors)
        noisy.append(NoisyValue(value + error * draw(shares), error))
    return attribute, rows, (noisy[0], noisy[1], noisy[2])


def mean(rows: list[Fraction]) -> Fraction:
    return sum(rows, F(0)) / len(rows)


@settings(max_examples=400)
@given(measured())
def test_an_average_lies_in_its_interval(
    found: tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]],
) -> None:
    attribute, rows, (count, total, _) = found
    one = estimate_average(attribute, count, total)
    assert one.low <= mean(rows) <= one.high
    assert one.low <= one.value <= one.high
    if count.value > 0:
        off = (total.error + compute_half_range(attribute) * count.error) / count.value
        assert one.error <= off or one.high - one.low <= 2 * off


@pytest.mark.slow
@settings(max_examples=400)
@given(measured())
def test_a_variance_and_its_root_lie_in_their_intervals(
    found: tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]],
) -> None:
    attribute, rows, parts = found
    true = mean([(row - mean(rows)) ** 2 for row in rows])
    one = estimate_variance(attribute, *parts)
    assert one.low <= true <= one.high
    assert one.low <= one.value <= one.high
    root = estimate_deviation(one)
    assert root.low**2 <= true <= root.high**2
    assert root.low <= root.value <= root.high


@settings(max_examples=200)
@given(measured())
def test_a_sample_variance_lies_in_its_interval(
    found: tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]],
) -> None:
    attribute, rows, parts = found
    one = estimate_sample_variance(attribute, *parts)
    assert one.low <= one.value <= one.high
    if len(rows) > 1:  # of one row, SQL's is NULL
        true = sum(((row - mean(rows)) ** 2 for row in rows), F(0)) / (len(rows) - 1)
        assert one.low <= true <= one.high


@settings(max_examples=60)
@given(
    measured(),
    st.sampled_from([Variance, Deviation]),
    st.booleans(),
    st.lists(st.sampled_from([-1, 1]), min_size=3, max_size=3),
)
def test_a_planned_error_of_a_variance_is_kept_in_groups_of_its_size(
    found: tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]],
    kind: type[Variance | Deviation],
    sample: bool,
    off: list[int],
) -> None:
    attribute, rows = found[0], found[1] * 2
    wanted = F(1, 3) * compute_half_range(attribute)
    schema = TableSchema("t", Domain((attribute,)), TableBudget.of("1"))
    bounds = compute_bounds(kind("cost", sample=sample), wanted, schema, F(len(rows)))
    centre = F(attribute.lo) + compute_centre(attribute) * F(attribute.grid or 1)  # type: ignore[arg-type]
    exact = (F(len(rows)), sum((row - centre for row in rows), F(0)), sum(((row - centre) ** 2 for row in rows), F(0)))
    errors = [one or F(0) for one in bounds.values()]
    parts = [NoisyValue(value + error * share, error) for value, error, share in zip(exact, errors, off, strict=True)]
    one = (estimate_sample_variance if sample else estimate_variance)(attribute, *parts)
    true = sum(((row - mean(rows)) ** 2 for row in rows), F(0)) / (len(rows) - sample)
    assert one.low <= true <= one.high
    assert abs(one.value - true) <= (wanted if kind is Variance else wanted**2)


TEN = Attribute("cost", "integer", lo=Decimal(0), hi=Decimal(10), grid=Decimal(1))
TABLE = TableSchema("t", Domain((TEN,)), TableBudget.of("1"))
SMALL_GROUPS = [(lows, highs) for lows in range(5) for highs in range(5) if 2 <= lows + highs <= 5]
SIGNS = list(product((-1, 1), repeat=3))


def find_widest_error(errors: list[Fraction], group: tuple[int, int]) -> Fraction:
    """The widest interval of the sample variance of a group at both bounds of 0..10, by the worst signs of all errors.

    Its end is what an answer states, and an answer must not state more than the ERROR that was asked for.
    """
    lows, highs = group
    size = F(lows + highs)
    exact = (size, F(5) * (highs - lows), F(25) * size)
    true = (exact[2] - exact[1] ** 2 / size) / (size - 1)
    found = []
    for signs in SIGNS:
        moved = (value + error * sign for value, error, sign in zip(exact, errors, signs, strict=True))
        parts = [NoisyValue(value, error) for value, error in zip(moved, errors, strict=True)]
        one = estimate_sample_variance(TEN, *parts)
        assert one.low <= true <= one.high
        found.append(one.error)
    return max(found)


@pytest.mark.parametrize("group", SMALL_GROUPS)
def test_a_planned_error_of_a_sample_variance_is_kept_in_the_smallest_groups(group: tuple[int, int]) -> None:
    for wanted in (F(1), F(3), F(6)):
        bounds = compute_bounds(Variance("cost", sample=True), wanted, TABLE, F(sum(group)))
        assert find_widest_error([one or F(0) for one in bounds.values()], group) <= wanted


def test_the_population_s_bounds_do_not_keep_the_error_of_a_sample_variance() -> None:
    """The small groups above tell the two apart: planned as the population's, answers state wider intervals."""
    broken = []
    for group in SMALL_GROUPS:
        bounds = compute_bounds(Variance("cost", sample=False), F(3), TABLE, F(sum(group)))
        broken.append(find_widest_error([one or F(0) for one in bounds.values()], group) > F(3))
    assert sum(broken) >= 3


@given(measured())
def test_without_noise_the_answer_is_the_truth(
    found: tuple[Attribute, list[Fraction], tuple[NoisyValue, NoisyValue, NoisyValue]],
) -> None:
    attribute, rows, _ = found
    lo, grid = F(attribute.lo), F(attribute.grid or 1)  # type: ignore[arg-type]
    away = [row - lo - compute_centre(attribute) * grid for row in rows]
    exact = [F(len(rows)), sum(away, F(0)), sum((one**2 for one in away), F(0))]
    count, total, squares = (NoisyValue(value, F(0)) for value in exact)
    assert estimate_average(attribute, count, total).value == mean(rows)
    true = mean([(row - mean(rows)) ** 2 for row in rows])
    assert estimate_variance(attribute, count, total, squares).value == true
