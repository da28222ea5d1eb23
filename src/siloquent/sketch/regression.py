"""Linear regression from one release of moments: what is asked, its price, and the model that the moments determine."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.charging import Charge, request_digest, require_planned
from siloquent.errors import LedgerError, RequestError, SchemaError
from siloquent.foreign.spec_types import check_types
from siloquent.ledger import Permit, Stored
from siloquent.maths.joint import Variances
from siloquent.maths.moments import QUANTA, Moments, in_ball, linear_model, moments_release
from siloquent.maths.record_pairs import RecordPairs
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event, accountant
from siloquent.privacy.events import told_fraction
from siloquent.privacy.prices import Budget, drawable, joint_event, whole_amount
from siloquent.schema import TableSchema
from siloquent.sketch.measure.moments import measure_moments, scaled_places
from siloquent.sketch.plan import amount_of_budget
from siloquent.sketch.spec import LinearModel

if TYPE_CHECKING:
    from siloquent.session import Session

Floats = NDArray[np.float64]
FINEST = (8_191, 2_047, 511, QUANTA)
"""Whole steps from 0 to the ball's radius, the finest that fit are taken."""
MOST_NOISE = 2**49
SHARES = (Fraction(2, 100), Fraction(18, 100), Fraction(80, 100))
"""Of the price, for count, sums and second moments: the last ones have most entries and the most noise."""


@dataclass(frozen=True, slots=True)
class MomentsSpec:
    """Predict ``target`` from ``features`` (numbers, dates, booleans), all mapped to -1..1 by their declared ranges.

    ``radius``: records longer than that are drawn in to it; None: sqrt(number of numbers), which no record is longer
    than. A smaller one means less noise and a bias for records far out.
    """

    table: str
    features: tuple[str, ...]
    target: str
    budget: Budget
    radius: float | None = None

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= len(self.features) <= 1_000 or len({*self.features, self.target}) != len(self.features) + 1:
            raise RequestError("A regression has 1 to 1,000 features and a target, each named once.")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius > 0):
            raise RequestError(f"The radius is a number above 0, not {self.radius!r}.")


