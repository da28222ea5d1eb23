"""Black-box audits: draw many outputs on two neighbours, learn an event, bound epsilon from below.

    assert_private(release, (data, neighbour), epsilon=1.0, n=200_000)     # fails if the claim cannot be true
    assert_caught(faulty_release, (data, neighbour), epsilon=1.0, n=200_000)  # fails if the fault goes unnoticed

``release(data, n)`` runs the mechanism ``n`` times and gives one row of numbers a run. A quarter of the outputs teaches
scores, the next one chooses a score and a threshold t; the event {score > t} is then fixed, and the other half bounds
its two chances by Clopper-Pearson. So ``eps_low`` lies above the true epsilon with a chance of at most ``gamma``,
however the event was found. Black-box tests miss rare events: each mechanism has a proof in docs/explanation besides.
docs/explanation/audit.md tells what the numbers mean.
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

#: A right mechanism is refuted by one audit in a thousand million: 300 audits a run never flicker.
GAMMA = 1e-9
#: Nightly runs and benchmarks draw more: SILOQUENT_AUDIT_SCALE=10 multiplies every ``n``.
SCALE = float(os.environ.get("SILOQUENT_AUDIT_SCALE", "1"))

CELLS = 64  # of a projection with more distinct values than WHOLE
WHOLE = 2_048  # up to here every distinct value is a cell of its own
FITTED = 40_000  # outputs that a linear score is fitted on

Table = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
Release = Callable[[Any, int], NDArray[Any]]
Projection = Callable[[Table], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The best lower bound on epsilon in both directions, and the event that gave it."""

    eps_low: float
    epsilon: float
    delta: float
    gamma: float
    event: str
    hits: tuple[int, int]  # how often the event happened on the likelier and on the other data
    trials: int  # of each

    @property
    def refuted(self) -> bool:
        """Whether the claim cannot be true, but with chance ``gamma``."""
        return self.eps_low > self.epsilon

    def __str__(self) -> str:
        claim = f"epsilon {self.epsilon:.6g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        one, other = self.hits
        return (
            f"claimed {claim}; found epsilon >= {self.eps_low:.4f} (chance of error {self.gamma:.0e}): the event "
            f"'{self.event}' happened {one:,} times in {self.trials:,} on one side, {other:,} times on the other"
        )


def audit(
    release: Release, pair: tuple[Any, Any], *, epsilon: float, delta: float = 0.0, n: int, gamma: float = GAMMA
) -> AuditResult:
    """Try to refute that ``release`` is (``epsilon``, ``delta``)-DP on the neighbours ``pair``, in both directions.

    Args:
        release: From data and a number of runs to outputs, shape (runs,) or (runs, values). Encode an error, a missing
            key or a length as a number of its own: whatever an observer sees belongs into the row.
        n: Runs on each of the two, times SCALE. Power at epsilon 1: noise a tenth short is caught from some 2 x 10^5.
        gamma: The chance to refute a claim that is true.
    """
    runs = max(4, int(n * SCALE))
    one, other = (as_table(release(data, runs)) for data in pair)
    results = [
        _one_way(first, second, way, epsilon, delta, gamma)
        for first, second, way in ((one, other, "on the first"), (other, one, "on the second"))
    ]
    return max(results, key=lambda result: result.eps_low)


def assert_private(release: Release, pair: tuple[Any, Any], **claim: Any) -> None:
    """The claim is not refuted."""
    found = audit(release, pair, **claim)
    assert not found.refuted, f"A claim is refuted: {found}"


def assert_caught(release: Release, pair: tuple[Any, Any], **claim: Any) -> None:
    """The claim is refuted: what every planted fault must show."""
    found = audit(release, pair, **claim)
    assert found.refuted, f"A planted fault goes unnoticed: {found}"


