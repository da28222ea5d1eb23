"""Exact comparison of a synthetic table with the true one, for the owner only. Nothing here is private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.estimate.enforce.counts import count_violations
from siloquent.synth.estimate.report.classifiers import NAMES, train_classifiers

if TYPE_CHECKING:
    from siloquent.synth.spec.compiled import CompiledConstraints, Violations

Cells = NDArray[np.integer]
Integers = NDArray[np.int64]
BINS = 16
TESTED = 0.3
"""The share of the true rows on which classifiers are tested, as in the thesis."""


@dataclass(frozen=True, slots=True)
class MarginalDistance:
    """The total variation distance of one set of columns: half of the summed absolute differences of shares."""

    columns: tuple[str, ...]
    distance: float


@dataclass(frozen=True, slots=True)
class ClassifierAccuracy:
    """The accuracy of a classifier of ``target`` on true rows: trained on the output, and on other true rows."""

    target: str
    classifier: str
    on_output: float
    on_truth: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Exact figures; ``broken`` holds each constraint's number and the violations of the output and of the truth."""

    rows: int
    true_rows: int
    ones: tuple[MarginalDistance, ...]
    pairs: tuple[MarginalDistance, ...]
    broken: tuple[tuple[int, Violations, Violations], ...]
    right: tuple[ClassifierAccuracy, ...]


def evaluate(made: Cells, true: Cells, compiled: CompiledConstraints, targets: Sequence[str]) -> Evaluation:
    """Return the figures of the benchmark's protocol: distances in 16 bins, broken pairs, classifiers.

    Args:
        made, true: Cells of ``compiled.attributes``, shape (rows, attributes); values outside the domain are -1.
        targets: Columns that classifiers predict from all others, in the same bins.
    """
    names = compiled.attributes
    binned = [_bin_columns(made[:, i], true[:, i], compiled, i) for i in range(len(names))]
    sizes = tuple(size for _, _, size in binned)
    ours, theirs = (np.stack([each[side] for each in binned], axis=1) for side in (0, 1))
    ones = tuple(MarginalDistance((names[i],), _compute_distance(ours, theirs, (i,), sizes)) for i in range(len(names)))
    pairs = tuple(
        MarginalDistance((names[a], names[b]), _compute_distance(ours, theirs, (a, b), sizes))
        for a, b in combinations(range(len(names)), 2)
    )
    counted = [count_violations(rows[(rows >= 0).all(axis=1)], compiled, one_way=False) for rows in (made, true)]
    broken = tuple((number, counted[0][number], counted[1][number]) for number in counted[0])
    right = tuple(line for name in targets for line in _score_classifiers(ours, theirs, names.index(name), sizes, name))
    return Evaluation(len(made), len(true), ones, pairs, broken, right)


def _bin_columns(made: Cells, true: Cells, compiled: CompiledConstraints, place: int) -> tuple[Integers, Integers, int]:
    """Return both columns in the same bins, and their number: for numbers, 16 equal bins over the true range."""
    attribute, size = compiled.declared[place], compiled.sizes[place]
    if not (attribute.is_numeric or attribute.is_temporal) or size <= BINS:
        return made.astype(np.int64) + 1, true.astype(np.int64) + 1, size + 1
    inside = true[(true >= 0) & (true < attribute.steps)]
    low, high = (int(inside.min()), int(inside.max()) + 1) if len(inside) else (0, attribute.steps)

    def bins(cells: Cells) -> Integers:
        scaled = (cells.astype(np.int64) - low) * BINS // (high - low)
        known = np.clip(scaled, 0, BINS - 1) + 1
        # NULL, the cell of other values, and values outside the domain keep their own bins.
        return np.where(cells < 0, 0, np.where(cells >= attribute.steps, BINS + 1 + cells - attribute.steps, known))

    return bins(made), bins(true), BINS + 1 + size - attribute.steps


def _compute_distance(ours: Integers, theirs: Integers, axes: tuple[int, ...], sizes: Sequence[int]) -> float:
    shares = []
    for rows in (ours, theirs):
        code = np.zeros(len(rows), dtype=np.int64)
        for axis in axes:
            code = code * sizes[axis] + rows[:, axis]
        length = int(np.prod([sizes[axis] for axis in axes]))
        shares.append(np.bincount(code, minlength=length) / max(len(rows), 1))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _score_classifiers(
    ours: Integers, theirs: Integers, target: int, sizes: tuple[int, ...], name: str
) -> list[ClassifierAccuracy]:
    order = np.random.default_rng(0).permutation(len(theirs))
    tested, rest = np.split(order, [max(1, round(TESTED * len(order)))])
    asked = theirs[tested]
    on_output = train_classifiers(ours, target, sizes, seed=0).count_right(asked) / len(asked)
    on_truth = (
        train_classifiers(theirs[rest], target, sizes, seed=0).count_right(asked) / len(asked)
        if len(rest)
        else on_output
    )
    return [ClassifierAccuracy(name, *each) for each in zip(NAMES, on_output.tolist(), on_truth.tolist(), strict=True)]
