"""Several quantiles of one attribute: noise on one strategy for the ranks of all values, evaluated afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.base import ErrorRequirement, PricedMechanism
from siloquent.explore.plan.mechanisms.quantile import split_beta
from siloquent.explore.plan.mechanisms.strategy import (
    MAX_BITS,
    calibrate_gaussian,
    calibrate_laplace,
    choose_gaussian_bits,
)
from siloquent.explore.plan.mechanisms.strategy_choice import find_ranks_choice


def price_ranks(
    compiled: CompiledWorkload, shares: Sequence[Fraction], wanted: ErrorRequirement, *, pure: bool
) -> PricedMechanism | None:
    """Price the best strategy for the number of rows up to each value, less a share of all rows; None if not found.

    Args:
        compiled: Counts of each group's values, contiguous per group; its answers are the groups.
        shares: The quantiles' shares.
        wanted: All such numbers of all groups are within ``alpha``, except with probability ``beta``.
    Privacy:
        Pure (D1 / scale)-DP, or rho-zCDP with rho = D2^2 / (2 variance): the integer matrix A of one group is used in
        every group, and D1 and D2^2 are exact for all of them. Proof: docs/explanation/quantiles.md.
    """
    rows = compute_rank_errors(compiled.parts[0].columns // compiled.answers, shares)
    wanted = replace(wanted, beta=split_beta(wanted.beta, compiled.answers))
    if pure:
        offer = find_ranks_choice(compiled, rows, wanted.beta, norm="l1", bits=MAX_BITS)
        return calibrate_laplace(offer, wanted)
    bits = choose_gaussian_bits(wanted)
    return calibrate_gaussian(find_ranks_choice(compiled, rows, wanted.beta, norm="l2", bits=bits), wanted)


def compute_rank_errors(values: int, shares: Sequence[Fraction]) -> NDArray[np.float64]:
    """Compute n(<= v) - share n for all values v but the last, per share: shape (shares times values - 1, values).

    >>> compute_rank_errors(3, [Fraction(1, 2)]).tolist()
    [[0.5, -0.5, -0.5], [0.5, 0.5, -0.5]]
    """
    upto = np.tril(np.ones((values, values)))[:-1]
    return np.vstack([upto - float(share) for share in shares])
