"""What one unit can do to a joint release: reached by some neighbours, passed by none that a search finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from siloquent.maths.joint import Release, l1_moved, turned

F = Fraction
CASES = {
    "added": Release(longest=400),
    "replaced": Release(longest=400, replaced=True),
    "replaced, no key": Release(longest=400, replaced=True, keeps_key=True),
    "two keys": Release(longest=400, keys=2, replaced=True),
    "users": Release(longest=400, replaced=True, records=3),
}
SHARES = {"union": (F(2), F(18), F(80)), "request": (F(25), F(60), F(15)), "sums alone": (F(4), F(6), F(0))}


def change(one: np.ndarray | None, other: np.ndarray | None, variances: tuple, keys: int, *, same_key: bool) -> float:
    """The squared change of all orders, each over its variance, from one record to another (None: no record)."""
    zero, first, second = (np.inf if v is None else float(v) for v in variances)
    a = np.zeros_like(other) if one is None else one
    b = np.zeros_like(one) if other is None else other
    counts = float((one is None) != (other is None)) if same_key else 2.0
    sums = ((a - b) ** 2).sum() if same_key else (a**2).sum() + (b**2).sum()
    products = ((np.outer(a, a) - np.outer(b, b)) ** 2).sum()
    return keys * (counts / zero + sums / first) + products / second


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
@pytest.mark.parametrize("release", CASES.values(), ids=CASES)
def test_variances_spend_exactly_what_they_may(release: Release, shares: tuple) -> None:
    variances = release.variances(shares, F(1, 40))
    assert release.moved(variances) == F(1, 20)


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
@pytest.mark.parametrize("release", CASES.values(), ids=CASES)
def test_no_neighbours_are_further_apart_and_some_are_as_far(release: Release, shares: tuple) -> None:
    if release.keeps_key:
        shares = (F(0), *shares[1:])
    variances = release.variances(shares, F(1, 40))
    limit = float(release.moved(variances))
    worst, length = 0.0, 20.0
    rng = np.random.default_rng(0)

    def scaled(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = point.reshape(2, -1)
        return tuple(part * min(1, length / max(np.linalg.norm(part), 1e-9)) for part in parts)  # type: ignore[return-value]

    def of(point: np.ndarray) -> float:
        one, other = scaled(point)
        if not release.replaced:
            return change(one, None, variances, release.keys, same_key=True)
        found = change(one, other, variances, release.keys, same_key=True)
        if not release.keeps_key:
            found = max(found, change(one, other, variances, release.keys, same_key=False))
        return found

    for _ in range(6):
        found = minimize(lambda point: -of(point), rng.normal(0, 20, 6), method="Nelder-Mead", options={"maxiter": 600})
        worst = max(worst, release.records**2 * -found.fun)
    assert worst <= limit * (1 + 1e-9)
    assert worst >= limit * 0.999


def test_half_the_variance_on_the_diagonal_too_would_be_seen() -> None:
    release = CASES["added"]
    variances = release.variances(SHARES["union"], F(1, 40))
    one = np.array([20.0, 0.0, 0.0])
    wrong = (variances[0], variances[1], variances[2] / 2 if variances[2] else None)
    assert change(one, None, wrong, 1, same_key=True) > float(release.moved(variances)) * 1.5


def test_the_noise_of_an_order_without_a_share_is_none() -> None:
    assert CASES["added"].variances(SHARES["sums alone"], F(1))[2] is None


def test_the_l1_change_of_a_record_is_reached_by_equal_numbers() -> None:
    zero, first, second = l1_moved(3 * 50**2, 3)
    record = np.full(3, 50)
    triangle = np.outer(record, record)[np.triu_indices(3)].sum()
    assert (zero, first - 1, second - 1) == (1, record.sum(), triangle)
    assert l1_moved(7_500, 3, keys=2, replaced=True, records=2)[1] == 2 * 2 * 2 * first


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("keeps_key", [True, False])
def test_higher_orders_stay_below_their_bound_and_come_near_it(order: int, keeps_key: bool) -> None:
    shares = (F(0) if keeps_key else F(2), F(9), F(40), F(20), F(30))[: order + 1]
    release = Release(longest=400, replaced=True, keeps_key=keeps_key)
    variances = release.variances(shares, F(1, 40))
    limit, worst, rng = float(release.moved(variances)), 0.0, np.random.default_rng(1)
    assert limit == pytest.approx(1 / 20)

    def of(point: np.ndarray) -> float:
        one, other = (part * min(1, 20 / max(np.linalg.norm(part), 1e-9)) for part in point.reshape(2, -1))
        a, b, cross = one @ one, other @ other, one @ other
        # |a^(i) - b^(i)|^2 over the whole tensor; with another key, orders 0 and 1 are in other places.
        orders = [(a**i + b**i - 2 * cross**i) for i in range(order + 1)]
        moved = [orders] if keeps_key else [orders, [2.0, a + b, *orders[2:]]]
        return max(sum(d / float(v) for d, v in zip(one, variances, strict=True) if v) for one in moved)

    for _ in range(8):
        found = minimize(lambda point: -of(point), rng.normal(0, 20, 6), method="Nelder-Mead", options={"maxiter": 600})
        worst = max(worst, -found.fun)
    assert 0.97 * limit <= worst <= limit * (1 + 1e-9)


def test_the_worst_angle_of_higher_orders_is_no_less_than_any() -> None:
    rng = np.random.default_rng(2)
    cosines = np.linspace(-1, 1, 20_001)
    for _ in range(20):
        weights = rng.dirichlet(np.ones(4))
        worst = max(2 * sum(w * (1 - c**i) for i, w in enumerate(weights, start=1)) for c in cosines)
        found = float(turned([F(float(w)) for w in weights]))
        assert worst <= found <= 1.01 * worst
