"""The worst neighbours of a release of sums, by trying all pairs of records that its declaration allows.

A unit of m rows moves a norm by m times one row's change at most, and all of it where its rows are equal: so trying all
pairs of records says how much of a charge any neighbours can use up, and which do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from siloquent.schema import Attribute, TableSchema
from siloquent.search import OfferSpec
from siloquent.search.measure import build_sum_kernel
from siloquent.search.plan import plan as plan_offer
from siloquent.share import ShareSpec
from siloquent.share.plan import plan as plan_share
from siloquent.sketch import SketchSpec
from siloquent.sketch.measure.moments import MomentBatch
from siloquent.sketch.plan import plan as plan_sketch
from siloquent.sketch.plan.moments import MomentsSpec, plan_moments

Row = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Worst:
    """Two records (None: no record), and the loss of a unit that has the one in place of the other."""

    one: Row
    other: Row | None
    loss: float


def worst_pair(spec: object, schema: TableSchema, *, fewest: int = 2) -> Worst | None:
    """The worst neighbours of ``spec``; None where its release is not of sums of records.

    Args:
        fewest: Of a key's values so many are tried: they are all alike.
    """
    if isinstance(spec, OfferSpec):
        made = plan_offer(spec, schema)
        keys = {name for key in spec.keys for name in key.attributes}
        records = all_records(schema, made.places, dict.fromkeys(keys, fewest))
        weights = _offer_weights(made)
        exact = _by_batches(build_sum_kernel(made, made.features), schema, made.places, records)
        gaussian = made.noise == "gaussian"
    elif isinstance(spec, MomentsSpec):
        chosen = plan_moments(spec, schema)
        records = all_records(schema, chosen.names, {})
        exact = _by_batches(
            MomentBatch(chosen.names, chosen.steps, chosen.radius, chosen.quanta), schema, chosen.names, records
        )
        gaussian = chosen.noise == "gaussian"
        weights = _moment_weights(chosen.parameters, len(chosen.names), gaussian=gaussian)
    elif isinstance(spec, ShareSpec) and spec.method == "moments":
        shared = plan_share(spec, schema)
        assert shared.layout is not None
        names = shared.encoding.names
        records = all_records(schema, names, {})
        places = _places(schema, names, records)
        exact = np.stack([shared.layout.count(row[None]) for row in places])
        gaussian = shared.noise == "gaussian"
        weights = np.concatenate(
            [np.full(run.length, _weight(run.parameter, gaussian=gaussian)) for run in shared.runs]
        )
    else:
        return None
    return _farthest(schema, records, exact * weights, gaussian=gaussian)


def all_records(schema: TableSchema, names: tuple[str, ...], fewest: dict[str, int]) -> list[Row]:
    """Every declared value of every attribute, NULL, and a value that is not declared."""
    return [
        dict(zip(names, row, strict=True))
        for row in product(*(_values(schema.domain[name])[: fewest.get(name)] for name in names))
    ]


def _values(attribute: Attribute) -> list[Any]:
    if attribute.kind == "category":
        return [*attribute.values, "Z", None]
    if attribute.kind == "boolean":
        return [False, True, None]
    lo, grid = Fraction(attribute.lo), Fraction(attribute.grid)  # type: ignore[arg-type]
    return [*(float(lo + grid * place) for place in range(attribute.steps)), None]


def _places(schema: TableSchema, names: tuple[str, ...], records: list[Row]) -> NDArray[np.int64]:
    known = {
        name: {value: schema.domain[name].index(value) for value in _values(schema.domain[name])} for name in names
    }
    return np.array([[known[name][record[name]] for name in names] for record in records], dtype=np.int64)


def _by_batches(kernel: Any, schema: TableSchema, names: tuple[str, ...], records: list[Row]) -> Floats:
    """What a kernel adds up of each record alone, shape (records, numbers)."""
    places = _places(schema, names, records)
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in places.T], names=list(names))
    return np.stack([kernel(batch.slice(at, 1)) for at in range(len(records))]).astype(np.float64)


def _weight(parameter: Fraction | None, *, gaussian: bool) -> float:
    """What a change of one costs: its square is rho where the noise is Gaussian, else it is epsilon itself."""
    if parameter is None:
        return 0.0
    return float(1 / (2 * parameter)) ** 0.5 if gaussian else float(1 / parameter)


def _offer_weights(made: Any) -> Floats:
    """In the order of ``SumBatch``: of each key counts and sums, then whole matrices of products."""
    gaussian, p = made.noise == "gaussian", len(made.columns)
    zero, first, second = (_weight(one, gaussian=gaussian) for one in made.parameters[:3])
    sizes = [key.cells for key in made.keys] or [1]
    parts = [part for size in sizes for part in (np.full(size, zero), np.full(size * p, first))]
    # Both entries off the diagonal stand for one number of half the variance, or count once in L1.
    matrix = np.full((p, p), second)
    matrix[np.tril_indices(p, -1)] = second if made.is_halved else 0.0
    times = {"none": 0, "total": 1, "per-key": sizes[0]}[made.spec.second_moments]
    return np.concatenate([*parts, np.tile(matrix.ravel(), times)])


def _moment_weights(parameters: tuple[Fraction, ...], d: int, *, gaussian: bool) -> Floats:
    count, sums, second = (_weight(one, gaussian=gaussian) for one in parameters)
    matrix = np.full((d, d), second)
    matrix[np.tril_indices(d, -1)] = second if gaussian else 0.0
    return np.concatenate([[count], np.full(d, sums), matrix.ravel()])


def _farthest(schema: TableSchema, records: list[Row], points: Floats, *, gaussian: bool) -> Worst:
    """The pair of points, or the point, with the greatest distance (from nothing)."""
    power, rows = 2 if gaussian else 1, schema.unit.max_rows

    def size(change: Floats) -> Floats:
        return np.asarray((np.abs(change) ** power).sum(axis=-1))

    if not schema.replace_one:
        at = int(size(points).argmax())
        return Worst(records[at], None, float(size(points[at])) * rows**power)
    there: list[Row | None] = list(records)
    if schema.unit.kind == "user":  # who takes a user's place may have no row at all
        there, points = [*records, None], np.vstack([points, 0 * points[:1]])
    points, first = np.unique(points, axis=0, return_index=True)
    found = [(float(far.max()), i, int(far.argmax())) for i, far in enumerate(size(points - one) for one in points)]
    loss, i, j = max(found)
    one, other = sorted((there[int(first[at])] for at in (i, j)), key=lambda record: record is None)
    assert one is not None
    return Worst(one, other, loss * rows**power)


def most_of_sketch(spec: SketchSpec, schema: TableSchema, *, honest: int | None = None) -> float:
    """The largest loss of a sketch: a unit's records leave one cell a row for another, or leave the table and its size.

    With classes they may change cell and size at once. ``honest``: of so many silos, whose shares have whole variances.
    """
    made = plan_sketch(spec, schema, seed=1, summed=honest is not None)
    rows = 1 if spec.group is not None else schema.unit.max_rows
    gaussian, hits = made.noise == "gaussian", made.hits or made.hash_plan.hashes.rows
    power = 2 if gaussian else 1
    noises = (made.parameter, made.size_parameter)
    if honest is not None and gaussian:
        noises = tuple(one and Fraction(honest * math.ceil(one / honest)) for one in noises)  # type: ignore[assignment]
    cells, size = (_weight(one, gaussian=gaussian) ** power * rows**power for one in noises)
    leaves = float(hits * cells + size)
    if not schema.replace_one:
        return leaves
    return max(leaves, float(2 * hits * cells + (2 * size if made.hash_plan.classes > 1 else 0)))


def balanced(schema: TableSchema, name: str, label: str) -> tuple[list[Row], Row, Row]:
    """Rows between whose ends every cut's gain changes from all to nothing again and again; and the rows at the ends.

    From either end, at every scale, the labels are in turn as many of each kind, and fewer ``true`` ones by a unit's
    rows: a unit of ``true`` rows at that end adds to a side's most frequent label in the first case alone.
    """
    attribute, m = schema.domain[name], schema.unit.max_rows
    last, lo = attribute.steps - 1, int(attribute.lo)  # type: ignore[arg-type]
    near = [place for k in range(1, last.bit_length() - 2) for place in (2**k, 3 * 2 ** (k - 1))]
    places = sorted({*near, *(last - place for place in near)})
    places = places if len(places) % 2 else places[:-1]
    rows = [{name: lo + at, label: bool(number % 2)} for number, at in enumerate(places) for _ in range(m)]
    return rows, {name: lo, label: True}, {name: lo + last, label: True}
