"""The paper's mechanisms for linear models, rebuilt: what "Saibot" (PVLDB 2023) describes, with float noise.

All hide the replacement of one row. Records are [x1, ..., target] with norms of at most B; for unions only sums of
orders 1 and 2 are noisy, since the number of rows is public there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import Moments

Floats = NDArray[np.float64]
FAILED = math.inf


def gaussian_scale(delta_2: float, *, epsilon: float, delta: float) -> float:
    """The deviation of the classical Gaussian mechanism."""
    return math.sqrt(2 * math.log(1.25 / delta)) * delta_2 / epsilon


def union_sensitivity(bound: float, numbers: int, order: int = 2) -> float:
    """Algorithm 1 for unions: sqrt(sum of c_i B^(2i)), with c_i = 4, 2, or 1 for the even orders of one feature."""
    even = 1 if numbers == 1 else 2
    return math.sqrt(sum((4 if i % 2 else even) * bound ** (2 * i) for i in range(1, order + 1)))


def join_sensitivity(bound: float, numbers: int, order: int = 2) -> float:
    """Algorithm 1 for joins: the greater of a union's and that of a row that changes its key."""
    moved = math.sqrt(2 * sum(bound ** (2 * i) for i in range(order + 1)))
    return max(union_sensitivity(bound, numbers, order), moved)


def sums_of(rows: Floats) -> Moments:
    """Exact moments."""
    return Moments(float(len(rows)), rows.sum(axis=0), rows.T @ rows)


def noisy(exact: Moments, deviations: tuple[float, float, float], rng: np.random.Generator) -> Moments:
    """Moments with Gaussian noise of one deviation an order, independent on every monomial."""
    p = len(exact.sums)
    drawn = rng.normal(0, 1, (p, p))
    symmetric = np.triu(drawn) + np.triu(drawn, 1).T
    return Moments(
        exact.count + rng.normal(0, 1) * deviations[0],
        exact.sums + rng.normal(0, 1, p) * deviations[1],
        exact.second + symmetric * deviations[2],
    )


def fpm(exact: Moments, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float) -> Moments:
    """The factorised mechanism: one release, one deviation for all monomials."""
    sigma = gaussian_scale(union_sensitivity(bound, len(exact.sums)), epsilon=epsilon, delta=delta)
    return noisy(exact, (0.0, sigma, sigma), rng)


def tpm(exact: Moments, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float) -> Moments:
    """Every row with its own noise: the sums have that of all rows."""
    sigma = gaussian_scale(union_sensitivity(bound, len(exact.sums)), epsilon=epsilon, delta=delta)
    many = math.sqrt(exact.count) * sigma
    return noisy(exact, (0.0, many, many), rng)


def laplace_l1(bound: float, numbers: int) -> float:
    """The L1 sensitivity of orders 1 and 2: 2 (sqrt(m) B + (m + 1) B^2 / 2)."""
    return 2 * (math.sqrt(numbers) * bound + (numbers + 1) * bound**2 / 2)


def shuffled_epsilon(local: float, rows: float, delta: float) -> float:
    """What shuffled reports of ``local`` epsilon amount to; infinite where the bound says nothing (FOCS 2021)."""
    if local > math.log(max(rows / (16 * math.log(2 / delta)), 1e-9)):
        return math.inf
    grown = math.exp(local)
    inner = 8 * math.sqrt(grown * math.log(4 / delta) / rows) + 8 * grown / rows
    return math.log1p((grown - 1) / (grown + 1) * inner)


def local_epsilon(rows: float, *, epsilon: float, delta: float) -> float:
    """The greatest local epsilon that shuffling brings down to ``epsilon``; at least ``epsilon`` itself."""
    low, high = epsilon, max(epsilon, math.log(max(rows / (16 * math.log(2 / delta)), math.e)))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if shuffled_epsilon(middle, rows, delta) <= epsilon else (low, middle)
    return low


def shuffled(
    exact: Moments, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float, among: float
) -> Moments:
    """Every row with its own Laplace noise, reports shuffled among so many rows."""
    p = len(exact.sums)
    scale = laplace_l1(bound, p) / local_epsilon(among, epsilon=epsilon, delta=delta)
    # A sum of n independent Laplace draws is as good as normal.
    sigma = math.sqrt(2 * exact.count) * scale
    return noisy(exact, (0.0, sigma, sigma), rng)


def pure_fpm(exact: Moments, bound: float, rng: np.random.Generator, *, epsilon: float) -> Moments:
    """The factorised mechanism with Laplace noise."""
    p = len(exact.sums)
    scale = laplace_l1(bound, p) / epsilon
    drawn = rng.laplace(0, scale, (p, p))
    return Moments(
        exact.count,
        exact.sums + rng.laplace(0, scale, p),
        exact.second + np.triu(drawn) + np.triu(drawn, 1).T,
    )


