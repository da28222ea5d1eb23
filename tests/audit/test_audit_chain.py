"""One step of the chain's training as a black box: a row more or less, and the faults that private training invites."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from audit.harness import assert_caught, assert_private
from siloquent.privacy.noise import add_gaussian
from siloquent.privacy.noise.bernoulli_draws import draw_coins
from siloquent.privacy.sampling import compute_steps_epsilon
from siloquent.synth.measure.chain import round_to_dyadic
from siloquent.synth.measure.gradients import Quanta, sum_clipped_gradients
from siloquent.synth.spec.network import Network, build_blank_network

pytestmark = pytest.mark.statistical
DELTA, MULTIPLIER, MANY = 1e-3, Fraction(1), 40_000
QUANTA = Quanta(1, 2**10)
BASE = np.array([[0, 0], [1, 1]])
MORE = np.array([[0, 0], [1, 1], [1, 0]])
RATES = {"all rows": Fraction(1), "a tenth": Fraction(2**64 // 10, 2**64)}


def steep() -> Network:
    """A model that is very wrong about the row more, so that its gradient is far above the clip."""
    blank = build_blank_network((0,), 1, (2, 2), np.array([[1.0], [9.0]]))
    line = blank.flatten()
    line[3:5] = [-9.0, 9.0]
    return blank.replace_parameters(line)


def parts(rows: np.ndarray, quanta: Quanta) -> np.ndarray:
    """Each row's whole clipped gradient: sums of samples are sums of these."""
    return np.stack([sum_clipped_gradients(steep(), rows[i : i + 1], quanta) for i in range(len(rows))])


def release(rate: Fraction, *, quanta: Quanta = QUANTA) -> Callable[[np.ndarray, int], np.ndarray]:
    variance = int((QUANTA.scale * MULTIPLIER) ** 2)

    def steps(rows: np.ndarray, n: int) -> np.ndarray:
        sampled = draw_coins(round_to_dyadic(rate), size=n * len(rows)).reshape(n, len(rows))
        return add_gaussian(sampled.astype(np.int64) @ parts(rows, quanta), variance=variance)

    return steps


def claimed(rate: Fraction) -> dict[str, float]:
    return {
        "epsilon": float(compute_steps_epsilon(rate=float(rate), multiplier=float(MULTIPLIER), steps=1, delta=DELTA)),
        "delta": DELTA,
    }


def test_sums_of_samples_are_sums_of_single_rows() -> None:
    assert (parts(MORE, QUANTA).sum(axis=0) == sum_clipped_gradients(steep(), MORE, QUANTA)).all()


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
def test_a_step_keeps_its_claim(rate: Fraction) -> None:
    assert_private(release(rate), (BASE, MORE), n=MANY, **claimed(rate))


def test_a_gradient_that_is_not_clipped_is_caught() -> None:
    # Eight times the clip in the same quanta: what a wrong norm would let through.
    loose = Quanta(8, 2**13)
    assert_caught(release(RATES["all rows"], quanta=loose), (BASE, MORE), n=MANY, **claimed(RATES["all rows"]))


def test_a_sample_above_the_claimed_rate_is_caught() -> None:
    assert_caught(release(Fraction(1)), (BASE, MORE), n=4 * MANY, **claimed(RATES["a tenth"]))
