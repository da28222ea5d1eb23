"""The planner takes the cheapest mechanism that keeps the promise, and says what would fit where none does."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.planner import find_least_error, plan
from siloquent.explore.spec import parse
from siloquent.maths.tails import errors as error_tails
from siloquent.privacy import (
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialSelect,
    GeometricTopK,
    PermuteAndFlip,
    get_accountant,
)
from unit.explore.plan.tables import PLENTY, planned, table

BY_WARD = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR {}"
TOP = "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 100"
OVERLAPPING_TOP = "BIN visits ON COUNT(*) WHERE W = {age < 10, age < 20, age < 30} ORDER BY COUNT(*) LIMIT 2 ERROR 99"
CROSSING = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 1) HAVING COUNT(*) > 900 ERROR 200"
PREFIX = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) {} ERROR 200"


@pytest.mark.parametrize(
    ("text", "name", "event"),
    [
        (BY_WARD.format(100), "pure", DiscreteLaplace),
        (BY_WARD.format(100), "zcdp", DiscreteGaussian),
        (TOP, "pure", DiscreteLaplace),
        (TOP, "zcdp", DiscreteGaussian),
        (OVERLAPPING_TOP, "pure", GeometricTopK),
        (CROSSING, "pure", PermuteAndFlip),
    ],
)
def test_each_kind_of_question_gets_its_mechanism(text: str, name: str, event: type) -> None:
    assert isinstance(planned(text, name).event, event)


@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize("text", [BY_WARD.format(100), PREFIX.format(""), PREFIX.format("HAVING COUNT(*) > 900")])
def test_the_cheapest_wins_unless_one_that_can_be_used_again_is_within_a_twentieth(text: str, name: str) -> None:
    found = planned(text, name)
    costs = {c.priced.name: c.cost.amount for c in found.candidates}
    chosen = costs[found.chosen.name]
    assert chosen <= min(costs.values()) * Fraction(105, 100)
    if chosen > min(costs.values()):
        assert found.chosen.reusable
    assert list(costs.values()) == sorted(costs.values())


def law_of_two_cells(accountant: str, *, alpha: float, beta: float) -> float:
    """What a count of a cell and that of two cells cost by a union bound where noise is added to either cell alone."""

    def miss(x: float) -> float:
        if accountant == "pure":  # of one Laplace noise, and of the sum of two
            return math.exp(-x) + (1 + x / 2) * math.exp(-x)
        return math.erfc(x / math.sqrt(2)) + math.erfc(x / 2)

    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if miss(middle) <= beta else (middle, high)
    return high / alpha if accountant == "pure" else (high / alpha) ** 2 / 2


@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize(
    "pair",
    ["age < 50, age < 100", "age < 50, age < 50 OR sex = 'f'", "sex = 'f', sex IN ('f', 'm')", "age < 9, age < 90"],
)
def test_two_answers_that_overlap_are_measured_by_their_two_cells(pair: str, name: str) -> None:
    """Noise on both answers would cost half as much again, since a row may move both."""
    found = planned(f"BIN visits ON COUNT(*) WHERE W = {{{pair}}} ERROR 100 CONFIDENCE 0.95", name)
    assert found.compiled.parts[0].columns == 2
    costs = {c.priced.name: float(c.amount) for c in found.candidates}
    assert float(found.candidates[0].amount) <= law_of_two_cells(name, alpha=100, beta=0.05)
    assert costs[found.chosen.name] < 0.7 * costs["laplace" if name == "pure" else "gaussian"]


def test_predicates_on_several_attributes_share_the_budget_as_their_strategies_need_it() -> None:
    """Nested ages and nested days are two blocks: noise on the answers alone pays for all twenty at once."""
    ages = ", ".join(f"age < {10 * i}" for i in range(1, 11))
    days = ", ".join(f"day < DATE '2024-{i:02}-15'" for i in range(1, 11))
    found = planned(f"BIN visits ON COUNT(*) WHERE W = {{{ages}, {days}}} ERROR 200")
    prices = {c.priced.name: float(c.amount) for c in found.candidates}
    assert found.chosen.form == "strategy"
    assert len(found.chosen.strategy) == 2
    assert prices[found.chosen.name] < prices["laplace"] / 2


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_planning_twice_gives_the_same_plan(name: str) -> None:
    one, two = (planned(PREFIX.format(""), name) for _ in range(2))
    assert one.event == two.event
    assert one.promise == two.promise


@pytest.mark.parametrize(
    ("adjacency", "users", "factor"), [("add-remove", 0, 1), ("replace-one", 0, 2), ("add-remove", 3, 3)]
)
def test_unit_and_adjacency_multiply_the_price(adjacency: str, users: int, factor: int) -> None:
    book = get_accountant("pure")
    plain = book.compute_price(planned(BY_WARD.format(100)).event).amount
    found = planned(BY_WARD.format(100), adjacency=adjacency, users=users)
    assert book.compute_price(found.event).amount == factor * plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "name", "factor"),
    [
        ("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 50", "pure", 1),
        ("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 50 PREFER OPTIMISTIC", "pure", 1),
        ("SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 100 ERROR 50", "zcdp", 1),
        (CROSSING, "pure", 1),
        (PREFIX.format("HAVING COUNT(*) > 900"), "pure", 2),  # a strategy, whose certified bound is for one side
        (PREFIX.format("HAVING COUNT(*) > 900"), "zcdp", 1),
        (TOP, "pure", 2),
        (TOP, "zcdp", 2),
    ],
)
def test_both_promises_together_cost_half_the_miss_rate_only_where_both_can_break_apart(
    text: str, name: str, factor: int
) -> None:
    """An iceberg answer fails to one side, whichever it is; a top-k list can fail in both ways at once."""
    found = planned(f"{text} CONFIDENCE 0.98 JOINT", name)
    assert found.event == planned(f"{text} CONFIDENCE {1 - Decimal('0.02') / factor}", name).event
    assert "both together" in found.promise


def test_both_promises_of_exponential_rounds_together_cost_no_more_than_each() -> None:
    each, both = (planned(f"{OVERLAPPING_TOP} CONFIDENCE 0.98{joint}", "zcdp") for joint in ("", " JOINT"))
    rounds = [next(c for c in found.candidates if c.priced.name == "exponential rounds") for found in (each, both)]
    assert rounds[0].priced.event == rounds[1].priced.event


# Budgets


def test_what_the_whole_budget_cannot_pay_is_refused_with_the_best_error_that_it_can() -> None:
    schema = table(limit=1)
    with pytest.raises(AccuracyUnreachable) as refused:
        plan(parse(BY_WARD.format(2)), schema, left=Cost(10**9))
    best = refused.value.best_alpha
    assert best == 10
    assert plan(parse(BY_WARD.format(best)), schema, left=Cost(10**9)).alpha == best
    with pytest.raises(AccuracyUnreachable):
        plan(parse(BY_WARD.format(best - 1)), schema, left=Cost(10**9))


@pytest.mark.parametrize(
    ("name", "spend"), [("pure", "0.01 EPSILON"), ("zcdp", "0.01 EPSILON"), ("zcdp", "0.00001 RHO")]
)
@pytest.mark.parametrize(
    "text", ["SELECT ward, COUNT(*) FROM visits GROUP BY ward", PREFIX.format("").replace(" ERROR 200", "")]
)
def test_budget_finds_the_smallest_error_that_fits(text: str, name: str, spend: str) -> None:
    found = planned(f"{text} BUDGET {spend}", name)
    allowed = get_accountant(name).compute_cost(found.event).amount
    closer = planned(f"{text} ERROR {found.alpha - 1}", name)
    assert get_accountant(name).compute_cost(planned(f"{text} ERROR {found.alpha}", name).event).amount <= allowed
    assert get_accountant(name).compute_cost(closer.event).amount > allowed


def test_a_budget_in_rho_is_refused_in_a_pure_account() -> None:
    with pytest.raises(RequestError, match="pure epsilon"):
        planned("SELECT ward, COUNT(*) FROM visits GROUP BY ward BUDGET 0.01 RHO")


def test_least_error_is_what_is_left_can_pay_for() -> None:
    found = planned(BY_WARD.format(100))
    error = find_least_error(found, left=Cost(10**8))
    assert error is not None
    assert get_accountant("pure").compute_cost(planned(BY_WARD.format(error)).event).amount <= 10**8
    assert find_least_error(found, left=Cost(0)) is None


# Refusals, before anything is spent


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("SELECT COUNT(*) FROM visits WHERE age > 200 ERROR 5", "always returns 0"),
        ("SELECT ward, COUNT(*) FROM visits WHERE sex = 'f' AND sex = 'm' GROUP BY ward ERROR 5", "always returns 0"),
        ("SELECT sex FROM visits GROUP BY sex ORDER BY COUNT(*) DESC LIMIT 2 ERROR 5", "all of them"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 2 PERCENT", "size_hint"),
        ("SELECT cost, COUNT(*) FROM visits GROUP BY cost ERROR 5", "bins"),
        ("SELECT cost // 1, COUNT(*) FROM visits GROUP BY cost // 1 ERROR 5", "groups"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(text: str, match: str) -> None:
    with pytest.raises(RequestError, match=match):
        planned(text)


def test_percent_is_of_the_declared_size() -> None:
    text = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 2 PERCENT"
    assert planned(text, size_hint=32_561).alpha == Fraction("651.22")


# Sums


def test_sums_of_long_numbers_are_rounded_to_units_that_noise_can_be_drawn_in() -> None:
    found = planned("SELECT sex, SUM(cost) FROM visits GROUP BY sex ERROR 5000000", "zcdp")
    summed = found.compiled.summed
    assert summed is not None
    assert (summed.quantum, summed.largest, found.grid) == (128, 3_125, Fraction(64))
    assert found.compiled.slack == Fraction(1, 2)
    # As if it were exact: an error of 25 largest values, each as one count.
    counted = planned("SELECT sex, COUNT(*) FROM visits GROUP BY sex ERROR 2500", "zcdp")
    prices = [float(get_accountant("zcdp").compute_price(plan.event).amount) for plan in (found, counted)]
    assert prices[0] == pytest.approx(prices[1] * (2_500 / 25) ** 2, rel=1e-3)


def test_an_error_finer_than_the_units_of_a_sum_is_out_of_reach() -> None:
    with pytest.raises(AccuracyUnreachable):
        planned("SELECT sex, SUM(cost) FROM visits GROUP BY sex ERROR 1", left=PLENTY)


def test_sums_of_short_numbers_are_exact_before_the_noise() -> None:
    summed = planned("SELECT sex, SUM(age) FROM visits GROUP BY sex ERROR 5000").compiled.summed
    assert summed is not None
    assert (summed.quantum, summed.lowest, summed.highest, summed.grid) == (1, 0, 99, Decimal(1))


@pytest.mark.parametrize(("tail", "slacks"), [("HAVING SUM(cost) > 90000", 1), ("ORDER BY SUM(cost) DESC LIMIT 3", 2)])
def test_the_rounding_of_large_sums_is_taken_off_the_bound_of_each_that_is_compared(tail: str, slacks: int) -> None:
    """A top-k list compares two rounded sums, an iceberg question one with its threshold."""
    found = planned(f"SELECT ward FROM visits GROUP BY ward {tail} ERROR 10016")
    compiled = found.compiled
    assert (compiled.grid, compiled.slack) == (64, Fraction(1, 2))
    law = error_tails.LaplaceTop(10, 3) if slacks == 2 else error_tails.LaplaceAbove(10)
    m = error_tails.compute_breaking_error(Fraction(10_016) / compiled.grid - slacks * compiled.slack)
    (laplace,) = [one.priced.event for one in found.candidates if one.priced.name == "laplace"]
    assert laplace.scale == error_tails.find_largest_scale(law, m, 1 / 2000)  # type: ignore[union-attr]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_list_is_paid_for_as_many_rounds_as_it_has_ids(limit: int) -> None:
    tests = ", ".join(f"ward = '{ward}'" for ward in "ABCD")
    text = f"BIN visits ON COUNT(*) WHERE W = {{{tests}}} ORDER BY COUNT(*) LIMIT {limit} ERROR 90"
    candidates = planned(text, "zcdp").candidates
    (one,) = (each.priced for each in candidates if each.priced.name == "exponential rounds")
    assert isinstance(one.event, ExponentialSelect)
    assert one.event.rounds == limit
    compiled = planned(text, "zcdp").compiled
    counts = [np.arange(1, 1 + part.columns, dtype=np.int64) * 10**6 for part in compiled.parts]
    assert len(run_mechanism(one, compiled, counts).values) == limit


def test_two_cells_that_answers_share_are_worth_a_strategy() -> None:
    text = "BIN visits ON COUNT(*) WHERE W = {age < 50, age < 100} ERROR 200"
    assert "strategy" in {one.priced.form for one in planned(text, "zcdp").candidates}
