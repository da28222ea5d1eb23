"""Explore's less simple mechanisms as black boxes: several blocks, sums in units, and the faults each invites.

``test_mechanisms.py`` audits one mechanism of every kind; here are the shapes whose price is more than one formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.explore.measure.base import compute_answers, multiply_clipped, sum_units
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.spec import parse
from siloquent.privacy import (
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    GeometricTopK,
    convert_zcdp_to_epsilon,
    get_accountant,
)
from siloquent.privacy.noise import add_gaussian, add_laplace
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema, Unit

pytestmark = pytest.mark.statistical
N, MANY = 6_000, 200_000
DELTA = 0.01
D = Decimal
ATTRIBUTES = (
    Attribute("age", "integer", lo=D(0), hi=D(3), grid=D(1)),
    Attribute("floor", "integer", lo=D(0), hi=D(3), grid=D(1)),
    Attribute("cost", "integer", lo=D(-100), hi=D(10**6), grid=D(1)),
)
Rows = list[tuple[int, ...]]
"""age, floor, cost"""

BLOCKS = (
    "BIN t ON COUNT(*) WHERE W = {age < 1, age < 2, age < 3, floor < 1, floor < 2, floor < 3} ERROR %d CONFIDENCE 0.9"
)
SUMS = "BIN t ON SUM(cost) WHERE W = {age = 0, age > 0} ERROR %d CONFIDENCE 0.9"
NESTED_SUMS = "BIN t ON SUM(cost) WHERE W = {age < 1, age < 2, age < 3, age < 4} ERROR %d CONFIDENCE 0.9"
BASE: Rows = [(0, 0, 5), (1, 2, 77_777), (3, 3, -100)]
PAIRS = {
    "add-remove": (BASE, [*BASE, (0, 0, 10**6)]),
    "replace-one": ([*BASE, (0, 0, 10**6)], [*BASE, (2, 2, 10**6)]),  # no other pair moves sums of disjoint rows more
}
TOP = "BIN t ON %s WHERE W = {age = 0, age > 0} ORDER BY %s DESC LIMIT 1 ERROR %d CONFIDENCE 0.9"
TOP_COUNT, TOP_SUM = TOP % ("COUNT(*)", "COUNT(*)", 4), TOP % ("SUM(debt)", "SUM(debt)", 8 * 10**6)
MIXED = [(0, 10**6), (2, -(10**6))]
CASES = [("blocks", BLOCKS, 4), ("sums", SUMS, 2_500_000), ("nested sums", NESTED_SUMS, 4_000_000)]


def budget_of(name: str) -> TableBudget:
    if name == "pure":
        return TableBudget("pure", epsilon=Fraction(100))
    return TableBudget("zcdp", rho=Fraction(100), delta=Fraction(1, 100))


def planned(text: str, name: str, adjacency: str) -> Plan:
    schema = TableSchema("t", Domain(ATTRIBUTES), budget_of(name), adjacency=adjacency)  # type: ignore[arg-type]
    return plan(parse(text), schema, left=Cost(10**17))


def columns(found: Plan, rows: Rows) -> list[NDArray[np.int64]]:
    domain, summed, folded = found.schema.domain, found.compiled.summed, []
    for part in found.compiled.parts:
        counts, sums = (np.zeros(part.block.size, dtype=np.int64) for _ in range(2))
        for row in rows:
            values = dict(zip(domain.names, row, strict=False))  # the name of a user comes last, and is not needed
            places = [
                classes[domain[name].index(values[name])]
                for name, classes in zip(part.block.attributes, part.block.classes, strict=True)
            ]
            cell = int(np.ravel_multi_index(places, part.block.shape))
            counts[cell] += 1
            if summed is not None:
                sums[cell] += domain[summed.attribute].index(values[summed.attribute])
        folded.append(part.fold(counts) if summed is None else sum_units(summed, part, sums, counts))
    return folded


def release(found: Plan) -> Callable[[Rows, int], NDArray[np.float64]]:
    def run(rows: Rows, n: int) -> NDArray[np.float64]:
        exact = columns(found, rows)
        return np.array([run_mechanism(found.chosen, found.compiled, exact).values for _ in range(n)], dtype=np.float64)

    return run


def noise_again(found: Plan) -> Callable[[Rows, int], NDArray[np.float64]]:
    """As ``release``, all runs in one call: what is measured exactly, then the event's own noise on each copy."""

    def run(rows: Rows, n: int) -> NDArray[np.float64]:
        exact = columns(found, rows)
        if found.chosen.form == "answers":
            measured = compute_answers(found.compiled, exact)
        else:
            measured = np.concatenate(
                [multiply_clipped(a, x) for a, x in zip(found.chosen.strategy, exact, strict=True)]
            )
        copies = np.tile(measured, (n, 1))
        if isinstance(found.event, DiscreteLaplace):
            return add_laplace(copies, scale=found.event.scale).astype(np.float64)
        assert isinstance(found.event, DiscreteGaussian)
        return add_gaussian(copies, variance=found.event.variance).astype(np.float64)

    return run


