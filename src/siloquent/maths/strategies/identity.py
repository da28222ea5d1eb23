"""p-Identity strategies: every cell once, and p weighted sums of cells, tuned to the workload.

A = [I; T] D with T >= 0 of shape (p, cells) and D = diag(1 / (1 + column sums of T)), so that every column sums to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from siloquent.maths.blas import limit_to_one_thread
from siloquent.maths.strategies.base import Asked, Reals, Strategy

_Q = 4
_FIRST_STEPS = 40
_PROMISING = 2
_HEAVIEST = 1e3  # beyond, the low-rank inverse loses its precision


def build_identity_strategy(T: Reals) -> Reals:
    """Return A = [I; T] D, shape (cells + p, cells)."""
    D = 1 / (1 + T.sum(axis=0))
    return np.vstack([np.diag(D), T * D])


def compute_noise_norm(T: Reals, W: Reals, q: int = _Q) -> tuple[float, Reals]:
    """Return the l_q norm of the answers' variances w (A'A)^-1 w', and its gradient in T.

    Source:
        "Optimizing error of high-dimensional statistical queries under differential privacy" (PVLDB 2018) for the
        family and the low-rank inverse; the objective is ours: an l_q norm stands for the largest error, not the mean.
    """
    D = 1 / (1 + T.sum(axis=0))
    K = np.linalg.inv(np.eye(len(T)) + T @ T.T)
    scaled = W / D
    B = (scaled - (scaled @ T.T) @ K @ T) / D  # W (A'A)^-1
    v = np.einsum("rc,rc->r", B, W)
    top = v.max()
    f = top * float(((v / top) ** q).sum()) ** (1 / q)
    s = (v / f) ** (q - 1)
    # With Y = B' diag(s) B, the gradient in A is -2 A Y: its upper part is needed on the diagonal only.
    upper = -2 * D * np.einsum("r,rc,rc->c", s, B, B)
    lower = -2 * ((T * D) @ B.T * s) @ B
    slope = D * lower - D * D * (upper + np.einsum("pc,pc->c", T, lower))
    return float(f), slope


def find_best_identity(workload: Asked, *, p: int, starts: int, steps: int, seed: int) -> Strategy:
    """Return the best of several p-Identity strategies, each tuned by L-BFGS-B from a random start."""
    from scipy.optimize import minimize

    W = workload.astype(np.float64)
    random = np.random.default_rng([seed, p])
    shape = (p, W.shape[1])

    def objective(flat: Reals) -> tuple[float, Reals]:
        value, slope = compute_noise_norm(flat.reshape(shape), W)
        # The logarithm makes the stopping rule one of relative improvement, whatever the size of the counts.
        return float(np.log(value)), slope.reshape(-1) / value

    bounds = [(0.0, _HEAVIEST)] * (p * W.shape[1])

    def tuned(start: Reals, most: int) -> Any:
        options = {"maxiter": most, "maxfun": 2 * most}
        return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)

    with limit_to_one_thread():
        # Poor starts show early: a few steps for all of them, the remaining ones for the most promising.
        tried = [tuned(random.random(p * W.shape[1]), min(_FIRST_STEPS, steps)) for _ in range(starts)]
        tried.sort(key=lambda run: float(run.fun))
        runs = [tuned(run.x, steps) for run in tried[:_PROMISING]]
    best = min(runs, key=lambda run: float(run.fun))
    return Strategy(f"{p}-Identity", build_identity_strategy(np.maximum(best.x.reshape(shape), 0.0)))
