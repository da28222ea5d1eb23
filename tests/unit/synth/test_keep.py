"""Tables, couplings, keys and redraws: each does to rows what it says, and nothing else."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from siloquent.errors import ConstraintProblem, RequestError
from siloquent.schema.constraints import FunctionalDependency, Key
from siloquent.synth.estimate.enforce.constraints import (
    build_dependency_table,
    build_model_masks,
    build_reference_table,
    compute_coupling_mask,
    enforce_constraints,
)
from siloquent.synth.estimate.repair import repair
from siloquent.synth.spec.compiled import TableNeed
from siloquent.synth.spec.fine_domain import group_single_cells
from unit.synth.test_constraints import SMALL, compiled, never, schema


def need(lhs: int = 4, rhs: int = 3, **more: object) -> TableNeed:
    settings = {"way": "forward", "measured": True} | more
    return TableNeed(1, ("x",), "y", (lhs,), rhs, (lhs,), rhs, **settings)  # type: ignore[arg-type]


def test_a_table_takes_the_largest_cell_and_lists_entries_within_the_noise() -> None:
    histogram = np.array([[9, 1, 0], [0, 3, 40], [2, 5, 1], [100, 0, 0]])
    table = build_dependency_table(need(), histogram, deviation=2.0, random=np.random.default_rng(0))
    assert (table.values.tolist(), table.weak) == ([0, 2, 1, 0], (2,))


def test_a_table_both_ways_repeats_no_value_and_loses_as_little_as_possible() -> None:
    histogram = np.array([[9, 8, 0], [9, 0, 0]])
    table = build_dependency_table(
        need(2, 3, bijective=True), histogram, deviation=1.0, random=np.random.default_rng(0)
    )
    assert table.values.tolist() == [1, 0]


@pytest.mark.parametrize("rising", [True, False])
def test_a_monotone_table_is_the_best_of_all_monotone_maps(rising: bool) -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        histogram = random.integers(-5, 20, (4, 3))
        found = build_dependency_table(need(along="x", rising=rising), histogram, deviation=1.0, random=random).values
        maps = [m for m in product(range(3), repeat=4) if list(m) == sorted(m, reverse=not rising)]
        assert list(found) == sorted(found, reverse=not rising)
        assert histogram[range(4), found].sum() == max(histogram[range(4), m].sum() for m in maps)


def test_a_reference_must_be_a_function() -> None:
    random, x = np.random.default_rng(0), np.array([[0], [1], [1], [3]])
    with pytest.raises(RequestError, match="two values of y"):
        build_reference_table(need(reference="x_y"), x, np.array([0, 1, 2, 0]), random)
    table = build_reference_table(need(reference="x_y", way="reverse"), x, np.array([0, 1, 1, 2]), random)
    assert table.values[[0, 1, 3]].tolist() == [0, 1, 2]
    assert table.weights is not None
    assert table.weights.tolist() == [1, 1, 0, 1]


def test_the_coupling_mask_of_one_spike_each_is_an_l() -> None:
    gain, loss = np.array([0.92, 0.05, 0.03]), np.array([0.95, 0.03, 0.02])
    falling = compute_coupling_mask(gain, loss, rising=False)
    assert falling.tolist() == [[True, True, True], [True, False, False], [True, False, False]]
    with_null = compute_coupling_mask(gain, loss, rising=False, known_b=np.array([True, True, False]))
    assert with_null[:, 2].all()


def test_rank_coupling_keeps_the_values_of_each_context() -> None:
    found = compiled(schema(e=3, a=9, b=9), never("t1.e = t2.e and t1.a > t2.a and t1.b < t2.b"))
    random = np.random.default_rng(1)
    before = random.integers(0, (3, 9, 9), (500, 3))
    after = enforce_constraints(before, found, {}, random)
    assert (after[:, :2] == before[:, :2]).all()
    for context in range(3):
        mine = before[:, 0] == context
        assert sorted(after[mine, 2]) == sorted(before[mine, 2])


def test_reversed_values_are_shared_out_in_proportion_and_every_group_gets_one() -> None:
    found = compiled(schema(zip=600, state=5), FunctionalDependency(("zip",), "state"))
    random = np.random.default_rng(2)
    states = random.choice(5, 6_000, p=[0.6, 0.3, 0.09, 0.0095, 0.0005])
    tables = {1: build_dependency_table(found.needs[0], None, deviation=1.0, random=random)}
    after = enforce_constraints(np.stack([states * 0, states], axis=1), found, tables, random)
    assert (after[:, 1] == states).all()
    zips = [len(np.unique(after[states == state, 0])) for state in range(5) if (states == state).any()]
    assert min(zips) >= 1
    assert abs(zips[0] / 600 - 0.6) < 0.02


def test_measured_weights_decide_which_reversed_values_are_drawn() -> None:
    found = compiled(schema(area=30, state=3), FunctionalDependency(("area",), "state"), one_way_deviation=200.0)
    histogram = np.zeros((30, 3), dtype=np.int64)
    histogram[np.arange(30), np.arange(30) % 3] = np.where(np.arange(30) < 3, 900, 10)
    random = np.random.default_rng(0)
    tables = {1: build_dependency_table(found.needs[0], histogram, deviation=1.0, random=random)}
    assert found.needs[0].way == "reverse"
    after = enforce_constraints(
        np.stack([np.zeros(3_000), np.arange(3_000) % 3], axis=1).astype(int), found, tables, random
    )
    assert (after[:, 0] % 3 == after[:, 1]).all()
    assert 0.85 < (after[:, 0] < 3).mean() < 0.95


def test_duplicates_of_a_key_move_and_the_others_stay() -> None:
    found = compiled(schema(a=50, b=50), Key(("a", "b")), rows=2_000)
    before = np.random.default_rng(0).integers(0, 50, (2_000, 2))
    after = enforce_constraints(before, found, {}, np.random.default_rng(1))
    assert len(np.unique(after, axis=0)) == 2_000
    assert len(np.unique(before, axis=0)) <= (after == before).all(axis=1).sum()
    with pytest.raises(ConstraintProblem, match="fewer allowed combinations"):
        enforce_constraints(np.zeros((2_501, 2), dtype=int), found, {}, np.random.default_rng(1))


def test_rows_are_redrawn_inside_their_own_groups() -> None:
    found = compiled(schema(start=100, end=100), never("t1.end < t1.start"))
    groups = dict.fromkeys(("start", "end"), group_single_cells(np.arange(100) // 10))
    random = np.random.default_rng(0)
    tens = np.sort(random.integers(0, 10, (3_000, 2)), axis=1)
    after = enforce_constraints(tens * 10 + random.integers(0, 10, (3_000, 2)), found, {}, random, groups=groups)
    assert (after[:, 1] >= after[:, 0]).all()
    assert (after // 10 == tens).all()


def test_a_twin_joins_its_attributes_by_a_mask_of_the_model() -> None:
    found = compiled(schema(fine=20, coarse=4), FunctionalDependency(("fine",), "coarse"))
    histogram = np.zeros((20, 4), dtype=np.int64)
    histogram[np.arange(20), np.arange(20) // 5] = 1_500
    tables = {1: build_dependency_table(found.needs[0], histogram, deviation=20.0, random=np.random.default_rng(0))}
    (mask,) = build_model_masks(found, tables)
    assert mask.attributes == ("fine", "coarse")
    assert mask.cells is not None
    assert np.argwhere(mask.cells)[:, 1].tolist() == (np.arange(20) // 5).tolist()


def test_a_repair_changes_broken_cells_alone_and_a_second_one_none() -> None:
    found = compiled(SMALL, FunctionalDependency(("a",), "b"), never("t1.c > t2.c and t1.d < t2.d"))
    rows = np.array([[0, 1, 0, 0], [0, 1, 1, 1], [0, 2, 2, 2], [1, 3, 3, 3]])
    first = repair(rows, found, np.random.default_rng(0))
    assert first.changed.tolist() == [[2, 1]]
    assert first.before == {1: 2}
    assert len(repair(first.rows, found, np.random.default_rng(0)).changed) == 0