def claim(found: Plan) -> dict[str, float]:
    name = found.schema.budget.accountant
    price = float(get_accountant(name).compute_price(found.event).amount)
    return {"epsilon": price} if name == "pure" else {"epsilon": convert_zcdp_to_epsilon(price, DELTA), "delta": DELTA}


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", PAIRS)
@pytest.mark.parametrize("name", ["pure", "zcdp"])
@pytest.mark.parametrize(("text", "error"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_mechanism_keeps_its_claim(text: str, error: int, name: str, adjacency: str) -> None:
    found = planned(text % error, name, adjacency)
    assert_private(release(found), PAIRS[adjacency], n=N, **claim(found))


def test_the_cases_are_what_they_say() -> None:
    blocks = planned(BLOCKS % 4, "pure", "add-remove")
    assert (blocks.chosen.form, len(blocks.chosen.strategy)) == ("strategy", 2)
    summed = planned(SUMS % 2_500_000, "pure", "add-remove").compiled.summed
    assert summed is not None
    assert summed.quantum == 256


@pytest.mark.parametrize("adjacency", PAIRS)
def test_the_top_of_sums_of_both_signs_keeps_its_claim_for_a_user_of_mixed_rows(adjacency: str) -> None:
    attributes = (ATTRIBUTES[0], Attribute("debt", "integer", lo=D(-(10**6)), hi=D(10**6), grid=D(1)))
    schema = TableSchema(
        "t",
        Domain((*attributes, Attribute("who", "id"))),
        budget_of("pure"),
        unit=Unit("user", "who", 2),
        adjacency=adjacency,  # type: ignore[arg-type]
    )
    every = plan(parse(TOP_SUM), schema, left=Cost(10**17))
    (top,) = [one.priced for one in every.candidates if isinstance(one.priced.event, GeometricTopK)]
    found = replace(every, chosen=top)
    others = [(0, 10**6)] * 3 + [(2, 10**6)]
    pair = (others, [*others, *MIXED]) if adjacency == "add-remove" else ([*others, *MIXED], [*others, (2, 10**6)])
    assert_private(release(found), pair, n=N, **claim(found))


# Planted faults: what really runs, charged with the price of the fault.


def charged(found: Plan, factor: Fraction) -> Plan:
    """The plan, with the sensitivity that it pays for multiplied by ``factor``."""
    event = found.event
    assert isinstance(event, DiscreteLaplace | DiscreteGaussian)
    if isinstance(event, DiscreteLaplace):
        paid: DiscreteLaplace | DiscreteGaussian = replace(event, l1=int(event.l1 * factor))
    else:
        paid = replace(event, l2_squared=int(event.l2_squared * factor**2))
    return replace(found, chosen=replace(found.chosen, event=paid))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_the_largest_block_charged_for_the_sum_of_blocks_is_caught(name: str) -> None:
    found = charged(planned(BLOCKS % 4, name, "add-remove"), Fraction(1, 2))
    assert_caught(noise_again(found), PAIRS["add-remove"], n=MANY, **claim(found))


def test_the_price_of_adding_a_row_charged_for_replacing_one_is_caught() -> None:
    right = planned(BLOCKS % 4, "pure", "replace-one")
    added = planned(BLOCKS % 4, "pure", "add-remove")
    assert right.chosen.strategy[0].tolist() == added.chosen.strategy[0].tolist()
    assert_caught(noise_again(added), PAIRS["replace-one"], n=MANY, **claim(added))


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_a_sum_charged_as_if_values_ended_at_half_their_bound_is_caught(name: str) -> None:
    found = charged(planned(SUMS % 2_500_000, name, "add-remove"), Fraction(1, 2))
    assert_caught(noise_again(found), PAIRS["add-remove"], n=MANY, **claim(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_a_sum_charged_for_adding_a_row_where_one_is_replaced_is_caught(name: str) -> None:
    """The factor of two in L1, and in squared L2, that a replaced row costs."""
    added = planned(SUMS % 2_500_000, name, "add-remove")
    runs = MANY if name == "pure" else 5 * MANY  # delta hides most of what two rows show
    assert_caught(noise_again(added), PAIRS["replace-one"], n=runs, **claim(added))


def test_the_top_of_counts_charged_as_monotone_where_rows_are_replaced_is_caught() -> None:
    """One count falls while the other grows, which costs twice what moves in one direction cost."""
    found = planned(TOP_COUNT, "pure", "replace-one")
    assert isinstance(found.event, GeometricTopK)
    assert not found.event.monotone
    half = replace(found, chosen=replace(found.chosen, event=replace(found.event, monotone=True)))
    ahead = [(0, 0, 5), (0, 0, 5), (2, 2, 5)]
    assert_caught(release(half), ([*ahead, (0, 0, 5)], [*ahead, (2, 2, 5)]), n=4 * N, **claim(half))


def test_a_sum_of_steps_charged_as_one_of_units_is_caught() -> None:
    """Noise in units of 256 on a sum that was never divided by 256."""
    found = planned(SUMS % 2_500_000, "pure", "add-remove")
    assert found.compiled.summed is not None
    forgotten = replace(found, compiled=replace(found.compiled, summed=replace(found.compiled.summed, quantum=1)))
    assert_caught(release(forgotten), PAIRS["add-remove"], n=N, **claim(found))