def exact_epsilon(channel: NDArray[np.float64]) -> float:
    """The epsilon of a finite mechanism from its chances, shape (inputs, outputs), all inputs neighbours of each other.

    No sampling, so no error. An output that only some inputs give makes it infinite.
    """
    assert channel.min() >= 0, "no chance is negative"
    assert np.allclose(channel.sum(axis=1), 1, rtol=0, atol=1e-9), "each row of a channel sums to 1"
    possible = channel[:, channel.max(axis=0) > 0]
    with np.errstate(divide="ignore"):
        logs = np.log(possible)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def clopper_pearson(hits: Any, trials: int, miss: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A chance's lower and upper bound, each wrong with chance ``miss`` at most. ``hits`` may be an array."""
    k = np.asarray(hits, dtype=float)
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, miss), 0.0)
    high = np.where(k < trials, betaincinv(k + 1, np.maximum(trials - k, 1), 1 - miss), 1.0)
    return low, high


def eps_low(hits: Any, others: Any, trials: int, *, delta: float, gamma: float) -> NDArray[np.float64]:
    """ln((p_low - delta) / q_high), each bound at ``gamma`` / 2; minus infinity where nothing is learnt."""
    low, _ = clopper_pearson(hits, trials, gamma / 2)
    _, high = clopper_pearson(others, trials, gamma / 2)
    return np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -math.inf)


def as_table(outputs: NDArray[Any]) -> Table:
    """Outputs as rows of floats; whole numbers beyond 2^53 would lose the bits that an audit should look at."""
    table = np.asarray(outputs)
    if table.dtype.kind == "i" and table.size:
        assert abs(table).max() <= 2**53, "shift the data of this audit towards zero: its bits do not fit a float"
    return table.astype(np.float64).reshape(len(table), -1)


@dataclass(frozen=True, slots=True)
class _Event:
    """Whether an output falls into the cells of a projection that the learning half favours."""

    name: str
    project: Projection
    edges: NDArray[np.float64]
    chosen: Flags
    promise: float  # the bound on the outputs that chose it: a little too high, since it is the best of many

    def count(self, outputs: Table) -> int:
        return int(self.chosen[np.searchsorted(self.edges, self.project(outputs), side="right")].sum())


def _one_way(first: Table, second: Table, way: str, epsilon: float, delta: float, gamma: float) -> AuditResult:
    half = len(first) // 2
    event = _learn(first[:half], second[:half], delta)
    hits = event.count(first[half:]), event.count(second[half:])
    trials = len(first) - half
    bound = float(eps_low(*hits, trials, delta=delta, gamma=gamma))
    return AuditResult(bound, epsilon, delta, gamma, f"{event.name}, likelier {way}", hits, trials)


def _learn(first: Table, second: Table, delta: float) -> _Event:
    """The most promising event over all projections.

    Scores are fitted on one half and judged by the other: of thousands of cells with a few outputs each, those that
    luck favours would promise more than any true event.
    """
    half = len(first) // 2
    fitted, judges = (first[:half], second[:half]), (first[half:], second[half:])
    return max(
        (_favoured(name, project, fitted, judges, delta) for name, project in projections(*fitted)),
        key=lambda event: event.promise,
    )


def _favoured(
    name: str, project: Projection, fitted: tuple[Table, Table], judges: tuple[Table, Table], delta: float
) -> _Event:
    """The cells of one projection in the order of their smoothed log-ratio, cut where the judges' bound is best."""
    edges = _edges(np.concatenate([project(side) for side in fitted]))
    learnt, judged = ([_histogram(project(side), edges) for side in sides] for sides in (fitted, judges))
    order = np.argsort(-np.log((learnt[0] + 1.0) / (learnt[1] + 1.0)), kind="stable")
    # A looser gamma than in the verdict: here it only says how much a small cell is worth.
    reached, others = (np.cumsum(side[order]) for side in judged)
    bounds = eps_low(reached, others, len(judges[0]), delta=delta, gamma=1e-4)
    best = int(np.argmax(bounds))
    chosen = np.zeros(len(edges) + 1, dtype=bool)
    chosen[order[: best + 1]] = True
    return _Event(name, project, edges, chosen, float(bounds[best]))


