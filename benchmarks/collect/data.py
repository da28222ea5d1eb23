"""The paper's synthetic tables, a census-like one, and how a simulated collection answers; no rows of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from benchmarks.row import Options, Row
from siloquent.collect import (
    AttributeRole,
    CollectAnswer,
    Collection,
    CollectionSpec,
    Rows,
    Service,
    parse_query,
    perturb_all,
)
from siloquent.collect.estimate import answer, find_channels
from siloquent.collect.measure.tally import Tally, tally
from siloquent.maths.blas import limit_to_one_thread
from siloquent.schema import Attribute

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def rows(options: Options) -> Iterator[Row]:
    """None: this module is what the others share."""
    yield from ()


def syn1(seed: int, users: int, *, m: int = 125, d: int = 2) -> Integers:
    """SYN-1: d correlated ordinal attributes of m values, shape (users, d)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(m / 2, m / 4, users)
    table = np.empty((users, d), dtype=np.int64)
    table[:, 0] = np.clip(np.rint(x), 0, m - 1)
    for j in range(1, d):
        table[:, j] = np.clip(np.rint(x + rng.normal(0, 10, users)), 0, m - 1)
    return table


def syn2(seed: int, users: int) -> tuple[Integers, Integers]:
    """SYN-2, 1-to-1: (A1, C1) of one service, (A2,) of the other."""
    rng = np.random.default_rng(seed)
    a1 = np.clip(np.rint(rng.normal(12.5, 6.25, users)), 0, 24).astype(np.int64)
    c1 = np.minimum(rng.geometric(0.25, users) - 1, 19)
    a2 = np.clip(np.rint(a1 + rng.normal(0, 3, users)), 0, 24).astype(np.int64)
    return np.column_stack([a1, c1]), a2[:, None]


def syn2_many(seed: int, users: int, *, most: int = 10) -> tuple[Integers, Rows]:
    """SYN-2, 1-to-many: (A1, C1) of one service; none to ``most`` rows (A2,) of the other."""
    rng = np.random.default_rng(seed)
    a1 = np.clip(np.rint(rng.normal(12.5, 6.25, users)), 0, 24).astype(np.int64)
    c1 = np.minimum(rng.geometric(0.25, users) - 1, 19)
    count = rng.integers(0, most + 1, users)
    own = np.repeat(a1, count)
    a2 = np.clip(np.rint(own + rng.normal(0, 3, len(own))), 0, 24).astype(np.int64)
    return np.column_stack([a1, c1]), Rows(a2[:, None], np.r_[0, np.cumsum(count)])


def ordinal(
    name: str, size: int, *, lo: int = 0, use: str = "both", resolution: int | None = None, ends: bool = False
) -> AttributeRole:
    """An ordinal attribute that every row has; ``ends``: those outside were moved to its ends, which stand alone."""
    bounds = {"lo": Decimal(lo), "hi": Decimal(lo + size - 1), "grid": Decimal(1)}
    attribute = Attribute(name, "integer", outside="clamp", null="value", null_value=lo, **bounds)  # type: ignore[arg-type]
    return AttributeRole(attribute, use, resolution, alone=(lo, lo + size - 1) if ends else ())  # type: ignore[arg-type]


def categorical(name: str, size: int) -> AttributeRole:
    """A categorical attribute that every row has; values "0", "1", ..., then cells that nobody is in."""
    values = tuple(str(value) for value in range(size - 1))
    return AttributeRole(Attribute(name, "category", values=values, other="cell", null="value", null_value=values[0]))


def one_service(roles: Sequence[AttributeRole], epsilon: str, *, scope: str = "pairs") -> CollectionSpec:
    """A collection of one service in which everyone has one row."""
    return CollectionSpec("b", (Service("t", tuple(roles), everyone=True),), epsilon, scope=scope)  # type: ignore[arg-type]


class Simulated:
    """One simulated collection: everyone has reported, tallies are counted when they are asked for."""

    def __init__(self, collection: Collection, people: Sequence[Rows]) -> None:
        self.collection = collection
        self._batches = perturb_all(collection, people)
        self._tallies: dict[tuple[int, ...], Tally] = {}

    def ask(self, sql: str) -> CollectAnswer:
        """The answer to a question in SQL."""
        query = parse_query(sql, self.collection.spec)
        channels = find_channels(self.collection, query)
        if channels not in self._tallies:
            self._tallies[channels] = tally(self.collection, [self._batches[at] for at in channels])
        with limit_to_one_thread():
            return answer(self.collection, query, self._tallies[channels])


def nmse(estimates: Sequence[float], truths: Sequence[float], bound: float) -> float:
    """The mean square error as a share of the bound's square."""
    return float(np.mean(np.square(np.array(estimates) - np.array(truths)))) / bound**2
