"""Graphical models against the full joint, by brute force on small tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from siloquent.maths.graphical.fit import GraphicalModel, Target, fit
from siloquent.maths.graphical.marginals import Spreader, compute_marginal, condition_beliefs, weight_beliefs
from siloquent.maths.graphical.tree import Projection, build_junction_tree
from siloquent.maths.graphical.triangulate import build_mask, count_cells, find_cliques, list_members

Floats = NDArray[np.float64]
SIZES = (2, 3, 2, 4, 3, 2)
SETS = ((0,), (1,), (2,), (3,), (4,), (5,), (0, 1), (1, 2), (2, 3), (3, 4), (1, 4))


def truth(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.full(math.prod(SIZES), 0.3)).reshape(SIZES)


def summed(joint: Floats, axes: Sequence[int]) -> Floats:
    kept = sorted(axes)
    table = joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in axes))
    return table.transpose([kept.index(axis) for axis in axes])


def targets(sets: Sequence[tuple[int, ...]] = SETS, total: float = 1e5) -> list[Target]:
    return [Target(axes, total * summed(truth(), axes), np.array(1.0)) for axes in sets]


def fitted(**given: Any) -> GraphicalModel:
    return fit(SIZES, targets(), **{"total": 1e5, "strength": 1e-2, "evaluations": 300, **given})


def joint_of(model: GraphicalModel, masks: dict[tuple[int, ...], NDArray[np.bool_]] | None = None) -> Floats:
    """The normalised product of all potentials."""
    energy = np.zeros(SIZES)
    for axes, table in model.potentials.items():
        energy = energy + table.reshape([SIZES[i] if i in axes else 1 for i in range(len(SIZES))])
    for axes, allowed in (masks or {}).items():
        penalty = np.where(allowed, 0.0, -700.0)
        energy = energy + penalty.reshape([SIZES[i] if i in axes else 1 for i in range(len(SIZES))])
    weights = np.exp(energy - energy.max())
    return np.asarray(weights / weights.sum())


def test_every_marginal_is_that_of_the_product_of_potentials() -> None:
    model = fitted()
    joint = joint_of(model)
    for length in (1, 2, 3):
        for axes in itertools.permutations(range(6), length):
            assert np.allclose(model.compute_marginal(axes), summed(joint, axes), atol=1e-10)


def test_pairs_from_one_walk_are_the_marginals() -> None:
    model = fitted()
    spreader = Spreader(model.tree, model.beliefs)
    for a in range(6):
        found = spreader.compute_pairs(a)
        assert sorted(found) == [b for b in range(6) if b != a]
        for b, table in found.items():
            assert np.allclose(table, model.compute_marginal((a, b)), atol=1e-10)


def test_conditioned_tables_are_slices_of_the_joint() -> None:
    model = fitted()
    for value in range(SIZES[3]):
        held = condition_beliefs(model.tree, model.beliefs, 3, value)
        slice_ = summed(joint_of(model), (3, 0, 5))[value]
        assert np.allclose(compute_marginal(model.tree, held, (0, 5)), slice_, atol=1e-10)
    half = weight_beliefs(model.tree, model.beliefs, 1, np.full(3, 0.5))
    assert np.allclose(compute_marginal(model.tree, half, (2, 4)), model.compute_marginal((2, 4)) / 2, atol=1e-10)


def test_a_model_of_consistent_marginals_has_them() -> None:
    model = fitted()
    for target in targets():
        assert np.abs(model.compute_marginal(target.attributes) * 1e5 - target.values).max() < 1


def test_the_fit_is_as_good_as_a_thousand_plain_steps_of_mirror_descent() -> None:
    random = np.random.default_rng(3)
    noisy = [Target(t.attributes, t.values + random.normal(0, 300, t.values.shape), np.array(9e4)) for t in targets()]
    ours = fit(SIZES, noisy, total=1e5, strength=10.0, evaluations=2_000, tolerance=1e-9)
    assert ours.loss <= mirror_descent(noisy, 1e5, steps=1_000) * 1.001


def mirror_descent(noisy: Sequence[Target], total: float, *, steps: int) -> float:
    """The loss after so many steps theta <- theta - a g with backtracking, on the full joint."""
    energy, size = np.zeros(SIZES), 1 / (total**2 / 9e4)

    def at(energy: Floats) -> tuple[float, list[Floats]]:
        weights = np.exp(energy - energy.max())
        joint = weights / weights.sum()
        gaps = [total * summed(joint, t.attributes) - t.values for t in noisy]
        return sum(float((gap**2).sum()) for gap in gaps) / 18e4, gaps

    loss, gaps = at(energy)
    for _ in range(steps):
        gradient = np.zeros(SIZES)
        for t, gap in zip(noisy, gaps, strict=True):
            wide = [SIZES[i] if i in t.attributes else 1 for i in range(6)]
            gradient = gradient + (total * gap / 9e4).reshape(wide)
        while True:
            new_loss, new_gaps = at(energy - size * gradient)
            if new_loss <= loss or size < 1e-12:
                break
            size /= 2
        energy, loss, gaps = energy - size * gradient, new_loss, new_gaps
        size *= 1.6
    return loss


def test_masked_combinations_have_no_mass_and_the_rest_stays() -> None:
    allowed = np.ones((3, 4), dtype=bool)
    allowed[0, 1:] = False
    kept = truth() * allowed.reshape(1, 3, 1, 4, 1, 1)
    kept /= kept.sum()
    exact = [Target(axes, 1e5 * summed(kept, axes), np.array(100.0)) for axes in SETS]
    model = fit(SIZES, exact, total=1e5, masks={(1, 3): allowed}, strength=1.0)
    found = model.compute_marginal((1, 3))
    assert found[~allowed].max() < 1e-20
    assert np.allclose(model.compute_marginal((0, 4)), summed(joint_of(model, {(1, 3): allowed}), (0, 4)), atol=1e-10)


@given(
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=9),
    edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)), max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_every_wanted_set_lies_in_a_clique_and_the_tree_has_the_running_intersection(
    sizes: list[int], edges: list[tuple[int, int, int]]
) -> None:
    sets = [tuple(sorted({v % len(sizes) for v in edge})) for edge in edges]
    tree = build_junction_tree(sizes, sets)
    for wanted in [*sets, *[(v,) for v in range(len(sizes))]]:
        assert set(wanted) <= set(tree.cliques[tree.find_host(wanted)].attributes)
    for attribute in range(len(sizes)):
        holding = {i for i, clique in enumerate(tree.cliques) if attribute in clique.attributes}
        linked = {i for i in holding if attribute in tree.cliques[i].separator}
        assert len(holding) - len(linked) == 1  # one of them is the top, all others hang on one that holds it too
    assert count_cells(sizes, find_cliques(sizes, [build_mask(each) for each in sets])) == tree.cells


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=5), data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_projection_sums_over_all_other_axes(shape: list[int], data: st.DataObject) -> None:
    axes = tuple(range(len(shape)))
    wanted = data.draw(st.permutations(axes))[: data.draw(st.integers(0, len(shape)))]
    table = np.random.default_rng(0).random(shape)
    assert np.allclose(Projection(axes, tuple(shape), tuple(wanted))(table), summed(table, wanted))


def test_masks_are_bit_sets() -> None:
    assert list_members(build_mask([5, 0, 3])) == (0, 3, 5)


def test_no_clique_holds_what_was_not_asked_for() -> None:
    with pytest.raises(LookupError):
        build_junction_tree(SIZES, [(0, 1), (1, 2)]).find_host([0, 2])
