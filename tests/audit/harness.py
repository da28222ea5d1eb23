"""A black-box audit: draw many outputs on two neighbouring data sets, learn an event, and bound epsilon from below.

The outputs are split. On the first half a score is learnt over several projections and an event {score > t} is fixed;
on the second half its two probabilities are bounded by Clopper-Pearson. ``eps_low`` is below the true epsilon but with
probability ``gamma``. Both directions are tried. Rare events are missed: each mechanism has a proof besides.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

GAMMA = 1e-9
SCALE = float(os.environ.get("SILOQUENT_AUDIT_SCALE", "1"))  # nightly runs draw more
BINS = 64
Release = Callable[[Any, int], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The best lower bound on epsilon that was found, and the event that gave it."""

    eps_low: float
    claimed: float
    event: str
    draws: int

    @property
    def refuted(self) -> bool:
        """Whether the claim cannot be true."""
        return self.eps_low > self.claimed


def audit(
    release: Release, pair: tuple[Any, Any], *, epsilon: float, delta: float = 0.0, n: int, gamma: float = GAMMA
) -> AuditResult:
    """Try to refute that ``release`` is (``epsilon``, ``delta``)-DP on the neighbours ``pair``.

    Args:
        release: From data and a number of runs to outputs, shape (runs,) or (runs, values).
        n: Runs on each of the two; multiplied by SILOQUENT_AUDIT_SCALE.
        gamma: The chance to refute a true claim.
    """
    runs = int(n * SCALE)
    one, other = (_table(release(data, runs)) for data in pair)
    best = AuditResult(-math.inf, epsilon, "none", runs)
    for first, second, way in ((one, other, "forth"), (other, one, "back")):
        name, inside = _learnt(first[: runs // 2], second[: runs // 2], delta)
        hits = [int(inside(part[runs // 2 :]).sum()) for part in (first, second)]
        found = _bound(hits[0], hits[1], runs - runs // 2, delta, gamma / 2)
        if found > best.eps_low:
            best = AuditResult(found, epsilon, f"{name}, {way}: {hits[0]} against {hits[1]}", runs)
    return best


def assert_private(release: Release, pair: tuple[Any, Any], **claim: Any) -> None:
    """The claim is not refuted."""
    found = audit(release, pair, **claim)
    assert not found.refuted, f"epsilon is at least {found.eps_low:.4f}, claimed {found.claimed:.4f} ({found.event})"


def exact_epsilon(channel: NDArray[np.float64]) -> float:
    """The epsilon of a finite mechanism from its matrix, shape (inputs, outputs): no sampling needed."""
    with np.errstate(divide="ignore"):
        logs = np.log(channel)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def _table(outputs: NDArray[Any]) -> NDArray[np.float64]:
    table = np.asarray(outputs, dtype=np.float64)
    return table[:, None] if table.ndim == 1 else table


def _projections(sample: NDArray[np.float64]) -> Iterator[tuple[str, Callable[[NDArray[np.float64]], Any]]]:
    width = sample.shape[1]
    for i in range(min(width, 8)):
        yield f"value {i}", lambda x, i=i: x[:, i]
    if width > 1:
        yield "sum", lambda x: x.sum(axis=1)
        yield "place of the largest", lambda x: x.argmax(axis=1)
        yield "largest", lambda x: x.max(axis=1)
        yield "order", lambda x: x @ (np.arange(1, x.shape[1] + 1) ** 2.0)
    yield "low bit", lambda x: np.mod(x[:, 0], 2)


def _learnt(
    first: NDArray[np.float64], second: NDArray[np.float64], delta: float
) -> tuple[str, Callable[[NDArray[np.float64]], NDArray[np.bool_]]]:
    """The event, among all projections, that the first half favours most."""
    candidates = list(_projections(first))
    weights = _discriminant(first, second)
    candidates.append(("discriminant", lambda x: _features(x) @ weights))
    best: tuple[float, str, Callable[[NDArray[np.float64]], NDArray[np.bool_]]] | None = None
    for name, project in candidates:
        one, other = project(first), project(second)
        edges = _edges(np.concatenate([one, other]))
        counts = [
            np.bincount(np.searchsorted(edges, part, side="right"), minlength=len(edges) + 1) for part in (one, other)
        ]
        ratio = np.log((counts[0] + 1) / (counts[1] + 1))
        order = np.argsort(-ratio)
        reached = [np.cumsum(part[order]) for part in counts]
        bounds = [_bound(int(k), int(j), len(first), delta, 1e-3) for k, j in zip(*reached, strict=True)]
        top = int(np.argmax(bounds))
        if best is None or bounds[top] > best[0]:
            chosen = np.zeros(len(edges) + 1, dtype=bool)
            chosen[order[: top + 1]] = True
            best = bounds[top], name, _inside(project, edges, chosen)
    assert best is not None
    return best[1], best[2]


def _inside(
    project: Callable[[NDArray[np.float64]], Any], edges: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> Callable[[NDArray[np.float64]], NDArray[np.bool_]]:
    return lambda x: chosen[np.searchsorted(edges, project(x), side="right")]


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    distinct = np.unique(values)
    if len(distinct) <= 4 * BINS:
        return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))


def _features(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hstack([x, x * x]) if x.shape[1] <= 64 else x


def _discriminant(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    one, other = _features(first), _features(second)
    spread = one.var(axis=0) + other.var(axis=0) + 1e-12
    return (one.mean(axis=0) - other.mean(axis=0)) / spread


def _bound(hits: int, others: int, n: int, delta: float, gamma: float) -> float:
    """ln((p_low - delta) / q_high) with Clopper-Pearson bounds at ``gamma`` / 2 each."""
    low = float(betaincinv(hits, n - hits + 1, gamma / 2)) if hits else 0.0
    high = float(betaincinv(others + 1, n - others, 1 - gamma / 2)) if others < n else 1.0
    return math.log((low - delta) / high) if low > delta else -math.inf
