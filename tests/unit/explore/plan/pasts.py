"""Earlier answers for the reuse tests: made rows, exact numbers of a plan's measurement, and what the ledger keeps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.base import compute_answers, multiply_clipped, sum_units
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.linear_measurements import (
    LinearMeasurement,
    build_footprint,
    build_linear_measurement,
    can_be_outside,
)
from siloquent.explore.plan.reuse.releases import Blend, ReuseBound, blend
from siloquent.explore.spec.footprint import Footprint
from siloquent.privacy import Event, get_accountant
from siloquent.schema import Domain

ROWS = 5_000
Integers = NDArray[np.int64]


@cache
def places(domain: Domain) -> dict[str, Integers]:
    """The cell of each of 5,000 rows in each attribute, -1 for OUTSIDE where a value can be that."""
    random = np.random.default_rng(7)
    least = {one.name: -1 if can_be_outside(one) else 0 for one in domain}
    return {one.name: random.integers(least[one.name], one.size, ROWS) for one in domain if one.is_countable}


def columns(compiled: CompiledWorkload, domain: Domain) -> list[Integers]:
    """The exact counts, or sums in units, of every part's columns."""
    rows, found = places(domain), []
    for part in compiled.parts:
        cell = np.zeros(ROWS, dtype=np.int64)
        for name, classes, size in zip(part.block.attributes, part.block.classes, part.block.shape, strict=True):
            cell = cell * size + classes[rows[name]]
        counted = np.bincount(cell, minlength=part.block.size)
        if compiled.summed is None:
            found.append(part.fold(counted))
        else:
            index = np.maximum(rows[compiled.summed.attribute], 0)
            inside = rows[compiled.summed.attribute] >= 0
            sums = np.bincount(cell, weights=index * inside, minlength=part.block.size).astype(np.int64)
            found.append(sum_units(compiled.summed, part, sums, np.bincount(cell[inside], minlength=part.block.size)))
    return found


def truth(plan: Plan) -> Integers:
    """The exact answers, in units."""
    return compute_answers(plan.compiled, columns(plan.compiled, plan.schema.domain))


def exact(plan: Plan, strategy: Sequence[Integers]) -> Integers:
    """What a measurement would give without noise."""
    x = columns(plan.compiled, plan.schema.domain)
    if not strategy:
        return compute_answers(plan.compiled, x)
    return np.concatenate([multiply_clipped(matrix, one) for matrix, one in zip(strategy, x, strict=True)])


def kept(
    plan: Plan,
    source: int,
    *,
    event: Event | None = None,
    strategy: Sequence[Integers] | None = None,
    noise: Integers | None = None,
    account: str = "visits@1",
) -> LinearMeasurement:
    """What the ledger keeps of ``plan``, without noise unless some is given, through the form it is stored in."""
    used = tuple(plan.chosen.strategy if strategy is None else strategy)
    footprint = build_footprint(plan.compiled, plan.schema, by_strategy=bool(used))
    assert footprint is not None
    values = exact(plan, used) + (0 if noise is None else noise)
    past = build_linear_measurement(
        Footprint.from_plain(footprint.to_plain()),
        event or plan.event,
        tuple(values.tolist()),
        used,
        source=source,
        account=account,
    )
    assert past is not None
    return past


def drawn(plan: Plan, past: Sequence[LinearMeasurement], **more: object) -> Blend | None:
    """How ``plan``'s question is answered from ``past``; None where asking anew is as cheap."""
    alpha = float(plan.alpha / plan.compiled.grid)
    bound = ReuseBound(alpha, float(plan.beta), plan.kind == "wcq", **more)  # type: ignore[arg-type]
    price = get_accountant(plan.schema.budget.accountant).compute_price(plan.event).amount
    return blend(plan.compiled, plan.schema, past, bound, below=price)
