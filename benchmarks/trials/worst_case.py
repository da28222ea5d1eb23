"""How often a planned mechanism breaks its promise on the data that is worst for it, by drawing its own noise.

The data: every value that can fail is just far enough away to count as an error (m steps), so nothing fails less often.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.multi_poking import check_looks
from siloquent.explore.measure.selection import compute_crossing_utilities
from siloquent.explore.plan.mechanisms.base import ErrorRequirement
from siloquent.explore.plan.mechanisms.draws import LooksDraw
from siloquent.explore.plan.mechanisms.multi_poking import compute_margins
from siloquent.explore.plan.mechanisms.reconstruction import compute_reconstructions
from siloquent.explore.plan.planner import Plan
from siloquent.maths.tails.errors import compute_breaking_error
from siloquent.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialSelect,
    GeometricTopK,
    NoiseReduction,
    PermuteAndFlip,
)
from siloquent.privacy.noise import add_gaussian, add_geometric, add_laplace, draw_noise_chain
from siloquent.privacy.noise.selection import draw_selections

CHUNK = 4_000_000


def misses(plan: Plan, runs: int) -> int:
    """In how many of ``runs`` runs the promise of ``plan`` is broken on its worst data."""
    width = max(1, _draws(plan))
    done = missed = 0
    while done < runs:
        now = min(runs - done, max(1, CHUNK // width))
        missed += int(_missed(plan, now).sum())
        done += now
    return missed


def _draws(plan: Plan) -> int:
    looks_taken = len(plan.event.scales) if isinstance(plan.event, NoiseReduction) else 1
    return looks_taken * (sum(len(matrix) for matrix in plan.chosen.strategy) or plan.compiled.answers)


def _missed(plan: Plan, runs: int) -> NDArray[np.bool_]:
    event = plan.event
    m = compute_breaking_error(plan.alpha, plan.compiled.grid)
    if isinstance(event, PermuteAndFlip):
        counts = np.full(plan.compiled.answers, m, dtype=np.int64)  # all must be reported
        rate = event.epsilon / (2 * plan.compiled.sensitivity.linf)
        chosen = draw_selections(compute_crossing_utilities(counts, 0), rate=rate, rule="permute-and-flip", times=runs)
        return np.asarray(chosen != 0)
    if isinstance(event, (GeometricTopK, ExponentialSelect)):
        return _low_in_top(plan, runs, m)
    if isinstance(event, NoiseReduction):
        return _low_is_reported(plan, event, runs, m)
    noise = _noise(plan, runs)
    if plan.kind == "wcq":
        return np.asarray(np.abs(noise).max(axis=1) > float(plan.alpha / plan.compiled.grid))
    if plan.kind == "icq":
        return np.asarray(noise.max(axis=1) > float(plan.alpha / plan.compiled.grid))
    return _top_is_low(noise, plan, m)


def _noise(plan: Plan, runs: int) -> NDArray[np.float64]:
    """The noise in the answers, shape (runs, answers)."""
    event, zeros = plan.event, np.zeros((runs, _draws(plan)), dtype=np.int64)
    assert isinstance(event, (DiscreteLaplace, DiscreteGaussian))
    if isinstance(event, DiscreteLaplace):
        drawn = add_laplace(zeros, scale=event.scale)
    else:
        drawn = add_gaussian(zeros, variance=event.variance)
    if plan.chosen.form == "answers":
        return drawn.astype(float)
    backs = compute_reconstructions(plan.compiled, tuple(np.asarray(matrix) for matrix in plan.chosen.strategy))
    assert backs is not None
    return np.asarray(drawn @ np.hstack(backs).T)


def _low_is_reported(plan: Plan, event: NoiseReduction, runs: int, m: int) -> NDArray[np.bool_]:
    """All answers lie m below; the promise is broken if the first look that decides all of them reports one."""
    answers = plan.compiled.answers
    wanted = ErrorRequirement("icq", alpha=plan.alpha, m=m, beta=float(plan.beta))
    noise = draw_noise_chain(runs * answers, scales=event.scales).reshape(-1, runs, answers)
    draw = LooksDraw(event.scales, compute_margins(event.scales, plan.compiled, wanted), threshold=0, m=m)
    reported, clear = check_looks(noise + 1 - m, draw)
    return np.asarray(reported[clear.argmax(axis=0), np.arange(runs)].any(axis=-1))


def _low_in_top(plan: Plan, runs: int, m: int) -> NDArray[np.bool_]:
    event, answers = plan.event, plan.compiled.answers
    if isinstance(event, GeometricTopK):
        return _top_is_low(add_geometric(np.zeros((runs, answers), dtype=np.int64), scale=event.scale), plan, m)
    assert isinstance(event, ExponentialSelect)
    assert plan.query.top is not None
    # Exponential selection without replacement is the order of the utilities plus Gumbel noise.
    rate = float(event.range) / plan.compiled.sensitivity.linf / (1 if plan.compiled.monotone else 2)
    return _top_is_low(np.random.default_rng(1).gumbel(size=(runs, answers)) / rate, plan, m)


def _top_is_low(noise: NDArray[np.generic], plan: Plan, m: int) -> NDArray[np.bool_]:
    """k values lie m above all others; the promise is broken if one of the others is reported."""
    assert plan.query.top is not None
    k = plan.query.top.k
    values = noise.astype(float)
    values[:, :k] += m
    # Ties go to the value that is declared first; the low ones come first here, which is the worse case.
    return np.asarray(values[:, k:].max(axis=1) >= values[:, :k].min(axis=1))