def least_squares(moments: Moments, *, may_fail: bool = True) -> Floats | None:
    """Slopes and intercept for the last number; None where the normal equations fail (not positive definite).

    Args:
        may_fail: False solves them all the same, which is kinder to noisy moments.
    """
    p = len(moments.sums)
    design = np.zeros((p, p))
    design[:-1, :-1] = moments.second[:-1, :-1]
    design[:-1, -1] = design[-1, :-1] = moments.sums[:-1]
    design[-1, -1] = moments.count
    target = np.append(moments.second[:-1, -1], moments.sums[-1])
    try:
        if may_fail:
            np.linalg.cholesky(design)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.linalg.solve(design, target))


@dataclass(frozen=True, slots=True, eq=False)
class KeyedSums:
    """Of each key value: counts (d,), sums (d, p), products (d, p, p)."""

    counts: Floats
    sums: Floats
    second: Floats


def keyed_sums(rows: Floats, keys: NDArray[np.int64], values: int) -> KeyedSums:
    """Exact sums by key."""
    counts = np.bincount(keys, minlength=values).astype(np.float64)
    sums = np.stack([np.bincount(keys, weights=x, minlength=values) for x in rows.T], axis=1)
    p = rows.shape[1]
    second = np.stack(
        [np.bincount(keys, weights=rows[:, i] * rows[:, j], minlength=values) for i in range(p) for j in range(p)],
        axis=1,
    ).reshape(values, p, p)
    return KeyedSums(counts, sums.astype(np.float64), second.astype(np.float64))


def noisy_by_key(exact: KeyedSums, deviations: tuple[float, float, float], rng: np.random.Generator) -> KeyedSums:
    """Noise on every monomial of every key."""
    drawn = rng.normal(0, deviations[2], exact.second.shape)
    symmetric = np.triu(drawn) + np.swapaxes(np.triu(drawn, 1), 1, 2)
    return KeyedSums(
        exact.counts + rng.normal(0, deviations[0], exact.counts.shape),
        exact.sums + rng.normal(0, deviations[1], exact.sums.shape),
        exact.second + symmetric,
    )


def fpm_by_key(exact: KeyedSums, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float) -> KeyedSums:
    """Algorithm 1 for joins."""
    sigma = gaussian_scale(join_sensitivity(bound, exact.sums.shape[1]), epsilon=epsilon, delta=delta)
    return noisy_by_key(exact, (sigma, sigma, sigma), rng)


def fpm_opt_by_key(
    exact: KeyedSums, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float
) -> KeyedSums:
    """Algorithm 2: every order by itself with a third of the budget; 2 B^i for odd orders, sqrt 2 B^i for even ones."""
    each = [
        gaussian_scale((2 if i % 2 else math.sqrt(2)) * bound**i, epsilon=epsilon / 3, delta=delta / 3)
        for i in range(3)
    ]
    return noisy_by_key(exact, (each[0], each[1], each[2]), rng)


def joined(left: KeyedSums, right: KeyedSums) -> Moments:
    """The moments of the join, the left table's numbers first."""
    a, b = left, right
    own = np.einsum("d,dij->ij", b.counts, a.second)
    other = np.einsum("d,dij->ij", a.counts, b.second)
    cross = np.einsum("di,dj->ij", a.sums, b.sums)
    return Moments(
        float(a.counts @ b.counts),
        np.concatenate([b.counts @ a.sums, a.counts @ b.sums]),
        np.block([[own, cross], [cross.T, other]]),
    )


def unbiased(join: Moments, keys: int, left: int) -> Moments:
    """Proposition 6: cross products as if rows had met one to one, for a uniform key that tells nothing."""
    rows = math.sqrt(max(join.count, 1.0) * keys)
    mean, second = join.sums / join.count, join.second / join.count
    factor = (rows - 1) / (keys - 1)
    product = np.outer(mean[:left], mean[left:])
    cross = factor * second[:left, left:] - (rows - keys) / (keys - 1) * product
    second[:left, left:], second[left:, :left] = cross, cross.T
    return Moments(1.0, mean, second)


def apm_joined(
    left: KeyedSums, right: KeyedSums, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float
) -> Moments:
    """The trusted aggregator: exact sums over the join, noise for the largest fan-out that a key has on either side."""
    both = joined(left, right)
    fanout = float(max(left.counts.max(), right.counts.max()))
    delta_2 = fanout * join_sensitivity(bound, len(both.sums))
    sigma = gaussian_scale(delta_2, epsilon=epsilon, delta=delta)
    return noisy(both, (sigma, sigma, sigma), rng)


