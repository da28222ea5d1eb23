"""Linear regression from one release of moments: what is asked, its price, and the model that the moments determine."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.charging import Charge, request_digest, require_planned
from siloquent.errors import LedgerError, RequestError, SchemaError
from siloquent.ledger import Permit, Stored
from siloquent.maths.moments import QUANTA, Moments, linear_model, moment_sensitivity
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event, accountant
from siloquent.privacy.prices import Budget, drawable
from siloquent.schema import TableSchema
from siloquent.sketch.measure.moments import measure_moments
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
        object.__setattr__(self, "features", tuple(self.features))
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
    quanta, parts = _finest(spec, schema, len(attributes))
    numbers = [part.scale if isinstance(part, DiscreteLaplace) else part.variance for part in parts]
    numeric = [a.is_numeric for a in attributes]
    return MomentsPlan(
        spec=spec,
        names=tuple(attribute.name for attribute in attributes),
        steps=tuple(attribute.steps for attribute in attributes),
        lo=tuple(float(a.lo) if n else 0.0 for a, n in zip(attributes, numeric, strict=True)),  # type: ignore[arg-type]
        grid=tuple(float(a.grid) if n else 1.0 for a, n in zip(attributes, numeric, strict=True)),  # type: ignore[arg-type]
        radius=spec.radius or math.sqrt(len(attributes)),
        quanta=quanta,
        noise="laplace" if schema.budget.accountant == "pure" else "gaussian",
        parameters=(numbers[0], numbers[1], numbers[2]),
        event=Composed(tuple(parts)),
    )


def _finest(
    spec: MomentsSpec, schema: TableSchema, dimensions: int
) -> tuple[int, list[DiscreteLaplace | DiscreteGaussian]]:
    """The finest steps for which noise can be drawn, and the noise: coarse steps round small numbers to nothing."""
    pure, amount = schema.budget.accountant == "pure", amount_of_budget(spec.budget, schema)
    for quanta in FINEST:
        moved = moment_sensitivity(dimensions, records=schema.unit.max_rows, replaced=schema.replace_one, quanta=quanta)
        parts: list[DiscreteLaplace | DiscreteGaussian] = []
        for share, l1, l2_squared in zip(SHARES, moved.l1, moved.l2_squared, strict=True):
            if pure:
                parts.append(DiscreteLaplace(drawable(l1 / (amount * share)), l1))
            else:
                parts.append(DiscreteGaussian(drawable(l2_squared / (2 * amount * share)), l2_squared))
        last = parts[-1]
        if (last.scale if isinstance(last, DiscreteLaplace) else last.variance) <= MOST_NOISE:
            return quanta, parts
    raise RequestError("So much noise cannot be drawn: the budget is too small.", fix='epsilon = "0.01" or more')


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
    return model_of(chosen, stored.payload)


def _measured(session: Session, chosen: MomentsPlan, schema: TableSchema, permit: Permit) -> Stored:
    require_planned(permit, chosen.event)
    table = session.table_of(schema, spent="what was reserved")
    count, sums, second = measure_moments(chosen, table, permit)
    payload = json.dumps({"format": 1, "count": count.tolist(), "sums": sums.tolist(), "second": second.tolist()})
    return session.ledger.settle(permit, permit.event, payload.encode())


def model_of(chosen: MomentsPlan, payload: bytes) -> LinearModel:
    """The model that stored moments determine: free post-processing.

    Raises:
        LedgerError: The payload holds no moments of this plan.
    """
    try:
        plain = json.loads(payload)
        count, sums, second = (np.array(plain[name], dtype=np.int64) for name in ("count", "sums", "second"))
    except (ValueError, KeyError, TypeError) as broken:
        raise LedgerError("Stored moments cannot be read.", fix="siloquent ledger verify") from broken
    return model_from(chosen, count, sums, second)


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
