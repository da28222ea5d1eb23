"""The paper's mechanisms put together from the library's parts: the peers of the collect rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.decomposition import (
    Weights,
    average_decompositions,
    build_root_weights,
    build_weights,
    decompose_canonical,
    decompose_points,
    find_cheapest,
    mirror_range,
)
from benchmarks.baselines.hio_estimates import (
    compute_contributions,
    estimate_count,
    estimate_group_counts,
    estimate_joint_count,
    estimate_public_sum,
)
from benchmarks.baselines.hio_reports import draw_user_rows, report_layers, round_to_ends
from benchmarks.row import Options, Row
from siloquent.maths.local.hierarchy import Tree, build_flat_tree, build_tree

Integers = NDArray[np.int64]
Ranges = Mapping[int, tuple[int, int]]
ROUNDED = Tree(2, (2,))


def rows(options: Options) -> Iterator[Row]:
    """None: these are the peers of other rows."""
    yield from ()


def parts_of(trees: Sequence[Tree], ranges: Ranges, *, k: int | None = None) -> list[Weights]:
    """Each tree's nodes for its range: canonical ones, or the ``k`` cheapest signed decompositions (RDC)."""
    return [
        build_root_weights(one)
        if axis not in ranges
        else decompose_canonical(one, *ranges[axis])
        if k is None
        else average_decompositions(one, find_cheapest(one, *ranges[axis], k=k))
        for axis, one in enumerate(trees)
    ]


def end(which: int) -> Weights:
    """The rounded attribute is at its lower (0) or upper (1) end."""
    return build_weights(ROUNDED, {(1, which): 1})


class Hio:
    """HIO, with or without range consistency."""

    def __init__(
        self, bins: Integers, epsilon: float | Fraction, seed: int, trees: Sequence[Tree] | None = None
    ) -> None:
        self.trees = tuple(build_tree(125) for _ in range(bins.shape[1])) if trees is None else tuple(trees)
        self.reports = report_layers(self.trees, bins, epsilon=Fraction(str(epsilon)), rng=np.random.default_rng(seed))

    def count(self, ranges: Ranges, *, k: int | None = None) -> float:
        """COUNT of a conjunction of ranges of bins."""
        return estimate_count(self.reports, parts_of(self.trees, ranges, k=k))

    def sum_of_public(self, values: NDArray[np.float64], ranges: Ranges) -> float:
        """HIO-PUB: SUM of a measure that users show."""
        return estimate_public_sum(compute_contributions(self.reports, parts_of(self.trees, ranges)), values)

    def by_group(self, axis: int, ranges: Ranges) -> list[float]:
        """HIO-GROUP-BY: COUNT in each group of a sensitive attribute."""
        return estimate_group_counts(self.reports, parts_of(self.trees, ranges), axis)

    def by_shown_group(self, groups: Integers, ranges: Ranges) -> list[float]:
        """HIO-GROUP-BY: COUNT in each group of an attribute that users show."""
        shown = [(groups == one).astype(float) for one in np.unique(groups)]
        return estimate_group_counts(self.reports, parts_of(self.trees, ranges), 0, shown=shown)

    def sum(self, axis: int, values: Sequence[float], ranges: Ranges) -> float:
        """Baseline I: the sum over values of value times count."""
        parts = parts_of(self.trees, ranges)
        finest = [np.zeros(self.trees[axis].count_nodes(level)) for level in range(self.trees[axis].height)]
        parts[axis] = (*finest, np.asarray(values, dtype=float))
        return estimate_count(self.reports, parts)


class Mg:
    """Marginal release (MG): everybody reports the finest layer, ranges are added up bin by bin.

    Args:
        ends: AMG: the bounds of a measure, whose rounded copy is reported besides.
    """

    def __init__(
        self, bins: Integers, epsilon: float, seed: int, trees: Sequence[Tree], *, ends: tuple[int, int] | None = None
    ) -> None:
        rng = np.random.default_rng(seed)
        self.trees, self.ends, self.d = tuple(trees), ends, bins.shape[1]
        self.groups = rng.integers(0, self.d, len(bins)) if ends else np.zeros(len(bins), dtype=np.int64)
        self.reports = []
        for axis in range(self.d if ends else 1):
            own, own_trees = bins[self.groups == axis], self.trees
            if ends:
                up = round_to_ends(own[:, axis] + ends[0], *ends, rng=rng)
                own, own_trees = np.column_stack([own, up]), (*self.trees, ROUNDED)
            finest = [tuple(one.height for one in own_trees)]
            self.reports.append(report_layers(own_trees, own, epsilon=Fraction(str(epsilon)), rng=rng, layers=finest))

    def _points(self, ranges: Ranges) -> list[Weights]:
        whole = ((axis, ranges.get(axis, (0, one.bins - 1)), one) for axis, one in enumerate(self.trees))
        return [decompose_points(one, *range_) for _, range_, one in whole]

    def count(self, ranges: Ranges) -> float:
        """COUNT of a conjunction of ranges of bins."""
        both = [decompose_points(ROUNDED, 0, 1)] if self.ends else []
        return sum(estimate_count(own, [*self._points(ranges), *both]) for own in self.reports)

    def sum(self, axis: int, ranges: Ranges) -> float:
        """AMG: SUM of attribute ``axis``, from its group."""
        assert self.ends is not None
        low, high = (estimate_count(self.reports[axis], [*self._points(ranges), end(which)]) for which in (0, 1))
        return float(self.d * (self.ends[0] * low + self.ends[1] * high))


