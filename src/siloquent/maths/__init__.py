"""The mathematics of noisy counts: arrays and numbers in, arrays and numbers out; no rows, no schema, no noise.

    workloads     build_histogram, build_prefix, build_product · merge_columns(W) -> (W, column of each cell) ·
                  is_disjoint, is_nested, is_monotone · find_chain(W) -> order in which answers grow, or None
    sensitivity   compute_sensitivity([W_1, W_2, ...], replace_one=..., rows=...) -> Sensitivity(l1, l2_squared, linf)
    promises      compute_breaking_error(alpha, grid) -> m · find_largest_scale(law, m, beta) -> Fraction k/1024 ·
                  find_smallest_error(law, scale, beta) -> m. Laws: LaplaceValues(L) LaplaceAbove(L) LaplaceTop(L, k)
                  GeometricTop(L, k) PermuteAndFlipTail(candidates) ExponentialSelectTail(candidates)
                  ExponentialRounds(L, k) GaussianValues(L) GaussianAbove(L) GaussianTop(L, k)
    strategies    choose_laplace_strategy([W_1, ...], beta=..., two_sided=..., seed=...) and choose_gaussian_strategy
                  -> CalibratedStrategy: .compute_scale(alpha) in quanta, .compute_error(scale),
                  .strategy.blocks (whole A_B), .strategy.reconstructions (R_B)
    calibration   compute_laplace_factor(R, beta, ...), compute_gaussian_factor(R, beta, ...) -> Factor (kappa, method)
    tails, sums   laplace_tail, gaussian_tail, normal_tail · build_union_tails(R, beta, ...)

The price of a scale (D1, D2^2, Dinf from ``compute_sensitivity``; rationals throughout; signed: not monotone):

    Laplace on W      epsilon = D1 / scale          GeometricTop       epsilon = k Dinf / scale (twice if signed)
    strategy, l1      epsilon = D1(A) / scale       PermuteAndFlip     epsilon = 2 Du / scale
    Gaussian on W     rho = D2^2 / (2 scale^2)      ExponentialSelect  range g = 2 Du / scale, rho = g^2 / 8
    strategy, l2      rho = D2^2(A) / (2 scale^2)   ExponentialRounds  k ranges g = Dinf / scale (twice ...)
"""

from siloquent.maths.sensitivity.linear import Sensitivity, compute_sensitivity
from siloquent.maths.strategies import (
    CalibratedStrategy,
    Strategy,
    WholeStrategy,
    choose_gaussian_strategy,
    choose_laplace_strategy,
    quantise,
    reconstruct,
)
from siloquent.maths.tails.calibration import Factor, compute_gaussian_factor, compute_laplace_factor
from siloquent.maths.tails.distributions import gaussian_tail, laplace_tail, normal_quantile, normal_tail
from siloquent.maths.tails.errors import (
    ErrorTail,
    ExponentialRounds,
    ExponentialSelectTail,
    GaussianAbove,
    GaussianTop,
    GaussianValues,
    GeometricTop,
    LaplaceAbove,
    LaplaceTop,
    LaplaceValues,
    PermuteAndFlipTail,
    compute_breaking_error,
    find_largest_scale,
    find_smallest_error,
)
from siloquent.maths.tails.laplace_sums import build_union_tails
from siloquent.maths.workloads import (
    build_histogram,
    build_prefix,
    build_product,
    find_chain,
    is_disjoint,
    is_monotone,
    is_nested,
    merge_columns,
)

__all__ = [
    "CalibratedStrategy",
    "ErrorTail",
    "ExponentialRounds",
    "ExponentialSelectTail",
    "Factor",
    "GaussianAbove",
    "GaussianTop",
    "GaussianValues",
    "GeometricTop",
    "LaplaceAbove",
    "LaplaceTop",
    "LaplaceValues",
    "PermuteAndFlipTail",
    "Sensitivity",
    "Strategy",
    "WholeStrategy",
    "build_histogram",
    "build_prefix",
    "build_product",
    "build_union_tails",
    "choose_gaussian_strategy",
    "choose_laplace_strategy",
    "compute_breaking_error",
    "compute_gaussian_factor",
    "compute_laplace_factor",
    "compute_sensitivity",
    "find_chain",
    "find_largest_scale",
    "find_smallest_error",
    "gaussian_tail",
    "is_disjoint",
    "is_monotone",
    "is_nested",
    "laplace_tail",
    "merge_columns",
    "normal_quantile",
    "normal_tail",
    "quantise",
    "reconstruct",
]
