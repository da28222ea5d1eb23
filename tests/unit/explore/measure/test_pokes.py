"""Multi-poking: which looks decide, what they cost, and when the planner takes it."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.explore.measure.multi_poking import check_looks
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.explain import explain_course
from siloquent.explore.plan.mechanisms.base import ErrorRequirement
from siloquent.explore.plan.mechanisms.draws import LooksDraw
from siloquent.explore.plan.mechanisms.multi_poking import POKES, compute_margins, list_scales, price_pokes
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.steps import PlanStep, QueryPlan
from siloquent.maths.tails.distributions import laplace_tail
from siloquent.maths.tails.errors import compute_breaking_error
from siloquent.privacy import Cost, DiscreteLaplace, NoiseReduction, get_accountant
from unit.explore.plan.tables import planned

AGES = "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 100, 1) HAVING COUNT(*) > 1000 {} CONFIDENCE 0.9995"
WARDS = "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1000 ERROR 200 CONFIDENCE 0.9"


def pokes(found: Plan) -> NoiseReduction:
    assert isinstance(found.event, NoiseReduction)
    return found.event


def test_twelve_scales_fall_by_a_sixth_each_and_the_last_is_the_largest_that_keeps_its_share() -> None:
    found = planned(AGES.format("ERROR 651"))
    scales = pokes(found).scales
    assert len(scales) == POKES
    assert all(abs(float(b / c) - 1.2) < 1e-4 for b, c in pairwise(scales))
    share = 5e-4 / (12 * 100)
    assert laplace_tail(652, scale=float(scales[-1])) <= share
    assert laplace_tail(652, scale=float(scales[-1]) + 2 / 1024) > share


def test_each_margin_is_the_smallest_that_noise_passes_with_its_share() -> None:
    found = planned(AGES.format("ERROR 651"))
    wanted = ErrorRequirement("icq", alpha=Fraction(651), m=652, beta=5e-4)
    margins, share = compute_margins(pokes(found).scales, found.compiled, wanted), 5e-4 / (12 * 100)
    assert margins[-1] == 651
    for scale, margin in zip(pokes(found).scales[:-1], margins.tolist(), strict=False):
        assert laplace_tail(margin + 1, scale=float(scale)) <= share < laplace_tail(margin, scale=float(scale))


def test_scales_that_would_be_equal_are_one() -> None:
    assert list_scales(Fraction(1, 1024)) == tuple(Fraction(i, 1024) for i in (7, 6, 5, 4, 3, 2, 1))


@given(
    st.integers(-6, 18),
    st.sampled_from([">", ">="]),
    st.integers(0, 24).map(lambda x: Fraction(x, 2)),
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(5, 2), Fraction(4)]),
    st.integers(0, 5),
    st.data(),
)
def test_an_answer_whose_noise_stays_within_the_margin_is_never_decided_wrongly(
    count: int, op: str, c: Fraction, alpha: Fraction, margin: int, data: st.DataObject
) -> None:
    threshold = math.floor(c) if op == ">" else math.ceil(c) - 1
    m = compute_breaking_error(alpha)
    noise = data.draw(st.integers(-margin, margin))
    reported, clear = check_looks(np.array([[count + noise]]), LooksDraw((), np.array([margin]), threshold, m))
    if reported[0, 0]:
        assert count >= c - alpha
    elif clear[0]:
        assert count <= c + alpha


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=5), st.integers(1, 50))
def test_the_last_look_decides_everything(noisy: list[int], m: int) -> None:
    reported, clear = check_looks(np.array([noisy]), LooksDraw((), np.array([m - 1]), 3, m))
    assert clear.tolist() == [True]
    assert reported[0].tolist() == [value > 3 for value in noisy]


def test_clear_counts_stop_at_the_first_look_and_close_ones_later() -> None:
    found = planned(AGES.replace("1000", "20000").format("ERROR 651"))
    far = np.where(np.arange(100) < 7, 40_000, 0)
    close = np.where(np.arange(100) < 7, 20_100, 19_900)
    stops = {}
    for name, counts in (("far", far), ("close", close)):
        outcome = run_mechanism(found.chosen, found.compiled, [counts.astype(np.int64)])
        assert isinstance(outcome.event, NoiseReduction)
        stops[name] = outcome.event.stop
        assert replace(outcome.event, stop=None) == found.event
    assert stops["far"] == 0
    assert stops["close"] > 6
    book = get_accountant("pure")
    outcome = run_mechanism(found.chosen, found.compiled, [far.astype(np.int64)])
    assert outcome.values.tolist() == list(range(7))
    assert book.compute_cost(outcome.event).amount < book.compute_cost(found.event).amount / 7


# The planner


def test_it_is_taken_where_its_worst_is_within_a_quarter_of_the_cheapest() -> None:
    found = planned(AGES.format("ERROR 651"))
    laplace = next(c for c in found.candidates if isinstance(c.priced.event, DiscreteLaplace))
    chosen = next(c for c in found.candidates if c.priced is found.chosen)
    assert found.chosen.name == "multi-poking"
    assert laplace.amount < chosen.amount <= laplace.amount * Fraction(125, 100)
    assert chosen.least is not None
    assert chosen.least < laplace.amount / 6


def test_it_is_taken_beyond_a_quarter_only_where_the_question_prefers_it() -> None:
    assert planned(WARDS).chosen.name == "laplace"
    assert planned(f"{WARDS} PREFER OPTIMISTIC").chosen.name == "multi-poking"


@pytest.mark.slow
def test_it_is_not_preferred_where_even_its_best_costs_more() -> None:
    text = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 1) HAVING COUNT(*) > 900 ERROR 200 PREFER OPTIMISTIC"
    assert planned(text).chosen.name == "permute-and-flip"


@pytest.mark.parametrize("optimistic", ["", " PREFER OPTIMISTIC"])
def test_only_accounts_that_give_back_what_was_not_spent_offer_it(optimistic: str) -> None:
    text = AGES.format("ERROR 651") + optimistic
    assert all(c.priced.least is None for c in planned(text, "zcdp").candidates)


@pytest.mark.parametrize("optimistic", ["", " PREFER OPTIMISTIC"])
def test_a_budget_is_never_passed_by_the_worst_case(optimistic: str) -> None:
    found = planned(AGES.format("BUDGET 0.02 EPSILON") + optimistic)
    assert get_accountant("pure").compute_cost(found.event).amount <= 2 * 10**7
    assert found.chosen.name == "laplace"  # which alone reaches the smallest error for that budget


def test_what_is_left_must_pay_for_the_worst_case() -> None:
    found = planned(AGES.format("ERROR 651"))
    worst = get_accountant("pure").compute_cost(found.event)
    assert planned(AGES.format("ERROR 651"), left=worst).chosen.name == "multi-poking"
    assert planned(AGES.format("ERROR 651"), left=Cost(worst.amount - 1)).chosen.name == "laplace"


def test_both_errors_together_cost_no_more_than_each_since_an_answer_fails_on_one_side() -> None:
    wanted = ErrorRequirement("icq", alpha=Fraction(60), m=61, beta=0.01)
    compiled = planned(WARDS).compiled
    each, together = price_pokes(compiled, wanted), price_pokes(compiled, replace(wanted, beta=0.005, joint=True))
    assert each is not None
    assert together is not None
    assert each.event == together.event


def test_explain_shows_the_worst_and_the_least() -> None:
    found = planned(AGES.format("ERROR 651"))
    course = QueryPlan(found.query, found.schema, PlanStep((found,)), Cost(10**9))
    document = explain_course(course, account="visits@1", left=Cost(10**9)).to_json()
    by_name = {candidate["name"]: candidate for candidate in document["candidates"]}
    assert Decimal(by_name["multi-poking"]["min_cost"]) < Decimal(by_name["multi-poking"]["max_cost"]) / 7
    assert by_name["laplace"]["min_cost"] == by_name["laplace"]["max_cost"]
    assert document["cost"]["epsilon"] == by_name["multi-poking"]["max_cost"]
