"""The paper's perturbations for many simulated users at once, as a baseline for ours."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.decomposition import iter_layers
from benchmarks.baselines.hio_spec import HashedReports
from siloquent.collect.plan.thresholds import compute_truth_threshold
from siloquent.maths.local.frequency_oracles import Oracle, choose_size
from siloquent.maths.local.hierarchy import Tree
from siloquent.privacy.noise.local import SYSTEM, HashDistribution, draw_hashes

Integers = NDArray[np.int64]


def report_layers(
    trees: Sequence[Tree],
    bins: Integers,
    *,
    epsilon: Fraction,
    rng: np.random.Generator,
    layers: Sequence[tuple[int, ...]] | None = None,
) -> HashedReports:
    """Perturb by HIO: each user on a layer drawn evenly, the node there by optimised local hashing.

    Args:
        bins: Each user's bin on every tree, shape (users, trees).
        layers: The layers to use, by default all; MG uses only the finest.
    Privacy:
        Local, pure epsilon-DP in each user's bins.
    Source:
        "Collecting and Analyzing Data Jointly from Multiple Services under Local Differential Privacy" (PVLDB 2020),
        section 3; HIO from "Answering Multi-Dimensional Analytical Queries under Local Differential Privacy" (SIGMOD
        2019).
    """
    chosen = tuple(iter_layers(trees)) if layers is None else tuple(layers)
    size = choose_size("hash", 2, float(epsilon))
    truth = compute_truth_threshold("hash", 2, size, epsilon=epsilon)
    drawn = rng.integers(0, len(chosen), len(bins))
    columns = np.empty((len(bins), 3), dtype=np.int64)
    for at, levels in enumerate(chosen):
        mine = np.flatnonzero(drawn == at)
        nodes, count = np.zeros(len(mine), dtype=np.int64), 1
        for axis, (tree, level) in enumerate(zip(trees, levels, strict=True)):
            nodes = nodes * tree.count_nodes(level) + bins[mine, axis] // (tree.bins // tree.count_nodes(level))
            count *= tree.count_nodes(level)
        columns[mine] = draw_hashes(nodes, HashDistribution(max(count, 2), size, truth), source=SYSTEM)
    return HashedReports(tuple(trees), chosen, drawn, columns, Oracle("hash", 2, size, truth / 2**64))


def round_to_ends(values: Integers, least: int, most: int, *, rng: np.random.Generator) -> Integers:
    """Return 1 for the upper end with probability (t - least) / (most - least), else 0: unbiased.

    Privacy:
        None by itself: an oracle reports the rounded value.
    """
    return (rng.random(len(values)) * (most - least) < values - least).astype(np.int64)


def draw_user_rows(
    ends: Integers, places: Integers, *, trees: Sequence[Tree], rng: np.random.Generator, most_rows: int = 2**62
) -> tuple[Integers, Integers]:
    """Draw one row of each user evenly, with the number of the user's rows; users without any get a random row.

    tau rows of tau-truncation are that many such draws. Of users with more than ``most_rows``, the first are kept.

    Returns:
        Rows, shape (users, attributes), and counts, shape (users,).
    Privacy:
        None by itself: an oracle reports row and weight.
    """
    counts = np.minimum(np.diff(ends), most_rows)
    at = ends[:-1] + np.minimum((rng.random(len(counts)) * np.maximum(counts, 1)).astype(np.int64), counts - 1)
    chance = np.column_stack([rng.integers(0, tree.bins, len(counts)) for tree in trees])
    picked = places[np.maximum(np.minimum(at, len(places) - 1), 0)]
    return np.where((counts > 0)[:, None], picked, chance), counts
