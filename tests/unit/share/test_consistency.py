"""Counts of a tree that fit together and are not negative, against a solver, and on trees that no solver takes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import nnls

from siloquent.share.estimate.consistency import make_consistent, round_rows

Levels = list[np.ndarray]


def random_tree(seed: int) -> tuple[Levels, Levels, Levels]:
    """Noisy counts, weights and parents of a tree of three levels."""
    random = np.random.default_rng(seed)
    first = int(random.integers(1, 5))
    children = random.integers(1, 6, first)
    parents = [np.zeros(first, dtype=np.int64), np.repeat(np.arange(first), children)]
    counts = [random.normal(20, 15, n) for n in (1, first, int(children.sum()))]
    weights = [np.full(len(count), random.uniform(0.1, 3)) for count in counts]
    weights[2] = random.uniform(0.1, 3, len(counts[2]))
    return counts, weights, parents


def design(parents: Levels) -> np.ndarray:
    """Every count of the tree as a sum of leaves, shape (nodes, leaves)."""
    leaves = np.eye(len(parents[1]))
    middle = np.zeros((len(parents[0]), len(parents[1])))
    np.add.at(middle, parents[1], leaves)
    return np.vstack([middle.sum(axis=0, keepdims=True), middle, leaves])


@pytest.mark.parametrize("seed", range(12))
def test_consistent_counts_are_the_nearest_that_are_not_negative(seed: int) -> None:
    counts, weights, parents = random_tree(seed)
    counts[-1] -= 12  # so that the bound matters
    root = np.sqrt(np.concatenate(weights))
    solved, _ = nnls(design(parents) * root[:, None], np.concatenate(counts) * root)
    found = make_consistent(counts, weights, parents)
    assert np.allclose(found[-1], solved, atol=1e-7)
    assert found[-1].min() >= 0
    for parent, above, below in zip(parents, found[:-1], found[1:], strict=True):
        assert np.allclose(np.bincount(parent, weights=below, minlength=len(above)), above, atol=1e-6)


def test_a_large_tree_is_solved_exactly() -> None:
    """60,000 leaves, most of them noise: at the optimum no leaf above 0 wants to change, and none at 0 to rise."""
    random = np.random.default_rng(5)
    nodes = (1, 8, 70, 60_000)
    parents = [np.sort(random.integers(0, above, below)) for above, below in pairwise(nodes)]
    counts = [random.normal(1000 / n, 20, n) for n in nodes]
    weights = [np.full(n, 1 / n) for n in nodes]
    found = make_consistent(counts, weights, parents)
    slope = np.zeros(1)
    for level, parent in enumerate(parents):
        slope = (slope + 2 * weights[level] * (found[level] - counts[level]))[parent]
    slope = slope + 2 * weights[-1] * (found[-1] - counts[-1])
    assert abs(slope[found[-1] > 0]).max() < 1e-8
    assert slope[found[-1] == 0].min() > -1e-8
    assert abs(found[0][0] - 1000) < 100  # a root of weight 1 keeps its count; noise does not add up


def test_whole_rows_keep_the_mean() -> None:
    drawn = round_rows(np.full(100_000, 2.25), np.random.default_rng(0))
    assert set(np.unique(drawn)) == {2, 3}
    assert abs(drawn.mean() - 2.25) < 6 * 0.433 / np.sqrt(100_000)
