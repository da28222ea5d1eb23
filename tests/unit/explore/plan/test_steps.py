"""Questions of several parts: which parts, how exact, at what price, and in how many steps."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from siloquent.errors import AccuracyUnreachable, RequestError, UnknownName
from siloquent.explore.plan.bounds import compute_bounds, compute_half_range, compute_spread_error
from siloquent.explore.plan.limits import lifted
from siloquent.explore.plan.steps import (
    FINE_COUNT,
    QueryPlan,
    _plan_counting_first,
    plan_query,
    plan_second_step,
    widen_errors,
)
from siloquent.explore.spec import parse, render
from siloquent.explore.spec.aggregates import Average, Count, Moment, Quantile, Sum, Variance
from siloquent.privacy import Composed, Cost, get_accountant
from siloquent.schema import TableSchema
from unit.explore.plan.tables import PLENTY, table

F = Fraction
SIZED = {"size_hint": 10_000}


def charted(text: str, accountant: str = "pure", *, left: Cost = PLENTY, **more: Any) -> QueryPlan:
    return plan_query(parse(text), table(accountant, **more), left=left)


def parts(course: QueryPlan) -> list[tuple[object, Fraction, Fraction]]:
    """What each part of the first step is, its error and its beta."""
    return [(one.query.aggregate, one.alpha, one.beta) for one in course.first.plans]


def test_one_part_an_item_with_beta_split_evenly_and_errors_in_order() -> None:
    course = charted("SELECT ward, COUNT(*), SUM(cost) FROM visits GROUP BY ward ERROR 5, 800 CONFIDENCE 0.99")
    assert parts(course) == [(Count(), F(5), F(1, 200)), (Sum("cost"), F(800), F(1, 200))]
    assert isinstance(course.event, Composed)
    assert course.second is None


def test_the_price_is_the_sum_of_the_parts() -> None:
    both = charted("SELECT ward, COUNT(*), SUM(cost) FROM visits GROUP BY ward ERROR 5, 90000 CONFIDENCE 0.99", "zcdp")
    count = charted("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 5 CONFIDENCE 0.995", "zcdp")
    total = charted("SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 90000 CONFIDENCE 0.995", "zcdp")
    price = get_accountant("zcdp").compute_price
    assert price(both.event).amount == price(count.event).amount + price(total.event).amount


def test_equal_parts_are_asked_once_at_the_smaller_error() -> None:
    text = "SELECT AVG(age), VAR(age), COUNT(*) FROM visits ERROR 1, 20, {} FOR AT LEAST 5000 ROWS"
    found = [{part: alpha for part, alpha, _ in parts(charted(text.format(error)))} for error in (3, 10**6)]
    assert [list(one) for one in found] == [[Moment("age", 0), Moment("age", 1), Moment("age", 2), Count()]] * 2
    spread = compute_bounds(Variance("age"), F(20), table(), F(5000))
    assert found[0][Moment("age", 1)] <= compute_bounds(Average("age"), F(1), table(), F(5000))[Moment("age", 1)]
    assert found[0][Moment("age", 2)] <= spread[Moment("age", 2)]  # type: ignore[operator]


@pytest.mark.parametrize("error", ["0.01", "0.5", "7", "200"])
def test_an_average_splits_its_error_so_that_it_is_met_exactly(error: str) -> None:
    schema, rows = table(), F(5_000)
    count, total = compute_bounds(Average("age"), F(error), schema, rows).values()
    half = compute_half_range(schema.domain["age"])
    assert (total + half * count) / (rows - count) == F(error)  # type: ignore[operator]
    assert total == half * count  # type: ignore[operator]


def test_a_variance_fills_its_bound_and_does_not_pass_it() -> None:
    schema, rows = table(), F(5_000)
    errors = tuple(compute_bounds(Variance("age"), F(20), schema, rows).values())
    half = compute_half_range(schema.domain["age"])
    found = compute_spread_error(half, rows - errors[0], errors)  # type: ignore[arg-type, operator]
    assert F(20) * F(999, 1000) < found <= 20


def test_without_the_clause_the_count_comes_first_and_the_second_step_is_never_dearer_than_explained() -> None:
    course = charted("SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 10", **SIZED)
    assert parts(course)[0][:2] == (Moment("age", 0), F(50))  # 10 n/(4 H) for an even share: ten groups of 1,000
    (counts,) = course.first.plans
    assert course.second is not None
    worst = course.second.plans[0]
    lost = compute_half_range(counts.schema.domain["age"]) * counts.alpha
    for rows in ([5_000, 3_000] + [0] * 8, [1_000, 0] + [1_100] * 8, [10**6] * 10):
        step = plan_second_step(course, {Moment("age", 0): [F(count) for count in rows]}, [], left=PLENTY)
        assert step is not None
        assert step.plans[0].alpha == min(10 * F(count) - lost for count in rows if 10 * count >= 2 * lost)
        price = get_accountant("pure").compute_price
        assert price(step.event).amount <= price(worst.event).amount
    small = plan_second_step(course, {Moment("age", 0): [F(5)] * 10}, [], left=PLENTY)
    assert small is not None  # small groups have their averages, too, with wide intervals
    assert small.plans[0].alpha == worst.alpha


def test_an_average_that_was_charged_with_a_finer_count_keeps_its_plan() -> None:
    course = charted("SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 10", **SIZED)
    finer = _plan_counting_first(course.query, course.schema, course.limit, (FINE_COUNT,))
    assert finer.first.event != course.first.event
    assert course.cost.amount < finer.cost.amount
    for paid in (finer, course):
        with lifted(paid=paid.first.event):
            assert plan_query(course.query, course.schema.declared, left=course.limit).first.event == paid.first.event


def test_having_on_another_aggregate_asks_the_reported_groups_alone() -> None:
    text = "SELECT ward, AVG(age) FROM visits GROUP BY ward HAVING COUNT(*) > 1000 ERROR 5, 100"
    course = charted(text)
    (choice,) = course.first.plans
    assert (choice.kind, choice.alpha, choice.beta) == ("icq", F(100), F(1, 2000) / 3)
    step = plan_second_step(course, {}, [0, 3], left=PLENTY)
    assert step is not None
    assert [one.compiled.labels for one in step.plans] == [(("A",), ("D",))] * 2
    assert course.second is not None
    price = get_accountant("pure").compute_price
    assert price(step.event).amount < price(course.second.event).amount
    assert plan_second_step(course, {}, [], left=PLENTY) is None
    # Reported groups have 900 rows or more, so that is what AVG is planned for.
    expected = compute_bounds(Average("age"), F(5), choice.schema, F(900))
    assert float(step.plans[1].alpha) == pytest.approx(float(expected[Moment("age", 1)] or 0))


def test_a_budget_is_split_evenly() -> None:
    course = charted("SELECT AVG(age), MEDIAN(age) FROM visits BUDGET 0.3 EPSILON")
    price = get_accountant("pure").compute_price
    assert [float(price(one.event).amount) for one in course.first.plans] == pytest.approx([0.1] * 3, rel=0.1)
    assert price(course.event).amount <= F(3, 10)


@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize("users", [0, 3])
def test_a_quantile_costs_what_the_formula_says(name: str, users: int) -> None:
    import math

    course = charted("SELECT MEDIAN(age) FROM visits ERROR 20 CONFIDENCE 0.99", name, users=users)
    (part,) = course.first.plans
    rows = max(users, 1)
    found = float(get_accountant(name).compute_price(part.event).amount)
    j = 41  # 2 x 20 + 1
    loose = (
        2 * rows * math.log(100 / (2 * 0.01)) / j if name == "pure" else (2 * rows * math.log(100 / 0.01) / j) ** 2 / 8
    )
    assert loose * 0.9 < found <= loose * 1.001
    assert part.chosen.name == ("permute-and-flip" if name == "pure" else "exponential selection")


def test_replacing_a_row_doubles_the_price_of_quantiles() -> None:
    text = "SELECT ward, QUANTILE(age, 0.9) FROM visits GROUP BY ward ERROR 20"
    price = get_accountant("pure").compute_price
    one, other = (price(charted(text, adjacency=a).event).amount for a in ("add-remove", "replace-one"))
    assert other == 2 * one


REFUSED = {
    "SELECT AVG(ward) FROM visits ERROR 1 FOR AT LEAST 10 ROWS": (
        "AVG takes a number; 'ward' is of type category",
        "COUNT",
    ),
    "SELECT VAR(day) FROM visits BUDGET 1 EPSILON": ("VAR takes a number", ""),
    "SELECT MEDIAN(ward) FROM visits ERROR 5": ("values in an order", "GROUP BY ward"),
    "SELECT MEDIAN(who) FROM visits ERROR 5": ("values in an order", ""),
    "SELECT AVG(age) FROM visits ERROR 1": ("minimum group size", "FOR AT LEAST"),
    "SELECT ward, AVG(age) FROM visits GROUP BY ward HAVING SUM(cost) > 9 ERROR 1, 5": ("this HAVING", "FOR AT LEAST"),
    "SELECT ward, AVG(age) FROM visits GROUP BY ward HAVING COUNT(*) > 9 ERROR 1, 9": ("this HAVING", "smaller error"),
    "SELECT AVG(nothing) FROM visits ERROR 1 FOR AT LEAST 10 ROWS": ("No attribute named 'nothing'", ""),
    "BIN visits ON MEDIAN(age) WHERE W = HISTOGRAM(age, 0, 50, 10) ERROR 5": ("available only for groups", "GROUP BY"),
    "SELECT COUNT(*) FROM visits JOIN wards USING (ward) ERROR 5": ("is not a public table", "public/wards.toml"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_answer_is_refused_before_any_charge(text: str) -> None:
    reason, fix = REFUSED[text]
    with pytest.raises((RequestError, UnknownName)) as refused:
        charted(text)
    assert reason in refused.value.detail
    assert fix in refused.value.fix
    assert refused.value.spent == "nothing"


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_too_little_budget_names_errors_that_it_pays_for(name: str) -> None:
    text = "SELECT ward, COUNT(*), AVG(age) FROM visits GROUP BY ward ERROR 5, 0.01 FOR AT LEAST 500 ROWS"
    schema: TableSchema = table(name)
    left = Cost(get_accountant(name).scale)
    with pytest.raises(AccuracyUnreachable) as refused:
        plan_query(parse(text), schema, left=left)
    wider = parse(refused.value.fix)
    assert get_accountant(name).compute_cost(plan_query(wider, schema, left=left).event).amount <= left.amount


def test_widening_keeps_all_else() -> None:
    query = parse("SELECT AVG(age), COUNT(*) FROM visits ERROR 0.5, 2 PERCENT FOR AT LEAST 9 ROWS")
    assert render(widen_errors(query, F(2))).split(" ERROR ")[1].startswith("1, 4 PERCENT")


def test_plans_of_composites_are_the_same_every_time() -> None:
    text = "SELECT ward, STDDEV(age), QUANTILE(age, 0.25) FROM visits GROUP BY ward ERROR 3, 50 FOR AT LEAST 900 ROWS"
    assert charted(text).event == charted(text).event


def test_shares_of_quantiles_are_exact() -> None:
    assert Quantile("age", Decimal("0.75")).fraction == F(3, 4)


@pytest.mark.parametrize("error", ["0.01", "0.2", "2", "10", "30"])
def test_an_average_never_costs_more_than_in_either_of_two_ways(error: str) -> None:
    course = charted(f"SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR {error}", **SIZED)
    ways = [_plan_counting_first(course.query, course.schema, course.limit, (one,)) for one in (None, FINE_COUNT)]
    assert course.cost.amount == min(one.cost.amount for one in ways)
