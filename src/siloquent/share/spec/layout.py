"""The counts of each method: one integer vector per silo, its parts, and the sensitivity to one record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import build_joint_release, compute_moments, round_into_ball
from siloquent.maths.sensitivity.joint import JointRelease
from siloquent.maths.sensitivity.record_pairs import RecordPairs
from siloquent.share.spec.encoding import Encoding, Integers

SHARES = (2, 18, 80)
"""The percentages of the price for count, sums and second moments of "moments": the last have most of the noise."""


STEPS = 511
"""The whole steps from 0 to the ball's radius in "moments": fine enough for forty numbers, and noise can be drawn."""


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """A run of ``length`` numbers with one price; ``l1``, ``l2_squared`` bound the change by one unit.

    ``percent`` of the price buys it. ``halved``: the number of entries at its end that need only half the variance,
    since ``l2_squared`` counts each of them twice.
    """

    name: str
    length: int
    l1: int
    l2_squared: int
    percent: int = 100
    halved: int = 0


@dataclass(frozen=True, eq=False)
class Layout:
    """The vector of one method over one encoding.

    marginals: label x bin for each feature. gram: pairs of bins of different features, then for two classes bins, bins
    weighted with the label as +-1, and the label's sum; otherwise label x bin. moments: count, sums, squares, products.
    """

    method: str
    encoding: Encoding

    @cached_property
    def pairs(self) -> NDArray[np.bool_]:
        """The products of two codes (columns, columns) that are counted: each pair of different features once."""
        blocks = self.encoding.blocks
        return np.asarray(blocks[:, None] < blocks[None, :])

    @property
    def is_signed(self) -> bool:
        """Whether gram counts the label as +-1: two classes."""
        return self.encoding.classes == 2 and not self.encoding.is_regression

    @property
    def dimensions(self) -> int:
        """The dimensions of "moments": numbers, cells of categories, and the label."""
        return len(self.encoding.numeric) + len(self._cells) + 1

    @property
    def nonzero(self) -> int:
        """The number of dimensions that a record can fill: one per feature, and the label."""
        return len(self.encoding.features) + 1

    @cached_property
    def _cells(self) -> Integers:
        """The codes of non-numeric features."""
        categories = np.setdiff1d(np.arange(len(self.encoding.features)), self.encoding.numeric)
        return np.flatnonzero(np.isin(self.encoding.blocks, categories))

    def list_lengths(self) -> tuple[int, ...]:
        """Return the lengths of the vector's parts, in order."""
        columns, classes = self.encoding.columns, self.encoding.classes
        if self.method == "marginals":
            return (classes * columns,)
        if self.method == "gram":
            rest = (columns, columns, 1) if self.is_signed else (classes * columns,)
            return (int(self.pairs.sum()), *rest)
        d = self.dimensions
        return (1, d, d, d * (d - 1) // 2)

    @property
    def length(self) -> int:
        """The length of the whole vector."""
        return sum(self.list_lengths())

    def build_blocks(self, *, records: int, replaced: bool) -> tuple[VectorBlock, ...]:
        """Build the vector's runs with their sensitivity to units of ``records`` records, added, removed or replaced.

        A record adds 1 to one cell of each counted table and, where signed, +-1 to one cell per feature and to the
        sum. With replacement, signed cells may change sign: two records without a common bin differ by 2 only in the
        sum.
        """
        if self.method == "moments":
            return self._build_moment_blocks(records, replaced)
        touched = self._count_touched()
        signed = self.method == "gram" and self.is_signed
        squared = touched if not replaced else 2 * touched + (2 if signed else 0)
        return (VectorBlock(self.method, self.length, (1 + replaced) * records * touched, records**2 * squared),)

    def _count_touched(self) -> int:
        """Count the cells that one record changes by 1."""
        features = len(self.encoding.features)
        if self.method == "marginals":
            return features
        pairs = features * (features - 1) // 2
        return pairs + (2 * features + 1 if self.is_signed else features)

    def build_moments_release(self, *, records: int, replaced: bool) -> JointRelease:
        """Build the joint sensitivity of count, sums and second moments to one unit."""
        return build_joint_release(
            self.nonzero,
            math.sqrt(self.nonzero),
            records=records,
            replaced=replaced,
            quanta=STEPS,
            chosen=len(self.encoding.features) - len(self.encoding.numeric),
            pairs=self._pairs,
        )

    @cached_property
    def _pairs(self) -> RecordPairs | None:
        """All possible records of "moments", None where they are too many."""
        sizes = (*(attribute.size for attribute in self.encoding.features), self.encoding.label.steps)
        if not RecordPairs.can_enumerate(math.prod(sizes), self.dimensions):
            return None
        places = np.indices(sizes).reshape(len(sizes), -1).T
        return RecordPairs(
            round_into_ball(self.compute_numbers(places[:, :-1], places[:, -1]), math.sqrt(self.nonzero), STEPS)
        )

    def _build_moment_blocks(self, records: int, replaced: bool) -> tuple[VectorBlock, ...]:
        """Build each order separately, as the price of a sum of several silos requires."""
        release = self.build_moments_release(records=records, replaced=replaced)
        _, _, squares, products = self.list_lengths()
        lengths, halved = (1, self.dimensions, squares + products), (0, 0, products)
        moved = []
        for order in range(3):
            alone = [Fraction(i == order) for i in range(3)]
            squared = release.bound_change(tuple(alone[i] or None for i in range(3)))
            moved.append((math.ceil(release.bound_l1_change(tuple(one or None for one in alone))), math.ceil(squared)))
        names = ("count", "sums", "second moments")
        return tuple(
            VectorBlock(name, length, l1, l2, share, half)
            for name, length, (l1, l2), share, half in zip(names, lengths, moved, SHARES, halved, strict=True)
        )

    def count(self, places: Integers) -> Integers:
        """Count the exact vector of rows of indices (rows, features + 1), the label last; skip rows outside."""
        places = places[self.encoding.find_inside(places)]
        features, label = places[:, :-1], places[:, -1]
        if self.method == "moments":
            return self._compute_moments(features, label)
        codes, classes = self.encoding.compute_codes(features), self.encoding.find_classes(label)
        if self.method == "marginals":
            return self._count_tables(codes, classes)
        hot = self.encoding.encode_one_hot(codes)
        pairs = (hot.T @ hot)[self.pairs].astype(np.int64)  # doubles represent integers up to 2^53 exactly
        if not self.is_signed:
            return np.concatenate([pairs, self._count_tables(codes, classes)])
        sign = 2 * classes - 1
        ones, weighted = (self._count_weighted(codes, weight) for weight in (np.ones_like(sign), sign))
        return np.concatenate([pairs, ones, weighted, [sign.sum()]]).astype(np.int64)

    def _count_tables(self, codes: Integers, classes: Integers) -> Integers:
        cells = classes[:, None] * self.encoding.columns + codes
        return np.bincount(cells.ravel(), minlength=self.encoding.classes * self.encoding.columns).astype(np.int64)

    def _count_weighted(self, codes: Integers, weight: Integers) -> Integers:
        weights = np.repeat(weight, codes.shape[1])
        return np.bincount(codes.ravel(), weights=weights, minlength=self.encoding.columns).astype(np.int64)

    def _compute_moments(self, features: Integers, label: Integers) -> Integers:
        whole = round_into_ball(self.compute_numbers(features, label), math.sqrt(self.nonzero), STEPS)
        count, sums, second = compute_moments(whole)
        upper = second[np.triu_indices(self.dimensions, 1)]
        return np.concatenate([[count], sums, np.diag(second), upper]).astype(np.int64)

    def compute_numbers(self, features: Integers, label: Integers | None = None) -> NDArray[np.float64]:
        """Return the dimensions of "moments": numbers in -1 to 1, cells as 0 or 1, then any label in -1 to 1."""
        encoding = self.encoding
        hot = encoding.encode_one_hot(encoding.compute_codes(features))[:, self._cells]
        if label is None:
            return np.hstack([encoding.compute_numbers(features), hot])
        value = encoding.compute_target(label) if encoding.is_regression else 2.0 * label - 1
        return np.hstack([encoding.compute_numbers(features), hot, np.asarray(value, dtype=np.float64)[:, None]])

    def to_design(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert weights over ``numbers`` (dimensions - 1,) to the encoding's design (columns + numbers,)."""
        count, columns = len(self.encoding.numeric), self.encoding.columns
        made = np.zeros(columns + count)
        made[columns:] = weights[:count]
        made[self._cells] = weights[count:]
        return made
