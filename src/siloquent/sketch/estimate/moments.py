"""The linear model determined by released moments: free post-processing."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import LedgerError
from siloquent.fixes import run
from siloquent.maths.models.moments import Moments, fit_linear_model
from siloquent.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event
from siloquent.privacy.events import parse_fraction
from siloquent.sketch.plan.moments import FINEST, MomentsPlan
from siloquent.sketch.spec import LinearModel


def build_stored_model(chosen: MomentsPlan, payload: bytes, event: Event) -> LinearModel:
    """Build the model determined by stored moments: free post-processing.

    Args:
        event: The event charged for them. Payloads of format 1 derive steps and noise from it.
    Raises:
        LedgerError: The payload does not hold moments of this plan.
    """
    try:
        plain = json.loads(payload)
        count, sums, second = (np.array(plain[name], dtype=np.int64) for name in ("count", "sums", "second"))
        if plain["format"] == 1:
            chosen = _restore_first_plan(chosen, event)
        else:
            first, middle, last = (parse_fraction(number) for number in plain["parameters"])
            chosen = replace(chosen, quanta=int(plain["quanta"]), parameters=(first, middle, last))
    except (ValueError, KeyError, TypeError) as broken:
        raise LedgerError("Stored moments cannot be read.", fix=run("ledger verify")) from broken
    return build_linear_model(chosen, count, sums, second)


def _restore_first_plan(chosen: MomentsPlan, event: Event) -> MomentsPlan:
    """Restore the plan of moments charged order by order: an event each, the middle one of a record's length."""
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
    # A unit of m rows changed the sums by m lengths, or 2 m with replacement, and the count by m.
    rows = lengths[0] * (math.sqrt(len(chosen.names)) if chosen.noise == "laplace" else 1)
    quanta = min(FINEST, key=lambda steps: min(abs(lengths[1] / rows / turn / steps - 1) for turn in (1, 2)))
    return replace(chosen, quanta=quanta, parameters=(noises[0], noises[1], noises[2]))


def build_linear_model(
    chosen: MomentsPlan, count: NDArray[np.int64], sums: NDArray[np.int64], second: NDArray[np.int64]
) -> LinearModel:
    """Build the model determined by noisy moments, in the attributes' own units."""
    moments = Moments(float(count[0]), sums.astype(np.float64), second.astype(np.float64))
    last = float(chosen.parameters[2])
    deviation = math.sqrt(last / 2) if chosen.noise == "gaussian" else last * math.sqrt(2)
    weights, intercept = fit_linear_model(moments, deviation=deviation)
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
