"""Answers from earlier releases, measuring only what is missing; deterministic, and blind to data and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import LARGEST_DEVIATION
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP
from siloquent.explore.plan.mechanisms.supplement import Supplement, list_supplements
from siloquent.explore.plan.reuse.evidence import Evidence, gather
from siloquent.explore.plan.reuse.linear_measurements import MIN_DEVIATION, LinearMeasurement, compute_laplace_deviation
from siloquent.explore.plan.reuse.refinement import MAX_CELLS
from siloquent.explore.plan.reuse.simultaneous import read_off
from siloquent.explore.spec.answers.answer import Label
from siloquent.maths.blas import limit_to_one_thread
from siloquent.maths.gls import bound_gaussian_miss, find_least_strength
from siloquent.privacy import FREE, DiscreteGaussian, DiscreteLaplace, Event
from siloquent.schema import TableSchema

Reals = NDArray[np.float64]
MAX_ANSWERS = 10_000
_ROUNDS = 6
_LAPLACE_STEPS = 11
_WIDEST = 64.0
_NEAR = 1.005
_ASIDE = 1.002
_ROUNDING = 1 / (2 * PARTS_OF_A_STEP)
_HAIR = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class ReuseBound:
    """The requirement for answers: errors stay within ``alpha`` units except with probability ``beta``.

    ``simultaneous``: for any sequence of queries.
    """

    alpha: float
    beta: float
    two_sided: bool
    simultaneous: bool = False

    @property
    def label(self) -> Label:
        """The label of the promise."""
        return "simultaneous" if self.simultaneous else "independent"


@dataclass(frozen=True, slots=True, eq=False)
class Blend:
    """A combined answer: ``weights`` times the known and new noisy values, in deviations.

    ``event`` is what must still be measured, by ``added`` (None: nothing). ``deviation``: that of the new noise.
    """

    label: Label
    sources: tuple[int, ...]
    weights: Reals
    values: Reals
    event: Event
    added: Supplement | None = None
    deviation: float = 1.0

    @property
    def is_free(self) -> bool:
        """Whether nothing new is measured."""
        return self.added is None

    def estimate(self, measured: Sequence[int]) -> list[int]:
        """Estimate the answers in parts of a step from the new measurement."""
        new = np.array([float(value) for value in measured]) / self.deviation
        found = self.weights @ np.concatenate([self.values, new])
        return [round(value * PARTS_OF_A_STEP) for value in found.tolist()]


def blend(
    compiled: CompiledWorkload,
    schema: TableSchema,
    past: Sequence[LinearMeasurement],
    bound: ReuseBound,
    *,
    below: Fraction,
) -> Blend | None:
    """Return the cheapest answer that uses ``past``; None if none is cheaper than ``below`` (epsilon or rho)."""
    if sum(part.columns for part in compiled.parts) > MAX_CELLS or compiled.answers > MAX_ANSWERS:
        return None
    if not any(one.pieces for one in past):
        return None
    if bound.simultaneous:
        with limit_to_one_thread():
            return _find_simultaneous(compiled, schema, past, bound)
    law = _find_gaussian if schema.budget.accountant == "zcdp" else _find_laplace
    with limit_to_one_thread():
        evidence = gather(compiled, schema, past)
        return law(compiled, evidence, bound, below) if len(evidence.known) else None


def _blend(
    evidence: Evidence, bound: ReuseBound, found: Reals, event: Event, added: Supplement | None, sd: float
) -> Blend:
    used = np.any(found[:, : len(evidence.known)] != 0, axis=0)
    new = found[:, len(evidence.known) :]
    return Blend(
        label=bound.label,
        sources=tuple(sorted({int(source) for source in evidence.sources[used]})),
        weights=np.hstack([found[:, : len(evidence.known)][:, used], new]),
        values=evidence.values[used],
        event=event,
        added=added,
        deviation=sd,
    )


# For any sequence of queries


def _find_simultaneous(
    compiled: CompiledWorkload, schema: TableSchema, past: Sequence[LinearMeasurement], bound: ReuseBound
) -> Blend | None:
    """Find the answers that are known well enough, free.

    Nothing is measured in addition: of two estimates, one with a simultaneous bound and one fresh, the mean's bound is
    the mean of the bounds, so the better of both is at least as good.
    """
    found = read_off(compiled, schema, past, alpha=bound.alpha - _ROUNDING, beta=bound.beta)
    if not found:
        return None
    weights = [np.zeros((compiled.answers, one.back.shape[1])) for one in found]
    for wide, one in zip(weights, found, strict=True):
        wide[one.rows] = one.back * one.piece.deviation
    together = np.hstack(weights)
    used = together.any(axis=0)
    return Blend(
        label=bound.label,
        sources=tuple(sorted({one.piece.source for one in found})),
        weights=together[:, used],
        values=np.concatenate([one.piece.values / one.piece.deviation for one in found])[used],
        event=FREE,
    )


# Gaussian noise


def _find_gaussian(compiled: CompiledWorkload, evidence: Evidence, bound: ReuseBound, below: Fraction) -> Blend | None:
    free = evidence.find_weights(np.zeros((0, evidence.known.shape[1])))
    if free is not None and _is_kept(
        np.sqrt((free * free).sum(axis=1)), _compute_room(bound, free, evidence.margins), bound
    ):
        return _blend(evidence, bound, free, FREE, None, 1.0)
    best: Blend | None = None
    for added in list_supplements(compiled, bound.beta, two_sided=bound.two_sided, alpha=bound.alpha, norm="l2"):
        found = _top_up_gaussian(evidence, added, bound, math.sqrt(2 * below))
        if found is not None and (best is None or _compute_rho(found.event) < _compute_rho(best.event)):
            best = found
    return best if best is not None and _compute_rho(best.event) < below else None


def _top_up_gaussian(evidence: Evidence, added: Supplement, bound: ReuseBound, most: float) -> Blend | None:
    """Find the least Gaussian noise on ``added`` that keeps the bound together with the known values.

    The effect of integer noise is known only once the weights are: it is taken from the previous round and checked at
    the end.
    """
    size = math.sqrt(added.sensitivity.l2_squared)
    unit = evidence.express_asked(added.matrices)
    family = evidence.add_new(unit / size, most=most)
    if family is None:
        return None
    margin: Reals = np.full(len(evidence.wanted), _ROUNDING)
    for _ in range(_ROUNDS):
        strength = find_least_strength(family, lambda sd, m=margin: _is_kept(sd, bound.alpha - m, bound))  # type: ignore[misc]
        if not strength:
            return None
        deviation = min(size / strength, float(LARGEST_DEVIATION))
        if deviation < MIN_DEVIATION:
            return None
        variance = math.floor(deviation**2)
        sd = math.sqrt(variance)
        found = evidence.find_weights(unit / sd)
        if found is None:
            return None
        margins = np.concatenate([evidence.margins, added.margins / sd])
        room = _compute_room(bound, found, margins)
        if _is_kept(np.sqrt((found * found).sum(axis=1)), room, bound):
            event = DiscreteGaussian(variance=Fraction(variance), l2_squared=added.sensitivity.l2_squared)
            return _blend(evidence, bound, found, event, added, sd)
        margin = (bound.alpha - room) * (1 + 1e-4) + 1e-6 * bound.alpha
    return None


def _compute_room(bound: ReuseBound, found: Reals, margins: Reals) -> Reals:
    """Compute the part of alpha left for continuous noise, per answer."""
    return np.asarray(bound.alpha - _ROUNDING - np.abs(found) @ margins)


def _is_kept(deviations: Reals, room: Reals, bound: ReuseBound) -> bool:
    return bound_gaussian_miss(deviations * _HAIR, room, two_sided=bound.two_sided) <= bound.beta


def _compute_rho(event: Event) -> Fraction:
    assert isinstance(event, DiscreteGaussian)
    return Fraction(event.l2_squared) / (2 * event.variance)


# Laplace noise


def _find_laplace(compiled: CompiledWorkload, evidence: Evidence, bound: ReuseBound, below: Fraction) -> Blend | None:
    free = evidence.find_weights(np.zeros((0, evidence.known.shape[1])))
    if free is not None and _compute_excess(free, evidence.rates, evidence.margins, bound) <= 0:
        return _blend(evidence, bound, free, FREE, None, 1.0)
    best: Blend | None = None
    for added in list_supplements(compiled, bound.beta, two_sided=bound.two_sided, alpha=bound.alpha, norm="l1"):
        limit = below if best is None else min(below, _compute_epsilon(best.event))
        found = _top_up_laplace(evidence, added, bound, limit)
        best = found or best
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _LaplaceTrial:
    found: Reals
    scale: Fraction
    excess: float
    deviation: float


def _top_up_laplace(evidence: Evidence, added: Supplement, bound: ReuseBound, below: Fraction) -> Blend | None:
    """Find the least epsilon below ``below``, within half a percent, by interpolation between scales."""
    unit = evidence.express_asked(added.matrices)

    def tried(scale: float) -> _LaplaceTrial | None:
        whole = Fraction(math.floor(scale * 1_024), 1_024)
        if whole <= 0:
            return None
        deviation = compute_laplace_deviation(float(whole))
        found = evidence.find_weights(unit / deviation)
        if found is None:
            return None
        rates = np.concatenate([evidence.rates, np.full(len(unit), float(whole) / deviation)])
        margins = np.concatenate([evidence.margins, added.margins / deviation])
        return _LaplaceTrial(found, whole, _compute_excess(found, rates, margins, bound), deviation)

    low = float(added.sensitivity.l1 / below) * (1 + 1e-9)
    best = tried(low)
    if best is None or best.excess > 0:
        return None
    high, above = low * _WIDEST, math.inf
    for _ in range(_LAPLACE_STEPS):
        if high < low * _NEAR:
            break
        scale = _interpolate(low, best.excess, high, above, bound.alpha)
        middle = tried(scale)
        if middle is not None and middle.excess <= 0:
            best, low = middle, scale
        else:
            high, above = scale, math.inf if middle is None else middle.excess
    event = DiscreteLaplace(scale=best.scale, l1=added.sensitivity.l1)
    return _blend(evidence, bound, best.found, event, added, best.deviation)


def _interpolate(low: float, below: float, high: float, above: float, alpha: float) -> float:
    """Return the next scale to try between ``low``, which keeps the bound by ``-below``, and ``high``, which breaks it.

    The error grows almost linearly with the scale. A try aims slightly at the side where the bracket is still wide, so
    that a good guess is soon enclosed from both sides.
    """
    if math.isinf(above):
        # If all of the error were due to the new noise, it could grow by this factor; some is not, so try beyond.
        guess = low * min(1.1 * alpha / max(alpha + below, alpha / _WIDEST), math.sqrt(high / low))
    else:
        guess = low + (high - low) * below / (below - above)
        guess *= 1 / _ASIDE if guess > math.sqrt(low * high) else _ASIDE
    return min(max(guess, low * _ASIDE), high / _ASIDE)


def _compute_excess(found: Reals, rates: Reals, margins: Reals, bound: ReuseBound) -> float:
    """Return by how much the answers' errors exceed the bound; at most 0 if they keep it."""
    from siloquent.maths.tails.laplace_sums import build_union_tails

    room = _compute_room(bound, found, margins)
    rows = found * rates
    noisy = rows.any(axis=1)
    if np.any(room < 0):
        return math.inf
    if not noisy.any():
        return -float(room.min())
    # Rows with less room count as if their noise were larger.
    least = float(room[noisy].min())
    return (
        build_union_tails(rows[noisy] * (least / room[noisy])[:, None], bound.beta, two_sided=bound.two_sided).quantile
        - least
    )


def _compute_epsilon(event: Event) -> Fraction:
    assert isinstance(event, DiscreteLaplace)
    return Fraction(event.l1) / event.scale
