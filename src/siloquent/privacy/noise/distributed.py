"""One party's share of noise; only the sum over enough honest parties is the noise that an event names."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.privacy.checks import build_refusal, require_int64, require_whole
from siloquent.privacy.noise.additive import add_gaussian
from siloquent.privacy.noise.bits import Source
from siloquent.privacy.noise.distributions import MagnitudeDistribution
from siloquent.privacy.noise.draws import add_draws

MIN_SHARE = 9
"""The least variance of a Gaussian share; the sum of shares is then within 4e-38 of its distribution per coordinate."""
MAX_TRIES = 2_000
"""The maximum average number of proposals for a Polya draw; scales that need more are refused."""


def add_gaussian_share(values: NDArray[np.int64], *, variance: Fraction | int, honest: int) -> NDArray[np.int64]:
    """Return ``values`` plus a share; the shares of ``honest`` parties sum to noise of at least ``variance``.

    Raises:
        RequestError: The variance is below 9 per share, where the sum is too far from a discrete Gaussian.
    Privacy:
        None by itself. The sum over ``honest`` parties is priced by ``SummedGaussian``.
    Source:
        "The Distributed Discrete Gaussian Mechanism" (ICML 2021).
    """
    parties = require_whole("number of honest parties", honest, least=1, most=10_000)
    share = Fraction(math.ceil(Fraction(variance) / parties))
    if share < MIN_SHARE:
        raise RequestError(
            f"A share of variance {float(Fraction(variance) / parties):.3g} is below {MIN_SHARE}: the sum would be "
            "too far from Gaussian noise.",
            fix="more rows, a smaller budget, or fewer honest parties",
        )
    return add_gaussian(values, variance=share)


def add_laplace_share(
    values: NDArray[np.int64], *, scale: Fraction | int, honest: int, source: Source = os.urandom
) -> NDArray[np.int64]:
    """Return ``values`` plus the difference of two Polya(1/honest) draws; ``honest`` shares are discrete Laplace noise.

    Raises:
        RequestError: The scale and number of parties would need over 2,000 proposals per draw; use Gaussian shares.
    Privacy:
        None by itself. The sum over ``honest`` parties is exactly discrete Laplace noise of ``scale``; more parties
        only add to it.
    Source:
        Infinite divisibility of the geometric distribution, as in "Differentially Private Aggregation of Distributed
        Time-Series" (SIGMOD 2010). A proposal g is geometric; it is kept with probability
        prod over j = 1..g of (h (j-1) + 1) / (h j), the ratio of the two mass functions. Proof:
        docs/explanation/sketch.md.
    """
    parties = require_whole("number of honest parties", honest, least=1, most=10_000)
    law, exact = MagnitudeDistribution.from_scale(scale), require_int64("values", values)
    # P[kept] = (1 - alpha)^(1 - 1/h) with alpha = exp(-1/scale).
    tries = (-math.expm1(-1 / float(Fraction(scale)))) ** (1 / parties - 1)
    if tries > MAX_TRIES:
        raise build_refusal(f"A share of Laplace noise of scale {float(scale):.3g} takes {tries:.0f} proposals a draw.")
    share = _draw_polya(exact.size, law, parties, source) - _draw_polya(exact.size, law, parties, source)
    return exact + share.reshape(exact.shape)


def _draw_polya(count: int, law: MagnitudeDistribution, honest: int, source: Source) -> NDArray[np.int64]:
    """Draw ``count`` Polya(1/honest, exp(-1/scale)) values, repeating proposals for those not accepted yet."""
    drawn = np.zeros(count, dtype=np.int64)
    open_ = np.arange(count)
    while open_.size:
        proposed = add_draws(np.zeros(open_.size, dtype=np.int64), "geometric", law, source=source)
        kept = _draw_survivors(proposed, honest, source)
        drawn[open_[kept]] = proposed[kept]
        open_ = open_[~kept]
    return drawn


def _draw_survivors(proposed: NDArray[np.int64], honest: int, source: Source) -> NDArray[np.bool_]:
    """Return which proposals pass all their factors (h (j-1) + 1) / (h j), each an exact coin of that probability."""
    kept = np.ones(proposed.size, dtype=np.bool_)
    if honest == 1:
        return kept
    alive, j = np.flatnonzero(proposed >= 1), 1
    while alive.size:
        passed = _draw_below(np.full(alive.size, honest * j), source) < honest * (j - 1) + 1
        kept[alive[~passed]] = False
        alive = alive[passed]
        j += 1
        alive = alive[proposed[alive] >= j]
    return kept


def _draw_below(bounds: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    """Draw uniform integers in [0, bound), exactly: words that would favour some of them are redrawn."""
    drawn = np.zeros(bounds.size, dtype=np.int64)
    open_ = np.arange(bounds.size)
    while open_.size:
        words = np.frombuffer(source(8 * open_.size), dtype=np.uint64) >> np.uint64(1)
        chosen = bounds[open_].astype(np.uint64)
        limit = np.uint64(2**63) - np.uint64(2**63) % chosen
        good = words < limit
        drawn[open_[good]] = (words[good] % chosen[good]).astype(np.int64)
        open_ = open_[~good]
    return drawn
