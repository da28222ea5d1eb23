"""Every noise function keeps its claim on neighbours, and the audit finds each planted fault."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_private, audit, exact_epsilon
from siloquent.privacy import epsilon_of_zcdp
from siloquent.privacy.noise import add_gaussian, add_geometric, add_laplace, noise_chain
from siloquent.privacy.noise.selection import selections

pytestmark = pytest.mark.statistical
N = 200_000
EPSILONS = [Fraction(1, 10), Fraction(1), Fraction(4)]
PAIRS = [((0,), (1,)), ((3, 7), (3, 8)), ((5, 0, 0), (4, 0, 0))]
DELTA = 1e-3


def repeated(data: object, n: int) -> NDArray[np.int64]:
    return np.tile(np.asarray(data, dtype=np.int64), (n, 1))


def laplace(scale: Fraction) -> Callable[[object, int], NDArray[np.int64]]:
    return lambda data, n: add_laplace(repeated(data, n), scale=scale)


def gaussian(variance: Fraction) -> Callable[[object, int], NDArray[np.int64]]:
    return lambda data, n: add_gaussian(repeated(data, n), variance=variance)


def top(k: int, scale: Fraction) -> Callable[[object, int], NDArray[np.int64]]:
    def release(data: object, n: int) -> NDArray[np.int64]:
        return np.argsort(-add_geometric(repeated(data, n), scale=scale), axis=1, kind="stable")[:, :k]

    return release


def selected(rule: str, rate: Fraction) -> Callable[[object, int], NDArray[np.int64]]:
    return lambda data, n: selections(np.asarray(data, dtype=np.int64), rate=rate, rule=rule, times=n)  # type: ignore[arg-type]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_laplace_is_pure(epsilon: Fraction, pair: tuple[object, object]) -> None:
    assert_private(laplace(1 / epsilon), pair, epsilon=float(epsilon), n=N)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("variance", [Fraction(50), Fraction(2), Fraction(1, 3)], ids=str)
def test_gaussian_is_concentrated(variance: Fraction, pair: tuple[object, object]) -> None:
    epsilon = epsilon_of_zcdp(float(1 / (2 * variance)), DELTA)
    assert_private(gaussian(variance), pair, epsilon=epsilon, delta=DELTA, n=N)


@pytest.mark.parametrize(
    "pair", [((0, 0, 0), (1, 1, 1)), ((2, 0, 1), (3, 0, 1)), ((0, 0, 0, 0), (1, 1, 0, 0))], ids=str
)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_one_shot_top_k_is_pure_where_counts_grow_together(epsilon: Fraction, pair: tuple[object, object]) -> None:
    assert_private(top(2, 2 / epsilon), pair, epsilon=float(epsilon), n=N)


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
@pytest.mark.parametrize(
    "pair", [((0, 0), (1, -1)), ((0, 3, 5), (1, 2, 6)), ((0,) * 6, (1, -1, 1, -1, 1, -1))], ids=str
)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_selection_is_pure(epsilon: Fraction, pair: tuple[object, object], rule: str) -> None:
    assert_private(selected(rule, epsilon / 2), pair, epsilon=float(epsilon), n=N)


SCALES = (Fraction(4), Fraction(2), Fraction(1))


def pokes(data: int, n: int) -> NDArray[np.int64]:
    """All noisy answers of one chain: the last, finest one is all that may be paid for."""
    return (noise_chain(n, scales=SCALES) + data).T


def test_a_chain_costs_its_last_poke_alone() -> None:
    assert_private(pokes, (0, 1), epsilon=1.0, n=N)


# Planted faults


def test_a_laplace_scale_a_tenth_short_is_caught() -> None:
    assert audit(laplace(Fraction(9, 10)), ((0,), (1,)), epsilon=1.0, n=2 * N).refuted


def test_a_laplace_scale_for_l2_instead_of_l1_is_caught() -> None:
    assert audit(laplace(Fraction(1)), ((0, 0, 0), (1, 1, 1)), epsilon=3**0.5, n=N).refuted


def test_a_gaussian_of_a_quarter_of_the_variance_is_caught() -> None:
    claimed = epsilon_of_zcdp(0.25, DELTA)  # variance 2
    assert audit(gaussian(Fraction(1, 2)), ((0,), (1,)), epsilon=claimed, delta=DELTA, n=2 * N).refuted


def test_the_monotone_rule_under_replace_one_is_caught() -> None:
    assert audit(top(2, Fraction(2)), ((0, 0, 1, 1), (1, 1, 0, 0)), epsilon=1.0, n=2 * N).refuted


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_a_selection_that_forgets_the_factor_two_is_caught(rule: str) -> None:
    assert audit(selected(rule, Fraction(1)), ((0,) * 6, (1, -1, 1, -1, 1, -1)), epsilon=1.0, n=N).refuted


def test_a_chain_drawn_forwards_is_caught() -> None:
    def forwards(data: int, n: int) -> NDArray[np.int64]:
        fresh = [add_laplace(np.zeros(n, dtype=np.int64), scale=scale) for scale in SCALES]
        return (np.stack(fresh) + data).T

    assert audit(forwards, (0, 1), epsilon=1.0, n=N).refuted


def test_float_noise_gives_itself_away_by_its_grid() -> None:
    """Whole noise lies on one grid whatever the data; where float noise lies depends on what it was added to."""
    random = np.random.default_rng(3)

    def is_finer(values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.mod(values * 2.0**54, 1) != 0

    def floats(data: float, n: int) -> NDArray[np.bool_]:
        return is_finer(data + random.laplace(size=n))

    def whole(data: int, n: int) -> NDArray[np.bool_]:
        return is_finer(add_laplace(np.full(n, 16 * data, dtype=np.int64), scale=16) / 16)

    assert audit(floats, (0.0, 1.0), epsilon=1.0, n=40_000).refuted
    assert not audit(whole, (0, 1), epsilon=1.0, n=40_000).refuted


def test_exact_epsilon_of_a_finite_channel() -> None:
    keep = 3 / 4
    assert exact_epsilon(np.array([[keep, 1 - keep], [1 - keep, keep]])) == pytest.approx(np.log(3))
