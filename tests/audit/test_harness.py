"""The audit itself: right claims stand, its bound is a bound, and its words say what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.audit.harness import (
    as_table,
    assert_caught,
    assert_private,
    audit,
    clopper_pearson,
    eps_low,
    exact_epsilon,
)

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-9


def response(p: float, random: np.random.Generator) -> Callable[[int, int], NDArray[np.bool_]]:
    """One bit, told rightly with chance ``p``: epsilon is ln(p / (1 - p)), and every event is worth all of it."""
    return lambda bit, n: (random.random(n) < p) == bool(bit)


def test_a_tight_claim_is_refuted_as_rarely_as_gamma_says() -> None:
    random = np.random.default_rng(1)
    claim, gamma, runs = np.log(3), 0.05, 1_000
    refuted = sum(
        audit(response(0.75, random), (0, 1), epsilon=claim, n=2_000, gamma=gamma).refuted for _ in range(runs)
    )
    # gamma for each direction, and the bounds of both sides rarely err together: far fewer in fact.
    assert refuted <= stats.binom.isf(FALSE_ALARM, runs, 2 * gamma)


def test_a_claim_a_tenth_short_is_refuted_every_time_at_the_stated_size() -> None:
    random = np.random.default_rng(2)
    truth = 1.0 / 0.9
    p = np.exp(truth) / (1 + np.exp(truth))
    refuted = sum(audit(response(p, random), (0, 1), epsilon=1.0, n=100_000, gamma=1e-3).refuted for _ in range(20))
    assert refuted == 20  # each misses with chance 1e-8


@pytest.mark.parametrize(("hits", "trials"), [(0, 50), (1, 50), (25, 50), (49, 50), (50, 50), (3, 10**6)])
def test_the_bounds_are_those_of_the_binomial_law(hits: int, trials: int) -> None:
    low, high = clopper_pearson(hits, trials, 0.01)
    if hits:
        assert stats.binom.sf(hits - 1, trials, float(low)) == pytest.approx(0.01, rel=1e-6)
    else:
        assert low == 0
    if hits < trials:
        assert stats.binom.cdf(hits, trials, float(high)) == pytest.approx(0.01, rel=1e-6)
    else:
        assert high == 1


def test_delta_is_taken_off_before_the_ratio() -> None:
    pure = float(eps_low(5_000, 100, 10_000, delta=0.0, gamma=1e-3))
    with_delta = float(eps_low(5_000, 100, 10_000, delta=0.1, gamma=1e-3))
    assert pure - with_delta == pytest.approx(-np.log(1 - 0.1 / float(clopper_pearson(5_000, 10_000, 5e-4)[0])))
    assert eps_low(50, 0, 10_000, delta=0.01, gamma=1e-3) == -np.inf


def test_an_event_of_chance_delta_is_forgiven_and_a_larger_one_is_not() -> None:
    random = np.random.default_rng(3)

    def leak(chance: float) -> Callable[[int, int], NDArray[np.bool_]]:
        """The bit itself with a small chance, else nothing."""
        return lambda bit, n: (random.random(n) < chance) & bool(bit)

    assert_private(leak(0.01), (0, 1), epsilon=1e-6, delta=0.0105, n=100_000)
    assert_caught(leak(0.02), (0, 1), epsilon=1.0, delta=0.0105, n=100_000)
    assert_caught(leak(0.01), (0, 1), epsilon=2.0, n=100_000)


def test_both_directions_are_tried() -> None:
    only_zero = lambda bit, n: (np.arange(n) % 2 == 0) & (bit == 0)  # noqa: E731
    only_one = lambda bit, n: (np.arange(n) % 2 == 0) & (bit == 1)  # noqa: E731
    for release in (only_zero, only_one):
        assert_caught(release, (0, 1), epsilon=3.0, n=4_000)


LEAKS: dict[str, Callable[[NDArray[np.int64], int], NDArray[np.int64]]] = {
    "in the last bit": lambda noise, bit: noise * 2 + bit,
    "in the spread of two values": lambda noise, bit: np.stack([noise, noise + bit], axis=1),
    "in the sum of two values": lambda noise, bit: np.stack([noise, bit - noise], axis=1),
    "in the order of two values": lambda noise, bit: np.stack(
        [noise, noise + (1 if bit else -1) * (1 + noise % 3)], axis=1
    ),
    "in two values being equal": lambda noise, bit: np.stack([noise, noise + bit, noise], axis=1),
    "in the size of the noise": lambda noise, bit: noise * (1 + bit),
    "in the twentieth value": lambda noise, bit: np.stack([noise % 5] * 19 + [noise % 5 + bit * 9], axis=1),
}


@pytest.mark.parametrize("hide", LEAKS.values(), ids=LEAKS)
def test_a_leak_is_found_wherever_it_hides(hide: Callable[[NDArray[np.int64], int], NDArray[np.int64]]) -> None:
    random = np.random.default_rng(4)
    assert_caught(lambda bit, n: hide(random.integers(-1_000, 1_000, n), bit), (0, 1), epsilon=1.0, n=40_000)


def test_many_small_changes_are_found_together() -> None:
    random = np.random.default_rng(5)
    # Twenty values change at once; the noise of each hides its own change up to an epsilon of 0.25.
    assert_caught(lambda bit, n: random.laplace(size=(n, 20)) * 4 + bit, (0, 1), epsilon=1.0, n=40_000)


@pytest.mark.parametrize("seed", range(8))
def test_a_leak_in_wide_noise_is_not_hidden_by_lucky_cells(seed: int) -> None:
    """Hundreds of values have a few outputs each: some of them differ more by luck than any truly does."""
    random = np.random.default_rng(seed)
    assert_caught(lambda bit, n: np.rint(random.laplace(scale=40, size=n)) + 60 * bit, (0, 1), epsilon=1.0, n=40_000)


def test_equal_data_are_never_told_apart() -> None:
    random = np.random.default_rng(6)
    for shape in ((), (5,), (20,)):
        found = audit(lambda _, n, shape=shape: random.normal(size=(n, *shape)), (0, 0), epsilon=0.05, n=8_000)
        assert not found.refuted, found


def test_a_refuted_claim_says_what_was_seen_and_how_often() -> None:
    with pytest.raises(AssertionError) as refused:
        assert_private(lambda bit, n: np.arange(n) % 4 > 2 * bit, (0, 1), epsilon=0.5, n=8_000)
    said = str(refused.value)
    assert said.startswith("A claim is refuted: claimed epsilon 0.5; found epsilon >= ")
    assert "(chance of error 1e-09)" in said
    assert " times in 4,000 on one side, " in said


def test_a_fault_that_is_not_seen_is_an_error_of_the_test() -> None:
    with pytest.raises(AssertionError, match="A planted fault goes unnoticed: claimed epsilon 1; found"):
        assert_caught(lambda bit, n: np.arange(n) % 3, (0, 1), epsilon=1.0, n=8_000)


def test_numbers_whose_last_bits_a_float_would_drop_are_refused() -> None:
    with pytest.raises(AssertionError, match="towards zero"):
        as_table(np.array([2**53 + 1]))


CHANNELS: list[tuple[list[list[float]], float]] = [
    ([[0.75, 0.25], [0.25, 0.75]], np.log(3)),
    ([[0.5, 0.5], [0.5, 0.5]], 0.0),
    ([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]], np.log(2)),
    ([[1.0, 0.0], [0.5, 0.5]], np.inf),
    ([[0.2, 0.8], [0.3, 0.7], [0.6, 0.4]], np.log(3)),
]


@pytest.mark.parametrize(("channel", "epsilon"), CHANNELS, ids=str)
def test_the_epsilon_of_a_finite_channel_is_its_largest_log_ratio(channel: Any, epsilon: float) -> None:
    assert exact_epsilon(np.array(channel)) == pytest.approx(epsilon)


def test_chances_that_do_not_sum_to_one_are_no_channel() -> None:
    with pytest.raises(AssertionError, match="sums to 1"):
        exact_epsilon(np.array([[0.5, 0.4]]))