def projections(first: Table, second: Table) -> Iterator[tuple[str, Projection]]:
    """What an attacker might look at. Every one maps outputs (runs, values) to one number a run."""
    width = first.shape[1]
    for i in range(min(width, 32)):
        yield f"value {i}", _value(i)
        yield f"last bits of value {i}", _last_bits(i)
    if width > 1:
        yield "sum", lambda x: x.sum(axis=1)
        yield "largest", lambda x: x.max(axis=1)
        yield "place of the largest", lambda x: x.argmax(axis=1)
        yield "spread", lambda x: x.max(axis=1) - x.min(axis=1)
        yield "equal neighbours", lambda x: (x[:, 1:] == x[:, :-1]) @ 2.0 ** -np.arange(1, width)
        yield "all values together", _together(first, second)
        yield "score of each value, added up", _additive(first, second)
        yield "logistic score", _logistic(first, second)


def _value(i: int) -> Projection:
    return lambda x: x[:, i]


def _last_bits(i: int) -> Projection:
    return lambda x: np.mod(x[:, i], 8)


def _together(first: Table, second: Table) -> Projection:
    """Each whole output as a number of its own: exact for choices and short lists, useless for wide noise."""
    width = first.shape[1]
    low = np.minimum(first.min(axis=0), second.min(axis=0))
    sizes = np.maximum(first.max(axis=0), second.max(axis=0)) - low + 1
    # Sizes that do not fit are cut to what does; outputs that then share a number are told apart by other scores.
    steps = np.concatenate([[1.0], np.cumprod(np.minimum(sizes, 2.0 ** (52 / width)))[:-1]])
    return lambda x: np.floor(np.clip(x - low, 0, sizes)) @ steps


def _additive(first: Table, second: Table) -> Projection:
    """The sum of each value's own smoothed log-ratio: the best score there is where values have independent noise."""
    width = min(first.shape[1], 64)
    parts = []
    for i in range(width):
        edges = _edges(np.concatenate([first[:, i], second[:, i]]), whole=256)
        one, other = _histogram(first[:, i], edges), _histogram(second[:, i], edges)
        # Ten more of each: a cell that three outputs fell into says nothing.
        parts.append((edges, np.log((one + 10.0) / (other + 10.0))))

    def score(x: Table) -> NDArray[np.float64]:
        total = np.zeros(len(x))
        for i, (edges, ratio) in enumerate(parts):
            total += ratio[np.searchsorted(edges, x[:, i], side="right")]
        return total

    return score


def _logistic(first: Table, second: Table) -> Projection:
    """A logistic model of the side an output comes from, on values and their squares: a few Newton steps."""
    sides = [side[:FITTED] for side in (first, second)]
    stacked = np.concatenate(sides)
    centre, scale = np.median(stacked, axis=0), stacked.std(axis=0) + 1e-12

    def features(x: Table) -> Table:
        z = np.clip((x - centre) / scale, -8, 8)
        return np.hstack([z, z * z, np.ones((len(x), 1))])

    known, label = features(stacked), np.repeat([1.0, 0.0], [len(side) for side in sides])
    weights = np.zeros(known.shape[1])
    for _ in range(6):
        chance = 1 / (1 + np.exp(-np.clip(known @ weights, -30, 30)))
        slope = known.T @ (label - chance) - 1e-3 * weights
        curve = (known * (chance * (1 - chance))[:, None]).T @ known + 1e-3 * np.eye(len(weights))
        weights = weights + np.linalg.solve(curve, slope)
    return lambda x: features(x) @ weights


def _histogram(values: NDArray[Any], edges: NDArray[np.float64]) -> Counts:
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)


def _edges(values: NDArray[Any], *, whole: int = WHOLE) -> NDArray[np.float64]:
    """Cut points between cells: every distinct value up to ``whole`` of them, else quantiles."""
    distinct = np.unique(np.asarray(values, dtype=np.float64))
    if len(distinct) <= whole:
        return np.asarray((distinct[1:] + distinct[:-1]) / 2)
    # Quantiles that are fine at both ends, where the log-ratio of noise is largest.
    ends = 2.0 ** -np.arange(2, 13)
    shares = np.unique(np.concatenate([np.linspace(0, 1, CELLS + 1)[1:-1], ends, 1 - ends]))
    return np.unique(np.quantile(values, shares))
