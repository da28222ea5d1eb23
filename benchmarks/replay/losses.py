"""The privacy loss of each noise call between two tables, by formulas independent of the product's prices.

Nothing here reads a price, an event or a sensitivity of the product: the exact numbers on both sides, and the
parameters that the sampler got, are all there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from benchmarks.replay.tape import Call, Tape

ORDERS = (*range(2, 65), 80, 128, 256)


def loss(
    call: Call, other: Call, *, zcdp: bool, k: int = 1, stop: int | None = None, honest: int | None = None
) -> Fraction:
    """The most that this call can tell: epsilon, or rho where ``zcdp``.

    Args:
        honest: So many shares like this one are in what is shown.
        k: How many ids of noisy geometric counts are shown.
        stop: The last look of a chain that was shown.
    """
    moved = [int(a) - int(b) for a, b in zip(call.exact.ravel(), other.exact.ravel(), strict=True)]
    if not any(moved):
        return Fraction(0)
    if call.name == "add_gaussian":
        assert zcdp, "Gaussian noise has no epsilon"
        return Fraction(sum(x * x for x in moved)) / (2 * Fraction(call.settings["variance"]))
    if call.name == "add_gaussian_share":
        assert zcdp, "Gaussian noise has no epsilon"
        assert honest is not None, "a share of noise in no sum"
        share = math.ceil(Fraction(call.settings["variance"]) / call.settings["honest"])
        return Fraction(sum(x * x for x in moved), 2 * honest * share)
    if call.name == "add_laplace_share":
        assert honest is not None, "a share of noise in no sum"
        if call.settings["honest"] > honest:
            return Fraction(10**6)  # so few shares are not Laplace noise yet: 0 is far too likely
    pure = _pure(call, moved, k, stop)
    if call.name in ("select_exponential", "select_exponential_top_k"):
        rounds = call.settings.get("k", 1)
        return Fraction(rounds * pure**2 / 8 if zcdp else rounds * pure)
    return pure**2 / 2 if zcdp else pure


def _pure(call: Call, moved: Sequence[int], k: int, stop: int | None) -> Fraction:
    """The largest log-likelihood ratio of any output; of one round where there are several."""
    total, width = sum(map(abs, moved)), max(moved) - min(moved)
    if call.name in ("add_laplace", "add_laplace_share"):
        return Fraction(total) / Fraction(call.settings["scale"])
    if call.name == "draw_noise_chain":
        return Fraction(total) / Fraction(call.settings["scales"][-1 if stop is None else stop])
    if call.name == "add_geometric":
        # Ids hang on differences alone, so all counts may be shifted until none falls.
        return k * Fraction(width) / Fraction(call.settings["scale"])
    if call.name in ("permute_and_flip", "select_exponential", "select_exponential_top_k"):
        return Fraction(width) * Fraction(call.settings["rate"])
    raise AssertionError(f"nothing is known about {call.name}")


def told(call: Call, other: Call) -> float:
    """The log-likelihood ratio of what was drawn, either way, where it has a closed form; else 0."""
    one, two = call.exact.ravel().astype(np.float64), other.exact.ravel().astype(np.float64)
    if call.name == "add_laplace":
        given = np.asarray(call.given, dtype=np.float64).ravel()
        return abs(float((np.abs(given - two) - np.abs(given - one)).sum())) / float(call.settings["scale"])
    if call.name == "select_exponential":
        rate = float(call.settings["rate"])
        return abs(_log_chance(rate * one, call.given) - _log_chance(rate * two, call.given))
    if call.name == "permute_and_flip" and one.size <= 64:
        rate = float(call.settings["rate"])
        return abs(_log_flip(rate * one, call.given) - _log_flip(rate * two, call.given))
    return 0.0


def _log_chance(scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], at: int) -> float:
    top = scores.max()
    return float(scores[at] - top - math.log(np.exp(scores - top).sum()))


def _log_flip(scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], at: int) -> float:
    """ln P[permute-and-flip accepts ``at``]: ln p_at + ln of the integral over t of prod over others (1 - p_j t)."""
    chances = np.exp(scores - scores.max())
    points, weights = np.polynomial.legendre.leggauss(len(scores) // 2 + 1)
    t = (points + 1) / 2
    others = np.delete(chances, at)
    return float(scores[at] - scores.max() + math.log((weights / 2 * np.prod(1 - others[:, None] * t, axis=0)).sum()))


def sampled_epsilon(one: Tape, other: Tape, *, delta: float) -> float:
    """The epsilon at ``delta`` of all Gaussian steps on Poisson samples, each with the change that it really had."""
    calls = [(a, b) for a, b in zip(one.calls, other.calls, strict=True) if a.name == "sampled_gaussian"]
    if not calls:
        return 0.0
    sums = dict.fromkeys(ORDERS, 0.0)
    for (a, b), rate in zip(calls, one.rates, strict=True):
        square = float(((a.exact.astype(object) - b.exact.astype(object)) ** 2).sum())
        if square:
            for order in ORDERS:
                sums[order] += _renyi(order, float(rate), float(a.settings["variance"]) / square)
    return float(min(sums[a] + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1) for a in ORDERS))


def _renyi(order: int, rate: float, variance: float) -> float:
    """The divergence of whole ``order`` between (1 - q) N(0, s) + q N(1, s) and N(0, s), by its binomial sum."""
    logs = [
        math.log(math.comb(order, j))
        + (j * math.log(rate) if j else 0.0)
        + ((order - j) * math.log1p(-rate) if rate < 1 else (0.0 if j == order else -math.inf))
        + j * (j - 1) / (2 * variance)
        for j in range(order + 1)
    ]
    top = max(logs)
    return float((top + math.log(sum(math.exp(x - top) for x in logs))) / (order - 1))
