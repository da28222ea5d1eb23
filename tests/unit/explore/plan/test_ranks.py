"""Several quantiles of one attribute: when one measurement serves them all, at what price, and what is read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import LedgerError
from siloquent.explore.estimate import QueryProgress
from siloquent.explore.estimate.ranks import read_off
from siloquent.explore.plan.mechanisms.ranks import compute_rank_errors
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.earlier_answers import EarlierAnswers
from siloquent.explore.plan.reuse.plans import restore_paid_step
from siloquent.explore.plan.steps import PlanStep, QueryPlan, plan_query
from siloquent.explore.spec import parse
from siloquent.explore.spec.aggregates import Count, Quantile, Ranks
from siloquent.explore.spec.stored_measurement import Form, StoredMeasurement, encode_payload
from siloquent.ledger import Permit, Receipt, SettledAnswer
from siloquent.maths.sensitivity.linear import compute_sensitivity
from siloquent.privacy import Cost, DiscreteGaussian, DiscreteLaplace, convert_epsilon_to_rho, get_accountant
from unit.explore.plan.tables import PLENTY, table

QUARTILES = "QUANTILE(age, 0.25), MEDIAN(age), QUANTILE(age, 0.75)"
BY_SEX = f"SELECT sex, {QUARTILES} FROM visits GROUP BY sex"
SHARES = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(9_999, 10_000)]


def charted(text: str, name: str = "pure", **more: Any) -> QueryPlan:
    return plan_query(parse(text), table(name, **more), left=PLENTY)


def prices(step: PlanStep, name: str) -> list[Fraction]:
    return [get_accountant(name).compute_price(way.event).amount for way in step.ways]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gain"), [("pure", Fraction(3, 2)), ("zcdp", Fraction(2))])
def test_quartiles_are_read_off_one_measurement_that_costs_less_than_three(name: str, gain: Fraction) -> None:
    course = charted(f"SELECT {QUARTILES}, COUNT(*) FROM visits ERROR 200, 200, 200, 500", name)
    ranks, count = course.first.plans
    assert isinstance(ranks.query.aggregate, Ranks)
    assert count.query.aggregate == Count()
    assert ranks.beta == Fraction(3, 4) * Fraction(1, 2000)
    assert [type(one.query.aggregate) for one in course.first.apart] == [Quantile] * 3 + [Count]
    together, apart = prices(PlanStep(course.first.plans[:1], course.first.apart[:3]), name)
    assert together * gain < apart


@pytest.mark.parametrize(
    "text", ["MEDIAN(age) FROM visits ERROR 200", "MEDIAN(age), MEDIAN(day) FROM visits ERROR 9, 9"]
)
def test_one_quantile_of_an_attribute_is_chosen_by_itself(text: str) -> None:
    course = charted(f"SELECT {text}")
    assert not course.first.apart
    assert all(one.chosen.form == "chosen" for one in course.first.plans)


@pytest.mark.slow
def test_where_one_of_two_needs_little_they_stay_apart() -> None:
    course = charted("SELECT MEDIAN(age), QUANTILE(age, 0.25) FROM visits ERROR 20, 5000")
    assert [one.alpha for one in course.first.plans] == [20, 5_000]


def test_too_many_values_stay_apart() -> None:
    course = charted("SELECT QUANTILE(cost, 0.25), MEDIAN(cost), QUANTILE(cost, 0.75) FROM visits ERROR 9, 9, 9")
    assert len(course.first.plans) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_a_budget_buys_a_smaller_error_of_all_of_them(name: str) -> None:
    course = charted(f"SELECT {QUARTILES} FROM visits BUDGET 0.1 EPSILON", name)
    (ranks,) = course.first.plans
    together, apart = prices(course.first, name)
    allowed = Fraction(1, 10) if name == "pure" else Fraction(convert_epsilon_to_rho(0.1, 1e-6))
    assert max(together, apart) <= allowed
    assert together >= allowed * Fraction(999, 1_000)
    assert ranks.alpha < min(one.alpha for one in course.first.apart)
    finer = charted(f"SELECT {QUARTILES} FROM visits ERROR {', '.join([str(ranks.alpha - 1)] * 3)}", name)
    assert prices(finer.first, name)[0] > get_accountant(name).compute_price(course.first.event).amount


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize(
    "settings", [{}, {"adjacency": "replace-one"}, {"users": 3}, {"users": 3, "adjacency": "replace-one"}]
)
def test_the_price_is_that_of_the_whole_matrix_over_all_groups(name: str, settings: dict[str, Any]) -> None:
    (ranks,) = charted(f"{BY_SEX} ERROR 300, 300, 300", name, **settings).first.plans
    (matrix,) = ranks.chosen.strategy
    assert isinstance(matrix, np.ndarray)
    assert matrix.shape[1] == ranks.compiled.parts[0].columns == 200
    exact = compute_sensitivity([matrix], replace_one=ranks.schema.replace_one, rows=ranks.schema.unit.max_rows)
    event = ranks.event
    assert isinstance(event, (DiscreteLaplace, DiscreteGaussian))
    paid = event.l1 if isinstance(event, DiscreteLaplace) else event.l2_squared
    assert paid == (exact.l1 if isinstance(event, DiscreteLaplace) else exact.l2_squared)


# Reading off


def released(plan: Plan, values: Sequence[int]) -> StoredMeasurement:
    form: Form = "strategy" if isinstance(plan.query.aggregate, Ranks) else "chosen"
    return StoredMeasurement("m", form, plan.event, tuple(values), str(plan.alpha), plan.chosen.strategy)


@cache
def by_sex() -> Plan:
    (ranks,) = charted(f"{BY_SEX} ERROR 300, 300, 300").first.plans
    return ranks


@pytest.mark.slow
@settings(deadline=None)  # the first plan of a shape takes a second
@given(
    st.lists(st.integers(0, 12), min_size=200, max_size=200), st.lists(st.integers(-9, 9), min_size=200, max_size=200)
)
def test_no_rank_is_further_off_than_the_noise_puts_a_difference_of_counts(rows: list[int], noise: list[int]) -> None:
    ranks = by_sex()
    cells = replace(ranks.chosen, strategy=(np.eye(200, dtype=np.int64),))
    counts = np.array(rows)
    noisy = counts + np.array(noise)
    for share in SHARES:
        found = read_off(ranks.compiled, released(replace(ranks, chosen=cells), noisy.tolist()), share)
        for place, exact, seen in zip(found, counts.reshape(2, -1), noisy.reshape(2, -1), strict=True):
            wanted = share * int(exact.sum())
            off = max(int(exact[:place].sum()) - wanted, wanted - int(exact[: place + 1].sum()), Fraction(0))
            noises = np.cumsum(seen - exact)
            assert off <= max(abs(Fraction(int(one)) - share * int(noises[-1])) for one in noises[:-1])


def test_a_stored_measurement_of_another_question_is_refused() -> None:
    ranks = by_sex()
    with pytest.raises(LedgerError):
        read_off(ranks.compiled, released(ranks, [1, 2, 3]), Fraction(1, 2))


def test_answers_that_were_measured_apart_are_still_read() -> None:
    """Whoever keeps an answer with a measurement for every quantile gets it back under its key."""
    course = charted(f"{BY_SEX} ERROR 300, 300, 300")
    payload = encode_payload([released(one, [3 + place, 40]) for place, one in enumerate(course.first.apart)])
    stored = SettledAnswer(
        "p", "visits@1", "k", PlanStep(course.first.apart).event, payload, Receipt("l", 1, "h"), *[Cost(0)] * 4
    )
    progress = QueryProgress(course).add_step(course.first, stored, True)
    assert [part.values for part in progress.parts] == [[3, 40], [4, 40], [5, 40]]


def test_what_was_reserved_for_a_choice_each_is_measured_as_that() -> None:
    """A retry measures what its permit paid for, whichever way is cheaper now."""
    first = charted(f"{BY_SEX} ERROR 300, 300, 300").first
    for way in first.ways:
        permit = Permit("p", "visits@1", "k", "d", way.event, Cost(1), 7)
        assert restore_paid_step(first, EarlierAnswers((), 0), permit).event == way.event


def test_a_rank_error_is_the_rows_up_to_a_value_less_a_share_of_all_for_every_value_but_the_last() -> None:
    rows, shares = np.array([3, 0, 5, 2]), [Fraction(1, 4), Fraction(9, 10)]
    expected = [float(sum(rows[: value + 1]) - share * 10) for share in shares for value in range(3)]
    assert (compute_rank_errors(4, shares) @ rows).tolist() == pytest.approx(expected)
