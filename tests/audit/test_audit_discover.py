"""Discovery as a black box: a unit of keys of its own, one among others, and the faults that a threshold invites."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.data.units.distinct_keys import KeyCounts
from siloquent.discover import BoundsPlan, BoundsSpec, KeysPlan, KeysSpec, plan
from siloquent.discover.measure import measure_bounds, measure_keys
from siloquent.privacy import DiscreteGaussian, convert_zcdp_to_epsilon
from siloquent.privacy.budget import Budget
from unit.discover.tables import ROW, USER, schema

pytestmark = pytest.mark.statistical
Counts = dict[str, int]
REPORT, DELTA, MANY = 1e-3, Fraction(1, 100), 60_000
LOOSE = 'accountant = "zcdp"\nrho = "100"\ndelta = "0.2"\ndelta_events = "0.1"'


@dataclass(frozen=True)
class ManyTables:
    """``n`` tables of the same counts side by side: each run's keys bear its number, and get noise of their own."""

    counts: Counts
    n: int

    def count_units_by_key(self, column: str, permit: object, *, keys_each: int) -> Iterator[KeyCounts]:
        keys = [f"{key}/{run}" for run in range(self.n) for key in self.counts]
        yield KeyCounts(pa.array(keys, pa.large_string()), np.array([*self.counts.values()] * self.n, dtype=np.int64))


def planned(keys_each: int = 1, adjacency: str = "add-remove", rho: str = "0.5") -> KeysPlan:
    spec = KeysSpec("visits", "diagnosis", Budget(rho=rho), keys_each=keys_each, delta=DELTA)
    return cast(KeysPlan, plan(spec, schema(budget=LOOSE, unit=USER, adjacency=adjacency)))


def release(found: KeysPlan) -> Callable[[Counts, int], NDArray[np.int64]]:
    """Which of the keys a, b, .. h each run shows."""

    def run(counts: Counts, n: int) -> NDArray[np.int64]:
        shown = np.zeros((n, 8), dtype=np.int64)
        for start in range(0, n, 10_000):
            size = min(10_000, n - start)
            payload = measure_keys(found, cast(Any, ManyTables(counts, size)), cast(Any, None))
            for key in json.loads(payload)["keys"]:
                name, _, number = key.partition("/")
                shown[start + int(number), "abcdefgh".index(name)] = 1
        return shown

    return run


def claim(found: KeysPlan) -> dict[str, Any]:
    rho = found.event.l2_squared / (2 * float(found.event.variance))
    epsilon = convert_zcdp_to_epsilon(rho, REPORT)
    return {"epsilon": epsilon, "delta": REPORT + float(found.event.delta), "n": MANY}


def held(keys: str, units: int = 1) -> Counts:
    return dict.fromkeys(keys, units)


@pytest.mark.parametrize("keys_each", [1, 3])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_keys_keep_their_claim(keys_each: int, adjacency: str) -> None:
    found = planned(keys_each, adjacency)
    t = found.event.threshold
    own = "abc"[:keys_each]
    other = {} if adjacency == "add-remove" else held("fgh"[:keys_each])
    for one, two in (
        (held(own), other),
        (held(own, t), held(own, t - 1) | ({} if adjacency == "add-remove" else held("fgh"[:keys_each]))),
    ):
        assert_private(release(found), (one, two), **claim(found))


def test_a_threshold_that_is_one_lower_is_caught() -> None:
    found = planned()
    low = replace(found, event=replace(found.event, threshold=found.event.threshold - 1))
    assert_caught(release(low), (held("a"), {}), **claim(found))


def test_a_unit_that_counts_for_all_its_keys_is_caught() -> None:
    found = planned()
    t = found.event.threshold
    assert_caught(release(found), (held("abcdefgh", t), held("abcdefgh", t - 1)), **claim(found))


def test_noise_for_one_key_where_a_unit_has_eight_is_caught() -> None:
    found = planned(8)
    low = replace(found, event=replace(found.event, variance=found.event.variance / 8))
    t = found.event.threshold
    assert_caught(release(low), (held("abcdefgh", t), held("abcdefgh", t - 1)), **claim(found))


def test_keys_without_noise_are_caught() -> None:
    found = planned()
    low = replace(found, event=replace(found.event, variance=Fraction(1, 1_024)))
    t = found.event.threshold
    assert_caught(release(low), (held("a", t), held("a", t - 1)), **claim(found))


@dataclass(frozen=True)
class FoldedCounts:
    """A table whose fold gives these counts."""

    counts: NDArray[np.int64]

    def fold(self, *_: object, **__: object) -> NDArray[np.int64]:
        return self.counts


def bounds(unit: str, adjacency: str) -> BoundsPlan:
    return cast(
        BoundsPlan, plan(BoundsSpec("visits", "cost", Budget(rho="0.5")), schema(unit=unit, adjacency=adjacency))
    )


def histogram(found: BoundsPlan) -> Callable[[NDArray[np.int64], int], NDArray[np.int64]]:
    def run(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        table = FoldedCounts(np.tile(counts, n))
        payload = measure_bounds(found, cast(Any, table), cast(Any, None))
        return np.array(json.loads(payload)["counts"]).reshape(n, -1)

    return run


@pytest.mark.parametrize(("unit", "rows"), [(ROW, 1), (USER, 3)])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_histograms_keep_their_claim_and_less_noise_is_caught(unit: str, rows: int, adjacency: str) -> None:
    found = bounds(unit, adjacency)
    event = found.event
    assert isinstance(event, DiscreteGaussian)
    pair = np.array([rows, 0]), np.array([0, rows if adjacency == "replace-one" else 0])
    rho = event.l2_squared / (2 * float(event.variance))
    given = {"epsilon": convert_zcdp_to_epsilon(rho, REPORT), "delta": REPORT, "n": MANY}
    assert_private(histogram(found), pair, **given)
    assert_caught(histogram(replace(found, event=replace(event, variance=event.variance / 9))), pair, **given)
