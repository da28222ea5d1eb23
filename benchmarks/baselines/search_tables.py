"""Declared tables and releases of arrays for the search benchmarks: what a session does, without files."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from siloquent.search import Budget as Price
from siloquent.search import Feature, KeyOf, Offer, OfferPlan, OfferSpec, plan
from siloquent.search.measure import add_plan_noise, build_sum_kernel, build_whole_records
from siloquent.search.measure.ranges import Clip, clip_feature, select_range
from siloquent.search.offers import MeasuredSums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Adjacency = Literal["add-remove", "replace-one"]
GRID = 4_096
"""Steps from the middle of a range to its end."""


def planned(
    names: tuple[str, ...],
    *,
    epsilon: str,
    keys: int = 0,
    adjacency: Adjacency = "add-remove",
    norm_cut: float | None = None,
    second_moments: Any = "none",
    **given: Any,
) -> OfferPlan:
    """A plan for numbers in -1..1, joined by a key of so many values."""
    ends: dict[str, Any] = {"lo": Decimal(-1), "hi": Decimal(1), "grid": Decimal(1) / GRID}
    numbers = tuple(Attribute(name, "real", outside="clamp", null="value", null_value=0, **ends) for name in names)
    key = tuple(
        Attribute("k", "integer", lo=Decimal(0), hi=Decimal(keys - 1), grid=Decimal(1)) for _ in range(min(keys, 1))
    )
    budget = TableBudget("zcdp", epsilon=Fraction(100), delta=Fraction(1, 10**6))
    schema = TableSchema("t", Domain((*key, *numbers)), budget, adjacency=adjacency)
    return plan(
        OfferSpec(
            table="t",
            features=names,
            keys=(KeyOf("k"),) if keys else (),
            budget=Price(epsilon=epsilon),
            norm_cut=norm_cut,
            second_moments=second_moments,
            **given,
        ),
        schema,
    )


def offered(made: OfferPlan, places: dict[str, Integers]) -> Offer:
    """An offer of places by attribute's name, -1 for missing ones, with estimated ranges where the plan has them."""
    import pyarrow as pa

    clips: list[Clip | None] = [None for _ in made.features]
    if made.rate is not None:
        for i, feature in enumerate(made.features):
            known = places[feature.name][places[feature.name] >= 0]
            clips[i] = select_range(np.bincount(known, minlength=feature.steps), made.rate)
    features = tuple(map(clip_feature, made.features, clips))
    kernel = build_sum_kernel(made, features, tuple(clips))
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in places.values()], names=list(places))
    return _offer(made, features, add_plan_noise(made, kernel.unpack_sums(kernel(batch))))


def released(made: OfferPlan, numbers: Floats, cells: Integers | None = None) -> Offer:
    """An offer of rows in -1..1, shape (rows, numbers), and of their keys."""
    places = np.rint((np.clip(numbers, -1, 1) + 1) * GRID).astype(np.int64)
    named = {feature.name: places[:, i] for i, feature in enumerate(made.features)}
    records = build_whole_records(made.features, named, len(places), made.steps, made.spec.norm_cut)
    kernel = build_sum_kernel(made, made.features)
    exact = kernel.unpack_sums(kernel.sum_records(records, [] if cells is None else [cells]))
    return _offer(made, made.features, add_plan_noise(made, exact))


def _offer(made: OfferPlan, features: tuple[Feature, ...], measured: MeasuredSums) -> Offer:
    return Offer(
        table="t",
        features=features,
        keys=made.keys,
        measured=measured,
        steps=made.steps,
        noise=made.noise,
        parameters=made.parameters,
        is_halved=made.is_halved,
        event=made.event,
    )
