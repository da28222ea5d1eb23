"""A release of moments for linear regression: its spec, noise and price. No row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError, SchemaError
from siloquent.foreign.spec_types import check_types
from siloquent.maths.models.moments import QUANTA, build_joint_release, round_into_ball, scale_to_unit
from siloquent.maths.sensitivity.joint import Variances
from siloquent.maths.sensitivity.record_pairs import RecordPairs
from siloquent.privacy import Event, get_accountant
from siloquent.privacy.budget import Budget, build_joint_event, round_up_to_drawable, subtract_rounding
from siloquent.schema import TableSchema
from siloquent.sketch.plan.planner import convert_budget

Floats = NDArray[np.float64]
FINEST = (8_191, 2_047, 511, QUANTA)
"""The whole steps from 0 to the ball's radius; the finest that fit are used."""
MAX_NOISE = 2**49
SHARES = (Fraction(2, 100), Fraction(18, 100), Fraction(80, 100))
"""The parts of the price for count, sums and second moments: the last have most entries and the most noise."""


@dataclass(frozen=True, slots=True)
class MomentsSpec:
    """A prediction of ``target`` from ``features`` (numbers, dates, booleans), scaled to -1 to 1 by declared ranges.

    ``radius``: longer records are shortened to it; None: sqrt(number of numbers), the maximal length of a record. A
    smaller one means less noise and a bias for distant records.
    """

    table: str
    features: tuple[str, ...]
    target: str
    budget: Budget
    radius: float | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= len(self.features) <= 1_000 or len({*self.features, self.target}) != len(self.features) + 1:
            raise RequestError("A regression takes 1 to 1,000 distinct features and a target.")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius > 0):
            raise RequestError(f"The radius must be above 0, not {self.radius!r}.")


@dataclass(frozen=True, slots=True)
class MomentsPlan:
    """A release of moments before any row is read; ``parameters``: the noise of count, sums, second moments."""

    spec: MomentsSpec
    schema: TableSchema
    names: tuple[str, ...]
    steps: tuple[int, ...]
    lo: tuple[float, ...]
    grid: tuple[float, ...]
    radius: float
    quanta: int
    noise: str
    parameters: tuple[Fraction, Fraction, Fraction]
    event: Event


def plan_moments(spec: MomentsSpec, schema: TableSchema) -> MomentsPlan:
    """Plan parameters and price, only from declaration and spec.

    Raises:
        SchemaError: A feature is not a number. RequestError: The budget does not fit the account.
    """
    attributes = [schema.domain[name] for name in (*spec.features, spec.target)]
    for attribute in attributes:
        if not (attribute.is_numeric or attribute.kind == "boolean"):
            raise SchemaError(f"Attribute {attribute.name!r} is of type {attribute.kind}; a regression takes numbers.")
    radius, all_steps = spec.radius or math.sqrt(len(attributes)), tuple(attribute.steps for attribute in attributes)
    quanta, parameters, event = _find_finest_steps(spec, schema, all_steps, radius)
    numeric = [a.is_numeric for a in attributes]
    return MomentsPlan(
        spec=spec,
        schema=schema,
        names=tuple(attribute.name for attribute in attributes),
        steps=all_steps,
        lo=tuple(float(a.lo) if n else 0.0 for a, n in zip(attributes, numeric, strict=True)),  # type: ignore[arg-type]
        grid=tuple(float(a.grid) if n else 1.0 for a, n in zip(attributes, numeric, strict=True)),  # type: ignore[arg-type]
        radius=radius,
        quanta=quanta,
        noise="laplace" if schema.budget.accountant == "pure" else "gaussian",
        parameters=parameters,
        event=event,
    )


def _find_finest_steps(
    spec: MomentsSpec, schema: TableSchema, steps: tuple[int, ...], radius: float
) -> tuple[int, tuple[Fraction, Fraction, Fraction], Event]:
    """Find the finest steps for which noise can be sampled, and the noise: coarse steps round small numbers to zero."""
    pure, account = schema.budget.accountant == "pure", get_accountant(schema.budget.accountant)
    amount, scaled = subtract_rounding(convert_budget(spec.budget, schema), account.scale), _list_all_records(steps)
    for quanta in FINEST:
        release = build_joint_release(
            len(steps),
            radius,
            records=schema.unit.max_rows,
            replaced=schema.replace_one,
            quanta=quanta,
            pairs=None if scaled is None else RecordPairs(round_into_ball(scaled, radius, quanta)),
        )
        wanted: Variances = release.split_scales(SHARES, amount) if pure else release.split_variances(SHARES, amount)
        count, sums, second = (round_up_to_drawable(number or Fraction(0)) for number in wanted)
        if second <= MAX_NOISE:
            found = (count, sums, second)
            moved = release.bound_l1_change(found) if pure else release.bound_change(found)
            return quanta, found, build_joint_event(moved, gaussian=not pure)
    raise RequestError("The budget is too small: that much noise cannot be drawn.", fix='epsilon = "0.01" or more')


def _list_all_records(steps: tuple[int, ...]) -> Floats | None:
    """Return all possible records, None where they are too many."""
    if not RecordPairs.can_enumerate(math.prod(steps), len(steps)):
        return None
    return scale_to_unit(np.indices(steps).reshape(len(steps), -1).T, steps)
