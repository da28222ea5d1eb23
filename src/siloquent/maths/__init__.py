"""The mathematics of noisy counts: arrays and numbers in, arrays and numbers out; no rows, no schema, no noise.

    workloads     histogram, prefix, product · merge_columns(W) -> (W, column of each cell) · is_disjoint, is_nested,
                  is_monotone · chain(W) -> order of the predicates in which answers grow, or None
    sensitivity   sensitivities([W_1, W_2, ..], replace_one=.., rows=..) -> Sensitivity(l1, l2_squared, linf)
    promises      smallest_breaking(alpha, grid) -> m · largest_scale(law, m, beta) -> Fraction k/1024 ·
                  smallest_error(law, scale, beta) -> m. Laws: LaplaceValues(L) LaplaceAbove(L) LaplaceTop(L, k)
                  GeometricTop(L, k) PermuteAndFlip(candidates) ExponentialSelect(candidates) ExponentialRounds(L, k)
                  GaussianValues(L) GaussianAbove(L) GaussianTop(L, k)
    strategies    laplace_strategy([W_1, ..], beta=.., two_sided=.., seed=..) and gaussian_strategy(..) -> Calibrated:
                  .scale(alpha) in quanta, .error(scale), .strategy.blocks (whole A_B), .strategy.reconstructions (R_B)
    calibration   laplace_factor(R, beta, ..) and gaussian_factor(R, beta, ..) -> Factor(value = kappa, method)
    tails, sums   laplace_tail, geometric_tail, gaussian_tail, normal_tail, sidak · union_tails(R, beta, ..)

What a scale costs (D1, D2^2, Dinf from ``sensitivities``; rationals throughout; signed: not monotone):

    Laplace on W      epsilon = D1 / scale          GeometricTop       epsilon = k Dinf / scale (twice if signed)
    strategy, l1      epsilon = D1(A) / scale       PermuteAndFlip     epsilon = 2 Du / scale
    Gaussian on W     rho = D2^2 / (2 scale^2)      ExponentialSelect  range g = 2 Du / scale, rho = g^2 / 8
    strategy, l2      rho = D2^2(A) / (2 scale^2)   ExponentialRounds  k ranges g = Dinf / scale (twice ..)
"""

from siloquent.maths.calibration import Factor, gaussian_factor, laplace_factor
from siloquent.maths.promises import (
    ExponentialRounds,
    ExponentialSelect,
    GaussianAbove,
    GaussianTop,
    GaussianValues,
    GeometricTop,
    LaplaceAbove,
    LaplaceTop,
    LaplaceValues,
    Law,
    PermuteAndFlip,
    largest_scale,
    smallest_breaking,
    smallest_error,
)
from siloquent.maths.sensitivity import Sensitivity, sensitivities
from siloquent.maths.strategies import (
    Calibrated,
    Strategy,
    WholeStrategy,
    gaussian_strategy,
    laplace_strategy,
    product_strategy,
    quantise,
    reconstruct,
)
from siloquent.maths.sums import union_tails
from siloquent.maths.tails import gaussian_tail, geometric_tail, laplace_tail, normal_quantile, normal_tail, sidak
from siloquent.maths.workloads import (
    chain,
    histogram,
    is_disjoint,
    is_monotone,
    is_nested,
    merge_columns,
    prefix,
    product,
)

__all__ = [
    "Calibrated",
    "ExponentialRounds",
    "ExponentialSelect",
    "Factor",
    "GaussianAbove",
    "GaussianTop",
    "GaussianValues",
    "GeometricTop",
    "LaplaceAbove",
    "LaplaceTop",
    "LaplaceValues",
    "Law",
    "PermuteAndFlip",
    "Sensitivity",
    "Strategy",
    "WholeStrategy",
    "chain",
    "gaussian_factor",
    "gaussian_strategy",
    "gaussian_tail",
    "geometric_tail",
    "histogram",
    "is_disjoint",
    "is_monotone",
    "is_nested",
    "laplace_factor",
    "laplace_strategy",
    "laplace_tail",
    "largest_scale",
    "merge_columns",
    "normal_quantile",
    "normal_tail",
    "prefix",
    "product",
    "product_strategy",
    "quantise",
    "reconstruct",
    "sensitivities",
    "sidak",
    "smallest_breaking",
    "smallest_error",
    "union_tails",
]
