"""Factorisations W = R A for Gaussian noise: columns of A of length 1, the longest row of R as short as possible."""

from __future__ import annotations

import numpy as np

from siloquent.maths.blas import limit_to_one_thread
from siloquent.maths.strategies.base import Asked, Reals, Strategy

_Q = 60


def build_toeplitz_root(cells: int) -> Reals:
    """Return the lower triangular square root of the prefix workload: A_ij = c_(i-j), c_k = c_(k-1) (2k - 1)/(2k)."""
    k = np.arange(1, cells)
    c = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    place = np.arange(cells)
    return np.where(place[:, None] >= place, c[np.abs(place[:, None] - place)], 0.0)


def build_balanced_root(W: Reals) -> Reals:
    """Return the square root of W'W, slightly regularised: a start for workloads without an order."""
    values, vectors = np.linalg.eigh(W.T @ W)
    root = np.sqrt(np.sqrt(np.maximum(values, 0.0)) + 1e-2 * np.sqrt(values.max()))
    return np.asarray((vectors * root) @ vectors.T)


def compute_noise_norm(X: Reals, W: Reals, q: int = _Q) -> tuple[float, Reals]:
    """Return the l_q norm of the answers' variances for A = X with unit columns, and its gradient in X."""
    length = np.sqrt((X * X).sum(axis=0))
    A = X / length
    B = np.linalg.solve(A.T @ A, W.T).T  # W (A'A)^-1
    v = np.einsum("rc,rc->r", B, W)
    top = v.max()
    f = top * float(((v / top) ** q).sum()) ** (1 / q)
    s = (v / f) ** (q - 1)
    G = -2 * ((A @ B.T) * s) @ B
    return float(f), (G - A * (A * G).sum(axis=0)) / length


def find_best_factorisation(workload: Asked, *, steps: int) -> Strategy:
    """Return the better of two tuned factorisations, from the Toeplitz root and from the root of W'W."""
    from scipy.optimize import minimize

    W = workload.astype(np.float64)
    shape = (W.shape[1], W.shape[1])

    def objective(flat: Reals) -> tuple[float, Reals]:
        value, slope = compute_noise_norm(flat.reshape(shape), W)
        return float(np.log(value)), slope.reshape(-1) / value

    options = {"maxiter": steps, "maxfun": 2 * steps}
    with limit_to_one_thread():
        starts = sorted(
            (build_toeplitz_root(shape[0]), build_balanced_root(W)), key=lambda X: compute_noise_norm(X, W)[0]
        )
        best = minimize(objective, starts[0].reshape(-1), jac=True, method="L-BFGS-B", options=options)
    X = best.x.reshape(shape)
    return Strategy("factorisation", X / np.sqrt((X * X).sum(axis=0)))
