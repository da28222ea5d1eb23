"""What one unit can do to a joint release: reached by some neighbours, passed by none that a search finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from siloquent.maths.sensitivity.joint import JointRelease, bound_rotation
from siloquent.maths.sensitivity.record_pairs import RecordPairs

F = Fraction
CASES = {
    "added": JointRelease(longest=400),
    "replaced": JointRelease(longest=400, replaced=True),
    "replaced, no key": JointRelease(longest=400, replaced=True, keeps_key=True),
    "two keys": JointRelease(longest=400, keys=2, replaced=True),
    "users": JointRelease(longest=400, replaced=True, records=3),
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
def test_variances_spend_exactly_what_they_may(release: JointRelease, shares: tuple) -> None:
    variances = release.split_variances(shares, F(1, 40))
    assert release.bound_change(variances) == F(1, 20)


@pytest.mark.parametrize("shares", SHARES.values(), ids=SHARES)
@pytest.mark.parametrize("release", CASES.values(), ids=CASES)
def test_no_neighbours_are_further_apart_and_some_are_as_far(release: JointRelease, shares: tuple) -> None:
    if release.keeps_key:
        shares = (F(0), *shares[1:])
    variances = release.split_variances(shares, F(1, 40))
    limit = float(release.bound_change(variances))
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
    variances = release.split_variances(SHARES["union"], F(1, 40))
    one = np.array([20.0, 0.0, 0.0])
    wrong = (variances[0], variances[1], variances[2] / 2 if variances[2] else None)
    assert change(one, None, wrong, 1, same_key=True) > float(release.bound_change(variances)) * 1.5


def test_the_noise_of_an_order_without_a_share_is_none() -> None:
    assert CASES["added"].split_variances(SHARES["sums alone"], F(1))[2] is None


def test_the_l1_length_of_a_record_is_reached_by_equal_numbers() -> None:
    record = np.full(3, 50)
    triangle = np.outer(record, record)[np.triu_indices(3)].sum()
    assert JointRelease(longest=3 * 50**2, numbers=3).compute_l1_lengths() == (1, record.sum(), triangle)
    assert JointRelease(longest=3 * 50**2, numbers=3, keys=2).compute_l1_lengths() == (2, 2 * record.sum(), triangle)


BOX = {
    "one number": [range(-6, 7)],
    "two numbers": [range(-4, 5), range(-4, 5)],
    "three numbers": [range(-2, 3)] * 3,
    "a boolean and a number": [(-6, 6), range(-6, 7)],
}
WEIGHTS = [(F(2), F(18), F(80)), (F(25), F(60), F(15)), (F(1), F(90), F(9)), (F(0), F(1), F(0)), (F(1), F(0), F(1))]


def l1_change(one: np.ndarray, other: np.ndarray) -> tuple[int, int]:
    upper = np.triu_indices(len(one))
    return int(np.abs(one - other).sum()), int(np.abs(np.outer(one, one) - np.outer(other, other))[upper].sum())


@pytest.mark.parametrize("ranges", BOX.values(), ids=BOX)
@pytest.mark.parametrize("shares", WEIGHTS, ids=str)
def test_no_pair_in_a_box_is_further_apart_in_l1_than_the_bound_and_trying_all_pairs_says_the_same(
    ranges: list, shares: tuple
) -> None:
    records = np.array(np.meshgrid(*ranges)).reshape(len(ranges), -1).T
    corner, n = int(records.max()), len(ranges)
    bound = JointRelease(longest=n * corner**2, numbers=n, replaced=True, one_place=True)
    exact = JointRelease(longest=n * corner**2, numbers=n, replaced=True, one_place=True, pairs=RecordPairs(records))
    scales = bound.split_scales(shares, F(1))
    assert exact.split_scales(shares, F(1)) <= scales or 0 in shares
    assert bound.bound_l1_change(scales) == 1
    zero, first, second = (F(0) if s is None else 1 / s for s in scales)
    pairs = {l1_change(a, b) for a in records for b in records}
    alone = max((int(np.abs(a).sum()), l1_change(a, 0 * a)[1]) for a in records)
    worst = max(zero + first * alone[0] + second * alone[1], max(first * d + second * t for d, t in pairs))
    assert worst == exact.bound_l1_change(scales) <= 1
    if n == 1 or n == 2:
        assert worst >= F(97, 100)  # the best w = x z is between two places of so coarse a grid


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("kind", ["one place", "by key", "sums by key"])
@pytest.mark.parametrize("chosen", [False, True])
def test_no_pair_of_a_ball_or_of_categories_is_further_apart_in_l1(keys: int, kind: str, *, chosen: bool) -> None:
    """Records of three numbers in a ball, or with one of them in one of several columns; either way all orders."""
    rng = np.random.default_rng(keys)
    place, by_key = kind == "one place", kind == "by key"
    if by_key or place:
        keys = 1
    for shares in WEIGHTS[:3]:
        release = JointRelease(
            longest=300,
            keys=keys,
            numbers=3,
            replaced=True,
            one_place=place,
            by_key=by_key,
            chosen=int(chosen),
            cut=True,
        )
        zero, first, second = (1 / s for s in release.split_scales(shares, F(1)) if s)
        worst = 0.0
        for _ in range(3_000):
            one, other = rng.normal(0, 1, (2, 3))
            if rng.random() < 0.4:
                one[rng.integers(3)] = other[rng.integers(3)] = 0
            one, other = (np.trunc(part * np.sqrt(300) / np.linalg.norm(part)) for part in (one, other))
            if chosen:  # the last number stands in another column for the other record
                one, other = np.append(one, 0), np.array([other[0], other[1], 0, other[2]])
            moved, products = l1_change(one, other)
            both = [a + b for a, b in zip(l1_change(one, 0 * one), l1_change(0 * other, other), strict=True)]
            found = first * keys * moved + second * products
            if not place:
                last = both[1] if by_key else products
                found = max(found, 2 * keys * zero + first * keys * both[0] + second * last)
            worst = max(worst, float(found))
        assert worst <= 1


@pytest.mark.parametrize("fixed", [0, 1, 2])
@pytest.mark.parametrize("chosen", [1, 2])
def test_no_pair_with_categories_is_further_apart_in_l1(fixed: int, chosen: int) -> None:
    """Some numbers of -2..2, and categories of two values, one of which is 2 and the other 0."""
    cells = [range(-2, 3)] * fixed + [[0, 1]] * chosen
    grid = np.array(np.meshgrid(*cells)).reshape(len(cells), -1).T
    hot = [column for number in grid[:, fixed:].T for column in (2 * number, 2 - 2 * number)]
    records = np.stack([*grid[:, :fixed].T, *hot], axis=1)
    for shares in WEIGHTS[:3]:
        numbers = fixed + chosen
        release = JointRelease(longest=4 * numbers, numbers=numbers, chosen=chosen, replaced=True, one_place=True)
        tried = JointRelease(longest=4 * numbers, replaced=True, one_place=True, pairs=RecordPairs(records))
        scales = release.split_scales(shares, F(1))
        assert F(6, 10) < tried.bound_l1_change(scales) <= 1


def test_all_records_are_tried_exactly_where_sums_and_products_weigh_against_each_other() -> None:
    """Of one number the worst neighbour of 6 is neither 0 nor -6."""
    pairs = RecordPairs(np.arange(-6, 7)[:, None])
    moved = {w: F(6 - w) / 6 + F(abs(36 - w * w), 36) for w in range(-6, 7)}
    assert pairs.bound_replaced([F(1, 6), F(1, 36)]) == max(moved.values()) == moved[-3] == F(9, 4)
    squared = {w: F((6 - w) ** 2, 36) / 5 + F((36 - w * w) ** 2, 36**2) for w in range(-6, 7)}
    assert pairs.bound_replaced_squared([F(1, 180), F(1, 36**2)]) == max(squared.values())
    assert pairs.longest == 36
    assert pairs.lengths == (6, 36)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("keeps_key", [True, False])
def test_higher_orders_stay_below_their_bound_and_come_near_it(order: int, keeps_key: bool) -> None:
    shares = (F(0) if keeps_key else F(2), F(9), F(40), F(20), F(30))[: order + 1]
    release = JointRelease(longest=400, replaced=True, keeps_key=keeps_key)
    variances = release.split_variances(shares, F(1, 40))
    limit, worst, rng = float(release.bound_change(variances)), 0.0, np.random.default_rng(1)
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
        found = float(bound_rotation([F(float(w)) for w in weights]))
        assert worst <= found <= 1.01 * worst
