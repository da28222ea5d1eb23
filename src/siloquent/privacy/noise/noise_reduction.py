"""Noise that can be reduced in steps; each step is exactly discrete Laplace and is derived from the next."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.checks import build_refusal, require_whole
from siloquent.privacy.enclosures import Enclosure, enclose_exp_minus
from siloquent.privacy.noise.bernoulli_draws import draw_coins
from siloquent.privacy.noise.distributions import MagnitudeDistribution
from siloquent.privacy.noise.draws import add_draws
from siloquent.privacy.noise.probability import Weight


def draw_noise_chain(size: int, *, scales: tuple[Fraction, ...]) -> NDArray[np.int64]:
    """Draw noise vectors for decreasing scales, backwards from the last, which is the most accurate.

    Args:
        size: Entries of each vector, independent of one another.
        scales: b_1 > b_2 > ... > b_m > 0, each as in ``add_laplace``; m >= 1.
    Returns:
        Shape (m, size). Every entry of row i is exactly discrete Laplace of scale b_i, and rows 1..i are a random
        function of only row i + 1.
    Raises:
        RequestError: No scale, a float, scales that do not decrease, or something out of range.
    Privacy:
        Values plus rows 1..i are post-processing of values plus row i, so showing them is (L1 / b_i)-DP; a stop index
        that depends on rows 1..i is covered by b_i (pure, ex post). Proof: docs/explanation/discrete-laplace.md.
    Source:
        "Accuracy First" (NIPS 2017) for the idea with continuous noise; the discrete chain is ours.
    """
    require_whole("size", size, least=0, most=2**40)
    if not scales or any(not coarse > fine for coarse, fine in pairwise(scales)):
        raise build_refusal(f"A noise chain needs at least one scale, and scales that decrease, not {scales}.")
    laws = [MagnitudeDistribution.from_scale(scale) for scale in scales]
    nothing = np.zeros(size, dtype=np.int64)
    rows = [add_draws(nothing, "laplace", laws[-1])]
    for i in range(len(scales) - 2, -1, -1):
        stay = draw_coins(build_unchanged_weight(Fraction(scales[i]), Fraction(scales[i + 1])), size=size)
        rows.append(np.where(stay, rows[-1], add_draws(rows[-1], "laplace", laws[i])))
    return np.stack(rows[::-1])


def build_unchanged_weight(coarse: Fraction, fine: Fraction) -> Weight:
    """Build the weight q (1 - P)^2 / (P (1 - q)^2), P = exp(-1/coarse), q = exp(-1/fine), of a step that adds nothing.

    With x = 1/coarse < y = 1/fine it is exp(-(y - x)) ((1 - exp(-x)) / (1 - exp(-y)))^2, free of cancellation.
    """
    x, y = 1 / coarse, 1 / fine

    def enclose(n: int) -> Enclosure:
        # 1 - exp(-x) >= x/2 >= 2^-51: 128 more bits leave 77 of relative precision beyond n.
        work = n + 128
        one = 1 << work
        factor, p, q = enclose_exp_minus(y - x, work), enclose_exp_minus(x, work), enclose_exp_minus(y, work)
        low = factor[0] * (one - p[1]) ** 2 // (one - q[0]) ** 2
        high = -(-factor[1] * (one - p[0]) ** 2 // (one - q[1]) ** 2)
        return low >> 128, -(-high >> 128)

    return Weight(enclose)
