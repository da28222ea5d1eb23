"""What a new question draws from earlier answers: exact numbers in, exact answers out; no more than is missing paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP
from siloquent.explore.plan.reuse.linear_measurements import build_area, build_footprint, build_linear_measurement
from siloquent.explore.plan.reuse.refinement import refine
from siloquent.privacy import FREE, DiscreteGaussian, DiscreteLaplace, ExponentialSelect, get_accountant
from siloquent.schema import Domain
from unit.explore.plan.pasts import drawn, exact, kept, truth
from unit.explore.plan.tables import planned

BY_AGE = "BIN visits ON COUNT(*) WHERE W = HISTOGRAM(age, 0, 100, {}) ERROR {}"
PREFIX = "BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, {}) ERROR {}"
BY_SEX = "SELECT sex, COUNT(*) FROM visits WHERE age < 50 GROUP BY sex ERROR {}"
BOTH = "SELECT ward, sex, COUNT(*) FROM visits GROUP BY ward, sex ERROR {}"
SUMS = "SELECT sex, SUM(age) FROM visits GROUP BY sex ERROR {}"
MIXED = (
    "BIN visits ON COUNT(*) WHERE W = {age < 30, age < 60, sex = 'f' AND ward = 'A', day < DATE '2024-03-01', "
    "day < DATE '2024-05-01'} ERROR 300"
)
NAMES = ("zcdp", "pure")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BY_AGE.format(5, 100), BY_AGE.format(10, 300)),
        (BY_AGE.format(10, 100), PREFIX.format(20, 400)),
        (PREFIX.format(5, 100), BY_AGE.format(5, 300)),
        (BOTH.format(50), "SELECT ward, COUNT(*) FROM visits WHERE sex IN ('f', 'm') GROUP BY ward ERROR 150"),
        (BOTH.format(50), "SELECT COUNT(*) FROM visits WHERE ward IN ('A', 'B') AND sex = 'm' ERROR 90"),
        (SUMS.format(2000), "SELECT SUM(age) FROM visits WHERE sex = 'f' ERROR 2500"),
        (MIXED, MIXED.replace("300", "330")),
        (BOTH.format(50), "SELECT ward, sex FROM visits GROUP BY ward, sex HAVING COUNT(*) > 300 ERROR 60"),
    ],
)
def test_what_is_known_well_enough_is_free_and_exact_numbers_give_exact_answers(
    before: str, now: str, name: str
) -> None:
    first, plan = planned(before, name), planned(now, name)
    found = drawn(plan, [kept(first, 4)])
    assert found is not None
    assert (found.event, found.is_free, found.sources) == (FREE, True, (4,))
    error = np.abs(np.array(found.estimate(())) / PARTS_OF_A_STEP - truth(plan)).max()
    assert error <= (1 / 1_000 if plan.compiled.summed is None else 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BY_AGE.format(5, 100), BY_AGE.format(10, 100)),
        (BOTH.format(150), "SELECT sex, COUNT(*) FROM visits GROUP BY sex ERROR 150"),
        (BY_AGE.format(20, 100), PREFIX.format(10, 150)),
        (SUMS.format(3000), "SELECT SUM(age) FROM visits WHERE sex IN ('f', 'm') ERROR 2500"),
        (MIXED, MIXED.replace("300", "200")),
    ],
)
def test_what_is_known_roughly_is_topped_up_for_less_than_asking_anew(before: str, now: str, name: str) -> None:
    first, plan = planned(before, name), planned(now, name)
    found = drawn(plan, [kept(first, 4)])
    assert found is not None
    assert found.added is not None
    assert isinstance(found.event, DiscreteGaussian if name == "zcdp" else DiscreteLaplace)
    book = get_accountant(name)
    assert 0 < book.compute_price(found.event).amount < book.compute_price(plan.event).amount
    estimate = np.array(found.estimate(exact(plan, found.added.matrices).tolist())) / PARTS_OF_A_STEP
    assert np.abs(estimate - truth(plan)).max() <= (1 / 1_000 if plan.compiled.summed is None else 1)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_top_up_measured_serves_later_questions(name: str) -> None:
    first, plan = planned(BY_AGE.format(5, 200), name), planned(BY_AGE.format(10, 100), name)
    one = kept(first, 4)
    found = drawn(plan, [one])
    assert found is not None
    assert found.added is not None
    two = kept(plan, 6, event=found.event, strategy=found.added.matrices)
    again = drawn(planned(BY_AGE.format(10, 101), name), [one, two])
    assert again is not None
    assert again.is_free
    assert again.sources == (4, 6)


def test_two_rough_answers_make_one_good_one() -> None:
    rough, better = planned(BY_AGE.format(10, 200), "zcdp"), planned(BY_AGE.format(10, 150), "zcdp")
    assert not drawn(better, [kept(rough, 1)]).is_free  # type: ignore[union-attr]
    found = drawn(better, [kept(rough, 1), kept(rough, 2)])
    assert found is not None
    assert found.is_free
    assert found.sources == (1, 2)
    assert found.weights[0, 0] == pytest.approx(found.weights[0, 10])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_drawn_from_other_attributes_quantities_versions_or_declarations(name: str) -> None:
    plan = planned(BY_AGE.format(10, 300), name)
    past = kept(planned(BY_AGE.format(10, 100), name), 3)
    assert drawn(plan, [past]) is not None
    assert drawn(plan, [kept(planned(BY_SEX.format(100).replace("WHERE age < 50 ", ""), name), 3)]) is None
    assert drawn(planned("SELECT SUM(age) FROM visits ERROR 2000", name), [past]) is None
    assert drawn(planned(BY_AGE.format(10, 300), name, version=2), [past]) is None
    wider = Domain(tuple(replace(one, outside="drop") if one.name == "age" else one for one in plan.schema.domain))
    assert drawn(replace(plan, schema=replace(plan.schema, domain=wider)), [past]) is None


def test_only_linear_answers_with_the_accounts_own_noise_are_kept() -> None:
    plan = planned(BY_AGE.format(10, 300), "zcdp")
    footprint = build_footprint(plan.compiled, plan.schema, by_strategy=False)
    assert footprint is not None
    selected = ExponentialSelect(rounds=1, range=get_accountant("zcdp").compute_price(plan.event).amount)
    assert build_linear_measurement(footprint, selected, (3,), (), source=1, account="visits@1") is None
    with_laplace = kept(planned(BY_AGE.format(10, 100), "pure"), 1)
    assert drawn(plan, [with_laplace]) is None


def test_gaussian_noise_too_small_for_the_normal_law_is_not_drawn_from() -> None:
    assert kept(planned(BY_AGE.format(10, 5), "zcdp"), 1).pieces == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_simultaneous_answer_needs_more_evidence_than_an_independent_one(name: str) -> None:
    past = [kept(planned(BY_AGE.format(10, 100), name), 1)]
    loose, tight = (planned(BY_AGE.format(10, error), name) for error in (200, 110))
    independent, simultaneous = drawn(tight, past), drawn(loose, past, simultaneous=True)
    assert independent is not None
    assert independent.label == "independent"
    assert independent.is_free
    assert simultaneous is not None
    assert simultaneous.label == "simultaneous"
    assert simultaneous.is_free
    assert drawn(tight, past, simultaneous=True) is None
    later = [kept(planned(BY_AGE.format(10, 100), name), 10**9)]
    assert drawn(planned(BY_AGE.format(10, 150), name), later, simultaneous=True) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (BY_AGE.format(5, 100), BY_AGE.format(10, 600)),
        (BY_AGE.format(10, 100), PREFIX.format(20, 1_000)),
        (PREFIX.format(5, 100), BY_AGE.format(5, 600)),
        (BOTH.format(50), "SELECT ward, COUNT(*) FROM visits WHERE sex IN ('f', 'm') GROUP BY ward ERROR 400"),
        (BOTH.format(50), "SELECT COUNT(*) FROM visits WHERE ward IN ('A', 'B') AND sex = 'm' ERROR 300"),
        (SUMS.format(2000), "SELECT SUM(age) FROM visits WHERE sex = 'f' ERROR 6000"),
        (MIXED, MIXED.replace("300", "1200")),
        (BOTH.format(50), "SELECT ward, sex FROM visits GROUP BY ward, sex HAVING COUNT(*) > 300 ERROR 160"),
    ],
)
def test_simultaneous_answers_are_read_off_exactly(before: str, now: str, name: str) -> None:
    first, plan = planned(before, name), planned(now, name)
    found = drawn(plan, [kept(first, 4)], simultaneous=True)
    assert found is not None
    assert (found.event, found.label, found.sources) == (FREE, "simultaneous", (4,))
    error = np.abs(np.array(found.estimate(())) / PARTS_OF_A_STEP - truth(plan)).max()
    assert error <= (1 / 1_000 if plan.compiled.summed is None else 1)


def test_each_simultaneous_answer_comes_from_one_measurement() -> None:
    """A mean of two has a bound of its own only if it was fixed which two, before either was drawn."""
    rough, better = planned(BY_AGE.format(10, 200), "zcdp"), planned(BY_AGE.format(10, 220), "zcdp")
    past = [kept(rough, seq) for seq in (1, 2, 3, 4)]
    assert drawn(better, past) is not None
    assert drawn(better, past, simultaneous=True) is None
    ages = [kept(planned(f"SELECT COUNT(*) FROM visits WHERE age < {age} ERROR 50", "zcdp"), age) for age in (10, 20)]
    found = drawn(planned(PREFIX.format(10, 300).replace("0, 100", "0, 20"), "zcdp"), ages, simultaneous=True)
    assert found is not None
    assert found.sources == (10, 20)


def test_two_answers_about_disjoint_attributes_say_nothing_about_each_other() -> None:
    ward = planned("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 80", "zcdp")
    own = kept(planned("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 50", "zcdp"), 1)
    other = kept(planned("SELECT day, COUNT(*) FROM visits WHERE age < 50 GROUP BY day ERROR 50", "zcdp"), 2)
    found = drawn(ward, [own, other])
    assert found is not None
    assert found.sources == (1,)


def test_rows_without_a_declared_value_are_not_forgotten() -> None:
    """A count by sex leaves out rows whose sex is not declared, so it does not determine the count of all rows."""
    by_sex = kept(planned("SELECT sex, COUNT(*) FROM visits GROUP BY sex ERROR 50", "zcdp"), 1)
    assert drawn(planned("SELECT COUNT(*) FROM visits ERROR 300", "zcdp"), [by_sex]) is None


def test_at_most_two_thousand_base_cells_are_drawn_from_newest_first() -> None:
    ask = (
        "BIN visits ON COUNT(*) WHERE W = {{age < {0} AND ward = 'A', age < {0} AND day < DATE '2024-02-01'}} ERROR 99"
    )
    past = [kept(planned(ask.format(age), "zcdp"), age) for age in range(1, 99)]
    fine = kept(planned("SELECT day, COUNT(*) FROM visits WHERE age < 50 GROUP BY day ERROR 50", "zcdp"), 200)
    plan = planned(ask.format(97).replace("ERROR 99", "ERROR 98"), "zcdp")
    block = refine(
        build_area(plan.compiled.parts[0], plan.schema.domain), [p for one in [*past, fine] for p in one.pieces]
    )
    assert block.cells <= 2_000
    sources = [piece.source for piece in block.pieces]
    assert 98 in sources
    assert sources == sorted(sources, reverse=True)
