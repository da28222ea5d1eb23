"""The published tables of ``race/`` as arrays and declarations; splits are fixed by seeds."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh import Kernel
from siloquent.maths.lsh.families import compute_similarity
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from siloquent.sketch import Budget as Price
from siloquent.sketch import Sketch, SketchSpec, plan
from siloquent.sketch.measure import add_counter_noise, count_places
from siloquent.sketch.plan import SketchPlan, compute_noise_variance

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
DELTA = Fraction(1, 10**6)


@cache
def table(folder: Path, name: str) -> Floats:
    """A table of numbers, shape (rows, columns)."""
    with gzip.open(folder / "race" / f"{name}.csv.gz", "rt") as file:
        file.readline()
        lines = [line.rstrip("\n").split(",") for line in file]
    return np.array([[_number(text) for text in line] for line in lines], dtype=float)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")  # a name of a split


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Private rows and public queries in the kernel's units, with the exact kernel sums."""

    data: Floats
    queries: Floats
    kernel: Kernel
    lo: float
    hi: float
    grid: str
    truth: Floats


def kernel_task(data: Floats, queries: Floats, kernel: Kernel, *, lo: float, hi: float, grid: str) -> Task:
    """A task on the grid that the sketch counts on, so that truth and sketch speak of the same points."""
    step = float(grid)
    data, queries = (np.clip(np.rint(part / step) * step, lo, hi) for part in (data, queries))
    truth = np.concatenate([compute_similarity(kernel, data, part).sum(axis=0) for part in np.array_split(queries, 40)])
    return Task(data, queries, kernel, lo, hi, grid, truth)


def schema_of(task: Task, accountant: Literal["pure", "zcdp"], labels: tuple[str, ...] = ()) -> TableSchema:
    """The declaration of a task's rows."""
    ends: dict[str, Any] = {"lo": Decimal(str(task.lo)), "hi": Decimal(str(task.hi)), "grid": Decimal(task.grid)}
    numbers = [Attribute(f"x{i}", "real", outside="clamp", **ends) for i in range(task.data.shape[1])]
    named = [Attribute("label", "category", values=labels)] if labels else []
    delta = DELTA if accountant == "zcdp" else Fraction(0)
    budget = TableBudget(accountant, epsilon=Fraction(10), delta=delta)
    rough = round(len(task.data), 2 - len(str(len(task.data))))  # two digits, as an owner would say it
    return TableSchema("t", Domain((*numbers, *named)), budget, size_hint=rough)


def places(task: Task, points: Floats) -> Integers:
    """Points as places of the declared grid."""
    return np.rint((points - task.lo) / float(task.grid)).astype(np.int64)


def planned(task: Task, accountant: Literal["pure", "zcdp"], epsilon: str, *, seed: int, **given: Any) -> SketchPlan:
    """The plan of a sketch of a task; ``labels`` makes one stack of counters a class."""
    labels = given.pop("labels", ())
    spec = SketchSpec(
        table="t",
        features=tuple(f"x{i}" for i in range(task.data.shape[1])),
        kernel=task.kernel,
        budget=Price(epsilon=epsilon),
        label="label" if labels else None,
        **given,
    )
    return plan(spec, schema_of(task, accountant, labels), seed=seed)


def released(made: SketchPlan, counters: Integers, sizes: Integers) -> Sketch:
    """The sketch with fresh noise on exact counters."""
    size = made.size_parameter
    return Sketch(
        plan=made.hash_plan,
        counters=add_counter_noise(made, counters, made.parameter),
        sizes=None if size is None else add_counter_noise(made, sizes, size),
        noise=made.noise,
        parameter=made.parameter,
        variance=compute_noise_variance(made.noise, made.parameter),
        size_variance=Fraction(0) if size is None else compute_noise_variance(made.noise, size),
        hits=made.hits,
        event=made.event,
    )


def built(made: SketchPlan, task: Task, classes: Integers | None = None) -> Sketch:
    """Count and release."""
    return released(made, *count_places(made, places(task, task.data), classes))


def skin(folder: Path, kernel: Kernel) -> Task:
    """K1: B, G, R; 2,000 rows are queries, the other 243,056 data."""
    rows = table(folder, "skin")[:, :3]
    order = np.random.default_rng(1).permutation(len(rows))
    return kernel_task(rows[order[2_000:]], rows[order[:2_000]], kernel, lo=0, hi=255, grid="1")


def scaled(folder: Path, name: str) -> Floats:
    """K2: the varying features of a table, z-scored."""
    rows = table(folder, name)
    rows = rows[:, : {"pulsar": 8, "naval": 16, "occupancy": 5}[name]]
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def classes(folder: Path, name: str) -> tuple[Floats, Integers]:
    """C1: features clipped to their .5 % and 99.5 % quantiles and mapped to 0..1, and the label."""
    rows = table(folder, name)
    width = {"pulsar": 8, "occupancy": 5}[name]
    features, label = rows[:, :width], rows[:, width].astype(np.int64)
    low, high = np.quantile(features, [0.005, 0.995], axis=0)
    return np.clip((features - low) / (high - low), 0, 1), label


def regression(folder: Path, name: str) -> tuple[Floats, Floats]:
    """G1: features and target, each centred and divided by the longest row, so that all lie in the unit ball."""
    rows = table(folder, name)
    width = {"airfoil": 5, "naval": 16, "gas": 128}[name]
    X, y = rows[:, :width], rows[:, width]
    X = X[:, np.ptp(X, axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (y - y.mean()) / np.abs(y - y.mean()).max()
    return np.asarray(X / np.linalg.norm(X, axis=1).max()), np.asarray(y)


@cache
def slashdot(folder: Path) -> tuple[Integers, Integers]:
    """K3: who each node links to: targets in order of their source, and where each source's end; 82,168 nodes."""
    import pyarrow.parquet

    edges = pyarrow.parquet.read_table(folder / "race" / "slashdot0902.parquet")
    source, target = (edges[name].to_numpy().astype(np.int64) for name in ("src", "dst"))
    order = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=82_168)
    return target[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
