"""Releases of a whole function x -> sum of k(x, q): each is a fit on private rows that answers any query."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kernel = Callable[[Floats, Floats], Floats]
"""k(x, q) for all pairs of points, shapes (n, d), (m, d) -> (n, m)."""
Random = np.random.Generator


def bernstein(data: Floats, queries: Floats, kernel: Kernel, *, epsilon: float, degree: int, random: Random) -> Floats:
    """Noisy values on a lattice of [0, 1]^d and their iterated Bernstein polynomial (h = 2), shape (queries,).

    Source: "The Bernstein Mechanism" (AAAI 2017). The lattice has (degree + 1)^d points, so d = 1 or 2 here.
    """
    d = data.shape[1]
    axis = np.linspace(0, 1, degree + 1)
    lattice = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    exact = kernel(data, lattice).sum(axis=0)
    noisy = exact + random.laplace(0, (degree + 1) ** d / epsilon, exact.shape)
    # I - (I - B)^2 = 2 B - B B: B maps values on the lattice to the polynomial's values.
    at, on = _bernstein(queries, degree), _bernstein(lattice, degree)
    return np.asarray(2 * at @ noisy - at @ (on @ noisy))


def _bernstein(points: Floats, degree: int) -> Floats:
    """The weights of lattice values in the polynomial at each point, shape (points, lattice)."""
    from scipy.stats import binom

    k = np.arange(degree + 1)
    weights = np.ones((len(points), 1))
    for column in points.T:
        one = binom.pmf(k[None], degree, np.clip(column, 0, 1)[:, None])
        weights = (weights[:, :, None] * one[:, None]).reshape(len(points), -1)
    return weights


def spectral(data: Floats, queries: Floats, kernel: Kernel, *, epsilon: float, terms: int, random: Random) -> Floats:
    """An orthogonal series of the sum in cosines on [0, 1], with noisy coefficients; one dimension.

    Source: "A Statistical Framework for Differential Privacy" (JASA 2010), section 5.
    """
    fine = (np.arange(512) + 0.5) / 512
    basis = np.stack([np.ones(512), *(math.sqrt(2) * np.cos(math.pi * j * fine) for j in range(1, terms))])
    each = kernel(data, fine[:, None]) @ basis.T / 512  # one record's coefficients, shape (records, terms)
    public = kernel(np.linspace(0, 1, 257)[:, None], fine[:, None]) @ basis.T / 512
    l1 = np.abs(public).sum(axis=1).max()
    noisy = each.sum(axis=0) + random.laplace(0, l1 / epsilon, terms)
    x = queries[:, 0]
    at = np.stack([np.ones(len(x)), *(math.sqrt(2) * np.cos(math.pi * j * x) for j in range(1, terms))])
    return np.asarray(noisy @ at)


def gaussian_process(
    data: Floats, queries: Floats, kernel: Kernel, *, epsilon: float, delta: float, random: Random
) -> Floats:
    """The sum plus a Gaussian process with the kernel as covariance, at these queries: (epsilon, delta)-DP.

    Source: "Differential Privacy for Functions and Functional Data" (JMLR 2013), corollary 9.
    """
    exact = kernel(data, queries).sum(axis=0)
    covariance = kernel(queries, queries) + 1e-6 * np.eye(len(queries))
    process = np.linalg.cholesky(covariance) @ random.standard_normal(len(queries))
    return np.asarray(exact + math.sqrt(2 * math.log(2 / delta)) / epsilon * process)


def mean_embedding(
    data: Floats, queries: Floats, kernel: Kernel, *, epsilon: float, delta: float, points: Floats, random: Random
) -> Floats:
    """The kernel mean on the span of public ``points``, with noise on its coefficients in an orthonormal basis.

    Source: "Differentially Private Database Release via Kernel Mean Embeddings" (ICML 2018), algorithm 1.
    """
    gram = kernel(points, points) + 1e-8 * np.eye(len(points))
    lower = np.linalg.cholesky(gram)
    coefficients = np.linalg.solve(lower, kernel(points, data).sum(axis=1))  # |one record's part| <= 1
    deviation = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    noisy = coefficients + random.normal(0, deviation, len(points))
    weights = np.linalg.solve(lower.T, noisy)
    return np.asarray(kernel(queries, points) @ weights)


def noisy_grid(
    data: Floats,
    queries: Floats,
    kernel: Kernel,
    *,
    deviation: Callable[[tuple[int, ...]], Floats],
    cells: int,
    threshold: float,
) -> Floats:
    """A histogram of [0, 1]^d with noise, cut below ``threshold``; its cells' centres stand for their records.

    The honest rival in few dimensions: with cells^d centres the kernel sum is exact but for noise and rounding.
    """
    d = data.shape[1]
    index = np.minimum((data * cells).astype(int), cells - 1)
    flat = np.ravel_multi_index(tuple(index.T), (cells,) * d)
    counts = np.bincount(flat, minlength=cells**d).astype(float) + deviation((cells**d,))
    kept = np.flatnonzero(counts > threshold)
    centres = (np.stack(np.unravel_index(kept, (cells,) * d), axis=1) + 0.5) / cells
    parts = [counts[kept] @ kernel(centres, part) for part in np.array_split(queries, max(1, len(kept) // 4_000))]
    return np.concatenate(parts)


def p_stable_frequencies(bandwidth: float, shape: tuple[int, int], random: Random) -> Floats:
    """Frequencies (features, d) of the kernel of ``PStable(2, bandwidth)``.

    Given a, the kernel is a triangle in a.(x - q) / bandwidth, whose spectrum has density (1 - cos t) / (pi t^2). It is
    drawn by rejection from the lesser of 1 / (2 pi) and 2 / (pi t^2), of equal mass within 2 and beyond.
    """
    kept = np.zeros(0)
    while len(kept) < shape[0]:
        u = random.random(2 * shape[0])
        t = np.where(random.random(len(u)) < 0.5, 2 * u, 2 / np.maximum(u, 1e-12))
        most = np.minimum(0.5, 2 / t**2)
        kept = np.append(kept, t[random.random(len(u)) * most < (1 - np.cos(t)) / t**2])
    return np.asarray(random.standard_normal(shape) * kept[: shape[0], None] / bandwidth)


def fourier_features(data: Floats, queries: Floats, frequencies: Floats, *, epsilon: float, random: Random) -> Floats:
    """Random Fourier features of the kernel with these ``frequencies``, with Laplace noise on their sums.

    Source: "Fast Private Kernel Density Estimation via Locality Sensitive Quantization" (ICML 2023), with RFF.
    """
    features = len(frequencies)
    phases = random.uniform(0, 2 * math.pi, features)
    total = np.zeros(features)
    for part in np.array_split(data, max(1, len(data) // 2_000)):
        total += np.cos(part @ frequencies.T + phases).sum(axis=0)
    noisy = total + random.laplace(0, features / epsilon, features)
    return np.asarray(2 / features * np.cos(queries @ frequencies.T + phases) @ noisy)