class SrHio:
    """SR-HIO (II): the rounded copies of all attributes as further attributes."""

    def __init__(
        self,
        bins: Integers,
        epsilon: float,
        seed: int,
        *,
        ends: Sequence[tuple[int, int]],
        trees: Sequence[Tree] | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.ends, self.d = ends, bins.shape[1]
        copies = [round_to_ends(bins[:, axis] + ends[axis][0], *ends[axis], rng=rng) for axis in range(self.d)]
        own = (build_tree(125) for _ in range(self.d)) if trees is None else trees
        self.hio = Hio(np.column_stack([bins, *copies]), epsilon, seed, (*own, *(ROUNDED for _ in range(self.d))))

    def sum(self, axis: int, ranges: Ranges) -> float:
        """SUM of attribute ``axis`` over a conjunction of ranges."""
        total = 0.0
        for which, value in enumerate(self.ends[axis]):
            parts = parts_of(self.hio.trees, ranges)
            parts[self.d + axis] = end(which)
            total += value * estimate_count(self.hio.reports, parts)
        return total


class Ahio:
    """AHIO: each user draws one attribute and reports its rounded copy besides; with HIO beside it for counts.

    Args:
        mirror: EHIO: the drawn attribute's domain is doubled instead, its half says where it was rounded to.
    """

    def __init__(
        self,
        bins: Integers,
        epsilon: float,
        seed: int,
        *,
        least: int = 1,
        most: int = 125,
        trees: Sequence[Tree] | None = None,
        measures: Sequence[int] | None = None,
        mirror: bool = False,
    ) -> None:
        rng = np.random.default_rng(seed + 77)
        d = bins.shape[1]
        self.trees = tuple(build_tree(125) for _ in range(d)) if trees is None else tuple(trees)
        self.measures = list(range(d)) if measures is None else list(measures)
        self.least, self.most, self.mirror = least, most, mirror
        group = rng.integers(0, len(self.measures), len(bins))
        self.groups = {}
        for at, axis in enumerate(self.measures):
            own = bins[group == at]
            up = round_to_ends(own[:, axis] + least, least, most, rng=rng)
            if mirror:
                doubled = own.copy()
                size = self.trees[axis].bins
                # t in least..most; mirrored t lies in 2 least - most - 1 ... least - 1, just below.
                doubled[:, axis] = np.where(up == 1, size + own[:, axis], size - 1 - own[:, axis])
                trees_of_group = [
                    Tree(2 * one.bins, (2, *one.fanouts)) if i == axis else one for i, one in enumerate(self.trees)
                ]
                self.groups[axis] = Hio(doubled, epsilon, seed + at, trees_of_group)
            else:
                self.groups[axis] = Hio(np.column_stack([own, up]), epsilon, seed + at, (*self.trees, ROUNDED))
        self.hio = Hio(bins, epsilon, seed, self.trees)

    def sum(self, axis: int, ranges: Ranges, *, k: int | None = None) -> float:
        """SUM of attribute ``axis`` over a conjunction of ranges, from its group."""
        low, high = (self._end(axis, which, ranges, k) for which in (0, 1))
        return len(self.measures) * (self.least * low + self.most * high)

    def count_of_group_sum(self, ranges: Ranges, *, k: int | None = None) -> float:
        """COUNT of the same rows, from all groups."""
        if self.mirror:
            return sum(self._end(axis, which, ranges, k) for axis in self.measures for which in (0, 1))
        return sum(
            estimate_count(hio.reports, [*parts_of(self.trees, ranges, k=k), build_root_weights(ROUNDED)])
            for hio in self.groups.values()
        )

    def _end(self, axis: int, which: int, ranges: Ranges, k: int | None) -> float:
        hio = self.groups[axis]
        if not self.mirror:
            return estimate_count(hio.reports, [*parts_of(self.trees, ranges, k=k), end(which)])
        size = self.trees[axis].bins
        low, high = ranges.get(axis, (0, size - 1))
        own = (size + low, size + high) if which else mirror_range(low + size, high + size, least=size)
        return estimate_count(hio.reports, parts_of(hio.trees, {**ranges, axis: own}, k=k))


class HioJoin:
    """HIO-JOIN: HIO of each service with its share of epsilon; counts over users' products."""

    def __init__(self, services: Sequence[tuple[Integers, Sequence[Tree]]], epsilon: float, seed: int) -> None:
        share = epsilon / len(services)
        self.services = [Hio(bins, share, seed + at, trees) for at, (bins, trees) in enumerate(services)]

    def count(self, ranges: Sequence[Ranges], *, k: int | None = None) -> float:
        """COUNT of a conjunction over all services."""
        return estimate_joint_count(
            [
                compute_contributions(hio.reports, parts_of(hio.trees, own, k=k))
                for hio, own in zip(self.services, ranges, strict=True)
            ]
        )[0]


class ScJoin:
    """SC-JOIN: every attribute of every service reported on its own, every level of it with its share of epsilon.

    Args:
        sampled: Each user reports one level of each attribute, drawn evenly, with the attribute's whole share instead.
    """

    def __init__(
        self, columns: Sequence[tuple[Integers, Tree]], epsilon: float, seed: int, *, sampled: bool = False
    ) -> None:
        self.columns: list[list[Hio1]] = []
        self.trees = [one for _, one in columns]
        if sampled:
            share = epsilon / len(columns)
            self.columns = [
                [Hio1(bins, one, range(1, one.height + 1), share, seed + 10 * at)]
                for at, (bins, one) in enumerate(columns)
            ]
            return
        for at, (bins, one) in enumerate(columns):
            share = epsilon / len(columns) / max(one.height, 1)
            self.columns.append(
                [Hio1(bins, one, [level], share, seed + 10 * at + level) for level in range(1, one.height + 1)]
            )

    def count(self, ranges: Ranges) -> float:
        """COUNT of a conjunction: the sum over users of the product over attributes."""
        product = np.ones(len(self.columns[0][0].reports.drawn))
        for axis, (low, high) in ranges.items():
            weights = decompose_canonical(self.trees[axis], low, high)
            product = product * sum(one.contributed(weights) for one in self.columns[axis])
        return float(product.sum())


class Hio1:
    """All users' reports on one level of one attribute, or on one of several."""

    def __init__(self, bins: Integers, one: Tree, levels: Sequence[int], epsilon: float, seed: int) -> None:
        self.reports = report_layers(
            (one,), bins[:, None], epsilon=Fraction(epsilon).limit_denominator(10**9),
            rng=np.random.default_rng(seed), layers=[(level,) for level in levels],
        )  # fmt: skip

    def contributed(self, weights: Weights) -> NDArray[np.float64]:
        """What each user adds, through these levels' nodes."""
        return compute_contributions(self.reports, [weights])


class DoubleRounding:
    """tau-truncation: tau rows a user, each with a rounded weight and a rounded value, one attribute of four values."""

    def __init__(
        self, first: Integers, first_trees: Sequence[Tree], ends: Integers, places: Integers, size: int,
        epsilon: float, seed: int, *, most_rows: int, tau: int = 1,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        own, share = (build_tree(size),), Fraction(str(epsilon)) / (1 + tau)
        self.most_weight, self.size = most_rows / tau, size
        self.first = Hio(first, share, seed + 1, first_trees)
        self.second = []
        for at in range(tau):
            rows_, count_ = draw_user_rows(ends, places, trees=own, rng=rng, most_rows=most_rows)
            up_weight = round_to_ends(count_, 0, most_rows, rng=rng)  # count / tau, of most_rows / tau
            up_value = round_to_ends(rows_[:, 0] + 1, 1, size, rng=rng)
            reported = np.column_stack([rows_, 2 * up_weight + up_value])
            self.second.append(Hio(reported, share, seed + 2 + at, (*own, build_flat_tree(4))))

    def answer(self, first: Ranges, second: Ranges) -> tuple[float, float]:
        """COUNT, and SUM of value + 1, over the join."""
        known = compute_contributions(self.first.reports, parts_of(self.first.trees, first))
        ends = [0.0, 0.0]
        for one in self.second:
            for which in (2, 3):  # weight at its upper end; value at its lower, upper one
                parts = parts_of(one.trees, {**second, 1: (which, which)})
                ends[which - 2] += estimate_joint_count([known, compute_contributions(one.reports, parts)])[0]
        return self.most_weight * sum(ends), self.most_weight * (ends[0] + self.size * ends[1])