@dataclass(frozen=True, slots=True)
class MomentsPlan:
    """A release of moments before any row is read; ``parameters``: the noise of count, sums, second moments."""

    spec: MomentsSpec
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
    """Parameters and price, from declaration and spec alone.

    Raises:
        SchemaError: A feature is no number. RequestError: The budget does not fit the account.
    """
    attributes = [schema.domain[name] for name in (*spec.features, spec.target)]
    for attribute in attributes:
        if not (attribute.is_numeric or attribute.kind == "boolean"):
            raise SchemaError(f"Attribute {attribute.name!r} is {attribute.kind}; a regression takes numbers.")
    radius, all_steps = spec.radius or math.sqrt(len(attributes)), tuple(attribute.steps for attribute in attributes)
    quanta, parameters, event = _finest(spec, schema, all_steps, radius)
    numeric = [a.is_numeric for a in attributes]
    return MomentsPlan(
        spec=spec,
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


def _finest(
    spec: MomentsSpec, schema: TableSchema, steps: tuple[int, ...], radius: float
) -> tuple[int, tuple[Fraction, Fraction, Fraction], Event]:
    """The finest steps for which noise can be drawn, and the noise: coarse steps round small numbers to nothing."""
    pure, account = schema.budget.accountant == "pure", accountant(schema.budget.accountant)
    amount, scaled = whole_amount(amount_of_budget(spec.budget, schema), account.scale), _all_records(steps)
    for quanta in FINEST:
        release = moments_release(
            len(steps),
            radius,
            records=schema.unit.max_rows,
            replaced=schema.replace_one,
            quanta=quanta,
            pairs=None if scaled is None else RecordPairs(in_ball(scaled, radius, quanta)),
        )
        wanted: Variances = release.scales(SHARES, amount) if pure else release.variances(SHARES, amount)
        count, sums, second = (drawable(number or Fraction(0)) for number in wanted)
        if second <= MOST_NOISE:
            found = (count, sums, second)
            moved = release.moved_l1(found) if pure else release.moved(found)
            return quanta, found, joint_event(moved, gaussian=not pure)
    raise RequestError("So much noise cannot be drawn: the budget is too small.", fix='epsilon = "0.01" or more')


def _all_records(steps: tuple[int, ...]) -> Floats | None:
    """All records that there can be, None where they are many."""
    if not RecordPairs.fit(math.prod(steps), len(steps)):
        return None
    return scaled_places(np.indices(steps).reshape(len(steps), -1).T, steps)


def regress(session: Session, spec: MomentsSpec, *, key: str | None = None) -> LinearModel:
    """A linear model from one release of moments.

    Args:
        key: The idempotency key: the same key and spec give the same model for nothing.
    Raises:
        As ``build``.
    Privacy:
        The unit, adjacency and definition of the table's account; the amount is the plan's event, charged durably
        before a row is read.
    """
    schema, account = session.schema(spec.table), session.account(spec.table)
    chosen = plan_moments(spec, schema)
    session.table_of(schema)  # what is wrong with a source is found before it costs anything
    budget = {name: str(getattr(spec.budget, name)) for name in spec.budget.__dataclass_fields__}
    asked = request_digest(session, account, schema, "moments", spec.features, spec.target, spec.radius, budget)
    permit = Charge(key, account, asked, what="model").reserve(session, chosen.event)
    stored = permit if isinstance(permit, Stored) else _measured(session, chosen, schema, permit)
    return model_of(chosen, stored.payload, stored.event)


def _measured(session: Session, chosen: MomentsPlan, schema: TableSchema, permit: Permit) -> Stored:
    require_planned(permit, chosen.event)
    table = session.table_of(schema, spent="what was reserved")
    count, sums, second = measure_moments(chosen, table, permit)
    plain = {
        "format": 2,
        "quanta": chosen.quanta,
        "parameters": [str(number) for number in chosen.parameters],
        "count": count.tolist(),
        "sums": sums.tolist(),
        "second": second.tolist(),
    }
    return session.ledger.settle(permit, permit.event, json.dumps(plain).encode())


def model_of(chosen: MomentsPlan, payload: bytes, event: Event) -> LinearModel:
    """The model that stored moments determine: free post-processing.

    Args:
        event: What was paid for them. Payloads of format 1 leave steps and noise to it.
    Raises:
        LedgerError: The payload holds no moments of this plan.
    """
    try:
        plain = json.loads(payload)
        count, sums, second = (np.array(plain[name], dtype=np.int64) for name in ("count", "sums", "second"))
        if plain["format"] == 1:
            chosen = _as_first_planned(chosen, event)
        else:
            first, middle, last = (told_fraction(number) for number in plain["parameters"])
            chosen = replace(chosen, quanta=int(plain["quanta"]), parameters=(first, middle, last))
    except (ValueError, KeyError, TypeError) as broken:
        raise LedgerError("Stored moments cannot be read.", fix="siloquent ledger verify") from broken
    return model_from(chosen, count, sums, second)


def _as_first_planned(chosen: MomentsPlan, event: Event) -> MomentsPlan:
    """The plan of moments that were paid for order by order: an event each, the middle one of a record's length."""
    if not isinstance(event, Composed):
        raise ValueError("moments of format 1 have an event an order")
    noises, lengths = [], []
    for part in event.parts:
        if isinstance(part, DiscreteLaplace):
            noises.append(part.scale)
            lengths.append(part.l1 / math.sqrt(len(chosen.names)))
        elif isinstance(part, DiscreteGaussian):
            noises.append(part.variance)
            lengths.append(math.sqrt(part.l2_squared))
    # A unit of m rows moved the sums by m lengths, or 2 m where it was replaced, and the count by m.
    rows = lengths[0] * (math.sqrt(len(chosen.names)) if chosen.noise == "laplace" else 1)
    quanta = min(FINEST, key=lambda steps: min(abs(lengths[1] / rows / turn / steps - 1) for turn in (1, 2)))
    return replace(chosen, quanta=quanta, parameters=(noises[0], noises[1], noises[2]))


def model_from(
    chosen: MomentsPlan, count: NDArray[np.int64], sums: NDArray[np.int64], second: NDArray[np.int64]
) -> LinearModel:
    """The model that noisy moments determine, in the attributes' own units."""
    moments = Moments(float(count[0]), sums.astype(np.float64), second.astype(np.float64))
    last = float(chosen.parameters[2])
    deviation = math.sqrt(last / 2) if chosen.noise == "gaussian" else last * math.sqrt(2)
    weights, intercept = linear_model(moments, deviation=deviation)
    # From whole steps of the ball to the attributes' own units: z = (QUANTA / radius) (2 (x - lo) / range - 1).
    lo, grid, steps = (np.array(part, dtype=float) for part in (chosen.lo, chosen.grid, chosen.steps))
    span = np.maximum(steps - 1, 1) * grid
    slope, unit = 2 / span, chosen.quanta / chosen.radius
    shift = -(2 * lo / span + 1)
    own = weights * slope[:-1] / slope[-1]
    constant = (intercept / unit + weights @ shift[:-1] - shift[-1]) / slope[-1]
    return LinearModel(
        features=chosen.spec.features,
        target=chosen.spec.target,
        weights=own,
        intercept=float(constant),
        count=int(moments.count),
        low=float(lo[-1]),
        high=float(lo[-1] + span[-1]),
    )


def price_of(chosen: MomentsPlan, schema: TableSchema) -> Fraction:
    """The price in the account's epsilon or rho."""
    return accountant(schema.budget.accountant).price(chosen.event).amount
