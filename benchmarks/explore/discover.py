"""Discovery: how many shared values are found, how often a single person's, how near bounds are, and how fast."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import siloquent as sq
from benchmarks.explore.failures import limit
from benchmarks.row import Options, Row
from siloquent.data.units.distinct_keys import KeyCounts
from siloquent.discover import BoundsPlan, BoundsSpec, DiscoveredKeys, KeysPlan, KeysSpec, plan
from siloquent.discover.estimate import find_outer_bins
from siloquent.discover.measure import CountBins, measure_keys
from siloquent.privacy.budget import Budget
from siloquent.privacy.noise import add_gaussian

VALUES, USERS, EXPONENT = 50_000, 1_000_000, 1.1
TOML = """
format = 1
attribute = [
  { name = "person", type = "id" },
  { name = "product", type = "text", max_bytes = 100 },
  { name = "cost", type = "real", lo = -1000000, hi = 1000000, grid = 0.01, outside = "clamp", null = "drop" },
]
[table]
name = "sales"
adjacency = "add-remove"
unit = { kind = "user", column = "person", max_rows = 1 }
[budget]
accountant = "zcdp"
epsilon = "100"
delta = "1e-6"
delta_events = "1e-7"
"""
ONE = Budget(epsilon="1")
SHARE = 0.001


def sales(users: int, seed: int) -> pa.Table:
    """A sale a person: products by Zipf's law, costs lognormal."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, VALUES + 1, dtype=np.float64) ** -EXPONENT
    products = rng.choice(VALUES, users, p=weights / weights.sum())
    cost = np.round(np.exp(rng.normal(3, 1.2, users)), 2)
    names = pa.array([f"product {i}" for i in range(VALUES)])
    return pa.table({"person": np.arange(users), "product": names.take(pa.array(products)), "cost": cost})


@dataclass(frozen=True)
class LonelyKeys:
    """A table of ``n`` persons, each with a product of its own."""

    n: int

    def count_units_by_key(self, column: str, permit: object, *, keys_each: int) -> Iterator[KeyCounts]:
        yield KeyCounts(pa.array([f"{i}" for i in range(self.n)]), np.ones(self.n, dtype=np.int64))


def rows(options: Options) -> Iterator[Row]:
    """Found keys, lonely keys, bounds, seconds."""
    if options.wants("discover-found") or options.wants("discover-seconds"):
        yield from found_keys(options)
    if options.wants("discover-lonely"):
        yield lonely_keys(options)
    if options.wants("discover-bounds"):
        yield near_bounds(options)


def found_keys(options: Options) -> Iterator[Row]:
    """The share of keys with three times the threshold that a session finds, the worst of some runs."""
    runs, users = (1, 100_000) if options.quick else (5, USERS)
    shares, seconds, told = [], [], ""
    with tempfile.TemporaryDirectory() as folder:
        sq.create_workspace(folder)
        with sq.open(folder) as session:
            frame = sales(users, seed=1)
            session.add_frame(sq.read_schema(TOML), frame)
            counts = {one["values"]: one["counts"] for one in frame["product"].value_counts().to_pylist()}
            for run in range(runs):
                began = time.process_time()
                found = session.discover("sales", "product", epsilon="1", name=f"run{run}")
                seconds.append(time.process_time() - began)
                assert isinstance(found, DiscoveredKeys)
                wanted = {key for key, count in counts.items() if count >= 3 * found.threshold}
                shares.append(len(wanted & set(found.keys)) / len(wanted))
                told = f"{len(found.keys):,} found, {len(wanted):,} with 3 x {found.threshold} people or more"
    setting = f"Zipf {EXPONENT} over {VALUES:,} values, {users:,} people, (1, 1e-6)"
    yield Row("discover-found", ours=min(shares), goal=0.95, better="higher", unit="of keys",
              how=f"{setting}; {told}; worst of {runs}")  # fmt: skip
    yield Row("discover-seconds", ours=min(seconds), unit="CPU s", how=f"{setting}; a frame in memory, first to last")


def lonely_keys(options: Options) -> Row:
    """How often the key of one person is released, over delta."""
    runs, delta = (100_000, Fraction(1, 1_000)) if options.quick else (10_000_000, Fraction(1, 10_000))
    schema = sq.read_schema(TOML.replace('"1e-6"', '"0.1"').replace('"1e-7"', '"0.01"'))
    found = cast(KeysPlan, plan(KeysSpec("sales", "product", Budget(rho="0.02"), delta=delta), schema))
    released, left = 0, runs
    while left:
        part = min(left, 1_000_000)
        payload = measure_keys(found, cast(Any, LonelyKeys(part)), cast(Any, None))
        released, left = released + len(json.loads(payload)["keys"]), left - part
    charged = float(found.event.delta)
    return Row("discover-lonely", ours=released / runs / charged, goal=limit(runs, charged) / runs / charged,
               unit="of delta", how=f"{released} of {runs:,} persons' own keys at delta {charged:.3g}; goal: one-sided "
               "binomial limit at 1e-9")  # fmt: skip


def near_bounds(options: Options) -> Row:
    """The share of runs in which both bounds lie within one bin of the true quantiles."""
    runs = 50 if options.quick else 1_000
    schema = sq.read_schema(TOML)
    planned = cast(BoundsPlan, plan(BoundsSpec("sales", "cost", ONE), schema))
    column = schema.domain["cost"]
    cost = sales(USERS, seed=2)["cost"].to_numpy()
    places = np.array(np.rint((cost + 1_000_000) * 100), dtype=np.int64)
    exact = CountBins("cost", planned.starts, column.steps)(pa.RecordBatch.from_pydict({"cost": places}))
    true = [int(np.searchsorted(planned.starts, np.quantile(places, q), side="right")) - 1 for q in (SHARE, 1 - SHARE)]
    found = (find_outer_bins(noisy(planned, exact), planned.deviation, "gaussian") for _ in range(runs))
    near = sum(is_near(one, true) for one in found)
    return Row("discover-bounds", ours=near / runs, goal=0.95, better="higher", unit="of runs",
               how=f"{USERS:,} lognormal values, {len(exact)} bins, (1, 1e-6): both bounds within a bin of the true "
               f".1 % and 99.9 % quantiles, in {runs:,} runs")  # fmt: skip


def noisy(planned: BoundsPlan, exact: NDArray[np.int64]) -> NDArray[np.int64]:
    """The histogram with the noise of the plan."""
    return add_gaussian(exact, variance=cast(Any, planned.event).variance)


def is_near(found: Any, true: list[int]) -> bool:
    """Whether both bins are the true ones or next to them."""
    return found is not None and abs(found.low - true[0]) <= 1 and abs(found.high - true[1]) <= 1
