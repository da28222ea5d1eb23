"""People who clean pairs of records by asking private questions: the cleaner model of the APEx thesis, section 3.6.2.

A cleaner draws predicates "similarity > threshold" and keeps some of them, blocking by OR and matching by AND. Two ways
to ask: values (BS1, MS1), or top-k and iceberg questions (BS2, MS2). Questions end when a price no longer fits.

Ours, where the thesis leaves it open: the figure of "keeps and drops" for matching (uniform in .8...95 and .2...5); one
question for both totals comes first; before each predicate nothing is asked twice; after four rounds without a kept
predicate a cleaner gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.entities import ATTRIBUTES, ON_SETS, SIMILARITIES, TRANSFORMS, Column, Pairs

Strategy = Literal["BS1", "BS2", "MS1", "MS2"]
Draw = Callable[[int], NDArray[np.float64]]
ROUNDS = 4


class OutOfBudget(Exception):
    """The next price does not fit."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one question costs under an accountant, and the noise that its answers carry."""

    price: float
    draw: Draw


@dataclass(frozen=True, slots=True)
class Market:
    """Prices and noise of the four questions that cleaners ask, all within the same error bound.

    Attributes:
        nulls: How many pairs lack each attribute: four overlapping counts.
        top: The k attributes that the fewest pairs lack, in order, by k.
        values: Two disjoint counts.
        above: Whether one count is above a threshold.
    """

    alpha: float
    nulls: Offer
    top: dict[int, Offer]
    values: Offer
    above: Offer


@dataclass(slots=True)
class Purse:
    """What is left to spend."""

    left: float

    def pay(self, offer: Offer, count: int) -> NDArray[np.float64]:
        """The noise of ``count`` answers, if the price fits."""
        if offer.price > self.left:
            raise OutOfBudget
        self.left -= offer.price
        return offer.draw(count)


@dataclass(slots=True)
class Cleaner:
    """One person at work on ``pairs``; ``random`` decides on habits, never on noise."""

    pairs: Pairs
    strategy: Strategy
    market: Market
    purse: Purse
    random: np.random.Generator
    kept: NDArray[np.bool_] = field(init=False)
    lean: float = 0.0
    totals: NDArray[np.float64] = field(init=False)
    remaining: NDArray[np.float64] = field(init=False)

    def work(self) -> float:
        """Recall of the blocking, or F1 of the matching, when the money or the predicates have run out."""
        blocks = self.strategy.startswith("B")
        self.kept = np.full(len(self.pairs.match), not blocks)
        with suppress(OutOfBudget):
            self._choose(blocks)
        caught = int((self.kept & self.pairs.match).sum())
        if blocks:
            return caught / int(self.pairs.match.sum())
        return 2 * caught / (int(self.kept.sum()) + int(self.pairs.match.sum()))

    def _choose(self, blocks: bool) -> None:
        habits = self.random
        predicates = self._predicates(self._attributes(int(habits.integers(2, 5))))
        self.lean = float(habits.choice([-1, 0, 1])) * self.market.alpha / 5
        least, most = (
            (habits.uniform(0.2, 0.5), habits.uniform(0.1, 0.2))
            if blocks
            else (habits.uniform(0.8, 0.95), 1 - habits.uniform(0.2, 0.5))
        )
        relax = int(habits.integers(2, 4))
        self.totals = self.remaining = np.maximum(self._values(np.ones(len(self.pairs.match), dtype=bool)), 1.0)
        step = self._block if blocks else self._match
        for _ in range(ROUNDS):
            if sum([step(self._holds(*predicate), least, most) for predicate in predicates]):
                return
            least, most = (least / relax, min(1.0, most * relax))

    def _attributes(self, count: int) -> list[str]:
        """The attributes with the fewest NULLs: read off counts, or asked as a top-k question."""
        exact = np.array([self.pairs.missing[name].sum() for name in ATTRIBUTES], dtype=float)
        offer = self.market.nulls if self.strategy.endswith("1") else self.market.top[min(count, 3)]
        noisy = exact + self.purse.pay(offer, len(exact))
        return [ATTRIBUTES[i] for i in np.argsort(noisy, kind="stable")[:count]]

    def _predicates(self, attributes: list[str]) -> list[tuple[Column, float]]:
        habits = self.random
        transforms = habits.choice(TRANSFORMS, size=habits.integers(1, 4), replace=False)
        similarities = habits.choice(SIMILARITIES, size=habits.integers(2, 7), replace=False)
        thresholds = np.linspace(habits.uniform(0, 0.5), habits.uniform(0.5, 1), int(habits.integers(2, 7)))
        columns = {
            (name, str(transform) if similarity in ON_SETS else "", str(similarity))
            for name in attributes
            for transform in transforms
            for similarity in similarities
        }
        there = sorted(columns & set(self.pairs.columns))
        found = [(column, float(threshold)) for column in there for threshold in thresholds]
        return [found[i] for i in habits.permutation(len(found))]

    def _holds(self, column: Column, threshold: float) -> NDArray[np.bool_]:
        return self.pairs.columns[column] > threshold  # a NULL is no answer, and NaN is above nothing

    def _counts(self, of: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Exact numbers of matches and of other pairs."""
        matches = int((of & self.pairs.match).sum())
        return np.array([matches, int(of.sum()) - matches], dtype=float)

    def _values(self, of: NDArray[np.bool_]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._counts(of) + self.purse.pay(self.market.values, 2) + self.lean
        return found

    def _above(self, exact: float, threshold: float) -> bool:
        return bool(exact + self.purse.pay(self.market.above, 1)[0] > threshold)

    def _block(self, holds: NDArray[np.bool_], least: float, most: float) -> bool:
        """Add a predicate that catches enough of the remaining matches and few of the other remaining pairs."""
        new, remaining, cutoff = holds & ~self.kept, self.remaining, 1.25 * self.totals[0]
        if self.strategy == "BS1":
            caught = self._values(new)
            good = caught[0] >= least * remaining[0] and caught[1] <= most * remaining[1]
            good = good and (self.totals - remaining + caught).sum() <= cutoff
        else:
            exact = self._counts(new)
            good = self._above(exact[0], least * remaining[0]) and not self._above(exact[1], most * remaining[1])
            good = good and not self._above(float((self.kept | holds).sum()), cutoff)
        if good:
            self.kept = self.kept | holds
            self.remaining = np.maximum(remaining - caught if self.strategy == "BS1" else self._values(~self.kept), 1.0)
        return bool(good)

    def _match(self, holds: NDArray[np.bool_], least: float, most: float) -> bool:
        """Add a predicate that keeps enough of the kept matches and few of the other kept pairs."""
        both, before = holds & self.kept, self.remaining
        if self.strategy == "MS1":
            after = self._values(both)
            good = after[0] >= least * before[0] and after[1] <= most * before[1]
        else:
            exact = self._counts(both)
            good = self._above(exact[0], least * before[0]) and not self._above(exact[1], most * before[1])
        if good:
            self.kept = both
            self.remaining = np.maximum(after if self.strategy == "MS1" else self._values(both), 1.0)
        return bool(good)