def randomised(keys: NDArray[np.int64], values: int, epsilon: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each key kept, or another one told in its stead: generalised randomised response."""
    kept = rng.random(len(keys)) < math.exp(epsilon) / (math.exp(epsilon) + values - 1)
    return np.where(kept, keys, (keys + rng.integers(1, values, len(keys))) % values)


def tpm_by_key(
    rows: Floats,
    keys: NDArray[np.int64],
    values: int,
    bound: float,
    rng: np.random.Generator,
    *,
    epsilon: float,
    delta: float,
) -> KeyedSums:
    """Every row with its own noise for half of epsilon, its key told at random for the other half."""
    exact = keyed_sums(rows, randomised(keys, values, epsilon / 2, rng), values)
    sigma = gaussian_scale(union_sensitivity(bound, rows.shape[1]), epsilon=epsilon / 2, delta=delta)
    return _noisy_rows(exact, sigma, rng)


def shuffled_by_key(
    rows: Floats,
    keys: NDArray[np.int64],
    values: int,
    bound: float,
    rng: np.random.Generator,
    *,
    epsilon: float,
    delta: float,
) -> KeyedSums:
    """As ``tpm_by_key`` with Laplace noise, and the local epsilon that shuffling the table's rows allows."""
    local = local_epsilon(float(len(rows)), epsilon=epsilon, delta=delta)
    exact = keyed_sums(rows, randomised(keys, values, local / 2, rng), values)
    return _noisy_rows(exact, math.sqrt(2) * laplace_l1(bound, rows.shape[1]) / (local / 2), rng)


def _noisy_rows(exact: KeyedSums, sigma: float, rng: np.random.Generator) -> KeyedSums:
    """Sums of rows that each have noise of this deviation; counts of what was told are exact."""
    each = np.sqrt(exact.counts) * sigma
    drawn = rng.normal(0, 1, exact.second.shape)
    symmetric = np.triu(drawn) + np.swapaxes(np.triu(drawn, 1), 1, 2)
    sums = exact.sums + rng.normal(0, 1, exact.sums.shape) * each[:, None]
    return KeyedSums(exact.counts, sums, exact.second + symmetric * each[:, None, None])


def fpm_opt_slope(rows: Floats, bound: float, rng: np.random.Generator, *, epsilon: float, delta: float) -> Floats:
    """The union polynomials for one feature: noise on n var(x) and n cov(x, y), each of sensitivity 4 B^2."""
    centred = rows - rows.mean(axis=0)
    exact = np.array([centred[:, 0] @ centred[:, 0], centred[:, 0] @ centred[:, 1]])
    # Both together, as one vector.
    sigma = gaussian_scale(math.sqrt(2) * 4 * bound**2, epsilon=epsilon, delta=delta)
    return np.asarray(exact + rng.normal(0, sigma, 2))


BY_KEY: dict[str, Callable[..., KeyedSums]] = {"FPM": fpm_by_key, "FPM-OPT": fpm_opt_by_key}


def picked(
    own: KeyedSums,
    offers: Sequence[KeyedSums],
    run: Callable[..., KeyedSums],
    bounds: tuple[float, float],
    rng: np.random.Generator,
    *,
    epsilon: float,
    delta: float,
) -> int:
    """The offer whose join explains most of own's last number when both sides are noisy; ties at random.

    Args:
        own: The request's exact sums of one feature and the target; ``offers``: of one number each.
        bounds: The greatest norm of a record of the request, and of an offer.
    """
    given = {"epsilon": epsilon, "delta": delta}
    asked, scores = run(own, bounds[0], rng, **given), []
    for exact in offers:
        offer = run(exact, bounds[1], rng, **given)
        # A provider's side is first made one row a key: the mean, as its authors do for 1:n joins.
        with np.errstate(all="ignore"):
            mean = np.clip(offer.sums / np.maximum(offer.counts, 1)[:, None], -bounds[1], bounds[1])
        one = KeyedSums(np.ones(len(mean)), mean, mean[:, :, None] * mean[:, None, :])
        scores.append(r2_of(joined(asked, one), [0, 2, 1]))
    return int(rng.choice(np.flatnonzero(np.array(scores) == max(scores))))


def r2_of(moments: Moments, order: Sequence[int]) -> float:
    """Of the model of the last number in ``order`` on the others; 0 where it fails."""
    sums, second = moments.sums[list(order)], moments.second[np.ix_(order, order)]
    beta = least_squares(Moments(moments.count, sums, second))
    if beta is None:
        return 0.0
    whole = second[-1, -1] - sums[-1] ** 2 / moments.count
    explained = beta[:-1] @ (second[:-1, -1] - sums[:-1] * sums[-1] / moments.count)
    return float(explained / whole) if whole > 0 else 0.0
