"""Workloads over thousands of cells: what stands for a matrix does what it would do, and strategies are found."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from siloquent.explore.measure.base import compute_answers, multiply_clipped
from siloquent.explore.plan.cells.compiled import CompiledWorkload, WorkloadPart
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.mechanisms.large import build_grid, find_layered_choice
from siloquent.explore.plan.mechanisms.reconstruction import apply_reconstruction
from siloquent.explore.spec import parse
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.maths.sensitivity.linear import compute_sensitivity
from siloquent.maths.strategies.base import Norm
from siloquent.maths.strategies.sparse import Sparse
from siloquent.privacy import get_accountant
from unit.explore.plan.tables import planned, table

LONG = "BIN visits ON COUNT(*) WHERE W = PREFIX(cost, 0, 6000, 1) {} ERROR 300"


def rectangles(number: int, ages: int = 60, days: int = 60) -> str:
    """Random conditions on both of two numbers."""
    chance = random.Random(number)
    found = []
    for _ in range(number):
        a, b = sorted(chance.sample(range(ages + 1), 2))
        c, d = sorted(chance.sample(range(days + 1), 2))
        found.append(f"age >= {a} AND age < {b} AND cost >= {100 * c} AND cost < {100 * d}")
    return "BIN visits ON COUNT(*) WHERE W = {" + ", ".join(found) + "} ERROR 300"


def squares(side: int) -> list[str]:
    """Growing conditions on two numbers, all combinations."""
    return [f"cost < {100 * i} AND day < DATE '2024-02-{j:02}'" for i in range(1, side) for j in range(2, side)]


def compiled(text: str, **more: object) -> CompiledWorkload:
    return compile_workload(parse(text), table(**more))  # type: ignore[arg-type]


@pytest.mark.parametrize(("adjacency", "users"), [("add-remove", 0), ("replace-one", 0), ("add-remove", 3)])
def test_running_sums_without_a_matrix_are_a_prefix_workload(adjacency: str, users: int) -> None:
    long = compiled(LONG.format(""), adjacency=adjacency, users=users)
    (part,) = long.parts
    assert (part.running, part.columns, long.nested, long.disjoint) == (True, 6_000, True, False)
    dense = np.tril(np.ones((400, 400), dtype=np.int64))
    small = WorkloadPart(part.block, part.column, 400, None, True)
    assert np.array_equal(small.build_rows(37, 90), dense[37:90])
    x = np.arange(400)
    assert np.array_equal(small.add_up(x), dense @ x)
    first = compute_sensitivity([np.ones((6_000, 1), dtype=np.int64)], replace_one=False, rows=max(users, 1))
    assert long.sensitivity == first
    huge = compute_answers(long, [np.full(6_000, 2**59, dtype=np.int64)])
    assert huge[:3].tolist() == [2**59, 2**60, 2**60]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "factor"), [("pure", 500), ("zcdp", 100)])
def test_a_long_prefix_gets_a_tree_that_costs_hundreds_of_times_less(name: str, factor: int) -> None:
    found = planned(LONG.format(""), name)
    prices = {c.priced.name: c.amount for c in found.candidates}
    plain = prices["laplace" if name == "pure" else "gaussian"]
    assert "tree" in found.chosen.name
    assert prices[found.chosen.name] < plain / factor


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_two_thousand_nested_answers_are_planned_and_put_together_without_a_dense_strategy(name: str) -> None:
    """One dense strategy of theirs takes 40 MB or more, and its reconstruction as much again."""
    planned("BIN visits ON COUNT(*) WHERE W = PREFIX(cost, 0, 1100, 1) ERROR 300", name)  # imports are not counted
    tracemalloc.start()
    found = planned("BIN visits ON COUNT(*) WHERE W = PREFIX(cost, 0, 2000, 1) ERROR 300", name)
    (matrix,) = found.chosen.strategy
    noisy = np.random.default_rng(3).integers(-(10**6), 10**6, len(matrix))
    answered = apply_reconstruction(found.compiled, found.chosen.strategy, noisy)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(matrix, Sparse)
    assert answered is not None
    assert most < 60_000_000


@pytest.mark.parametrize("cells", [1_025, 1_200])
@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_nested_answers_are_those_of_dense_least_squares(name: str, cells: int) -> None:
    found = planned(f"BIN visits ON COUNT(*) WHERE W = PREFIX(cost, 0, {cells}, 1) ERROR 300", name)
    (matrix,), (part,) = found.chosen.strategy, found.compiled.parts
    assert isinstance(matrix, Sparse)
    dense = np.zeros((len(matrix), part.columns))
    rows = np.repeat(np.arange(len(matrix)), np.diff(matrix.starts))
    dense[rows, matrix.places] = matrix.entries
    noisy = np.random.default_rng(cells).integers(-(10**9), 10**9, len(matrix))
    wanted = part.matrix @ np.linalg.solve(dense.T @ dense, dense.T @ noisy)
    answered = apply_reconstruction(found.compiled, found.chosen.strategy, noisy)
    assert answered is not None
    assert np.abs(answered - wanted).max() <= 1e-9 * np.abs(wanted).max()


def test_a_long_iceberg_chain_is_crossed_once() -> None:
    assert planned(LONG.format("HAVING COUNT(*) > 900")).chosen.name == "permute-and-flip"


def test_ranges_over_two_attributes_get_a_tree_along_each() -> None:
    found = planned(rectangles(400))
    assert " x " in found.chosen.name
    laplace = next(c for c in found.candidates if c.priced.name == "laplace")
    assert get_accountant("pure").compute_price(found.event).amount < laplace.amount / 3


def test_what_was_measured_without_noise_gives_the_answers_back_also_from_its_payload() -> None:
    found = planned(rectangles(400))
    (part,), (matrix,) = found.compiled.parts, found.chosen.strategy
    assert isinstance(matrix, Sparse)
    x = np.random.default_rng(5).integers(0, 10**6, part.columns)
    values = multiply_clipped(matrix, x)
    first = StoredMeasurement("m", "strategy", found.event, tuple(values.tolist()), "300", found.chosen.strategy)
    again = StoredMeasurement.from_payload(first.to_payload())
    assert again.to_payload() == first.to_payload()
    noiseless = apply_reconstruction(found.compiled, again.strategy, np.array(again.values))
    assert noiseless is not None
    assert np.allclose(noiseless, compute_answers(found.compiled, [x]), rtol=1e-9)


def test_values_of_another_strategy_are_refused() -> None:
    found = planned(rectangles(400))
    assert apply_reconstruction(found.compiled, found.chosen.strategy, np.zeros(3, dtype=np.int64)) is None


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_sensitivity_is_that_of_the_dense_matrix_or_more(adjacency: str) -> None:
    workload = compiled(rectangles(60, 6, 8), adjacency=adjacency)
    offer = find_layered_choice(workload, 0.01, norm="l1", two_sided=True, bits=16)
    assert offer is not None
    (matrix,) = offer.matrices
    assert isinstance(matrix, Sparse)
    dense = np.array([multiply_clipped(matrix, one) for one in np.eye(matrix.columns, dtype=np.int64)]).T
    exact = compute_sensitivity([dense], replace_one=adjacency == "replace-one", rows=1)
    for claimed, real in zip(
        (offer.sensitivity.l1, offer.sensitivity.l2_squared, offer.sensitivity.linf),
        (exact.l1, exact.l2_squared, exact.linf),
        strict=True,
    ):
        assert real <= claimed
        assert adjacency == "replace-one" or claimed == real


def test_a_grid_gives_every_column_a_cell_of_its_own() -> None:
    workload = compiled(
        "BIN visits ON COUNT(*) WHERE W = {age < 10 AND sex = 'f', age < 20 AND sex = 'm', age < 30 AND ward = 'A'} "
        "ERROR 5"
    )
    (part,) = workload.parts
    shape, place = build_grid(part)
    assert len(set(place.tolist())) == part.columns
    assert place.max() < np.prod(shape)


def test_cells_of_one_column_are_one_step_of_an_axis_where_all_predicates_treat_them_alike() -> None:
    (part,) = compiled("BIN visits ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) ERROR 5").parts
    assert build_grid(part)[0] == (10,)


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_blocks_share_the_budget_as_they_need_it(name: str) -> None:
    """Squares over two attributes and a chain on a third: together they cost not much more than the dearer alone."""
    ages = [f"age < {i}" for i in range(1, 40)]
    both, alone = (
        compiled("BIN visits ON COUNT(*) WHERE W = {" + ", ".join(tests) + "} ERROR 3000", accountant=name)
        for tests in (ages + squares(12), squares(12))
    )
    norm: Norm = "l1" if name == "pure" else "l2"
    offers = [find_layered_choice(one, 0.01, norm=norm, two_sided=True, bits=16) for one in (both, alone)]
    assert offers[0] is not None
    assert offers[1] is not None
    assert len(offers[0].matrices) == 2
    sizes = [
        one.factor.value * (one.sensitivity.l1 if norm == "l1" else one.sensitivity.l2_squared**0.5)
        for one in offers
        if one is not None
    ]
    assert sizes[1] < sizes[0] < 2.5 * sizes[1]


def test_planning_again_with_another_bound_finds_the_same_strategy() -> None:
    one, two = planned(rectangles(400)), planned(rectangles(400).replace("ERROR 300", "ERROR 400"))
    assert one.chosen.strategy[0] is two.chosen.strategy[0]
    assert replace(one, alpha=Fraction(400)).alpha == two.alpha


def test_a_part_without_attributes_has_a_grid_of_one_cell() -> None:
    (part,) = compiled("SELECT COUNT(*) FROM visits ERROR 5").parts
    shape, place = build_grid(part)
    assert (shape, place.tolist()) == ((1,), [0])


@pytest.mark.parametrize("users", [0, 3])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("aggregate", ["COUNT(*)", "SUM(cost)"])
def test_the_sensitivity_covers_each_pair_of_units_and_counts_are_charged_no_signs(
    aggregate: str, adjacency: str, users: int
) -> None:
    """The columns of two rows times their values, from the least to the greatest: a replaced row takes one away."""
    text = rectangles(40, 6, 8).replace("COUNT(*)", aggregate).replace("ERROR 300", "ERROR 30000000")
    text = text.replace("cost >=", "cost >= 0 AND cost >=") if aggregate == "SUM(cost)" else text
    workload = compiled(text, adjacency=adjacency, users=users)
    offer = find_layered_choice(workload, 0.01, norm="l1", two_sided=True, bits=16)
    assert offer is not None
    (matrix,) = offer.matrices
    assert isinstance(matrix, Sparse)
    dense = np.array([multiply_clipped(matrix, one) for one in np.eye(matrix.columns, dtype=np.int64)]).T
    replaced, summed = adjacency == "replace-one", workload.summed
    values = {0, 1} if summed is None else {0, summed.lowest, summed.highest}
    columns, rows = dense.T.astype(object), workload.rows
    for one in columns:
        others = columns if replaced else [0 * one]
        for v, w, other in [(v, w, other) for v in values for w in values for other in others]:
            change = rows * (v * one - w * other)
            assert abs(change).sum() <= offer.sensitivity.l1
            assert (change**2).sum() <= offer.sensitivity.l2_squared
            assert abs(change).max() <= offer.sensitivity.linf
    squares_of = max((column**2).sum() for column in columns) * (workload.largest * rows) ** 2
    assert offer.sensitivity.l2_squared == squares_of * (1 if not replaced else 2)  # twice, where no value is negative
