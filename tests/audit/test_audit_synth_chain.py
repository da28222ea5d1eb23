"""One step of engine chain as a black box, on samples and on all rows; and gradients of rows that were not sampled."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.harness import assert_caught, assert_private
from siloquent.privacy.noise import add_gaussian
from siloquent.privacy.noise.bernoulli_draws import draw_coins
from siloquent.privacy.sampling import compute_renyi_divergence, compute_steps_epsilon
from siloquent.synth.measure.chain import round_to_dyadic
from siloquent.synth.measure.gradients import Quanta, sum_clipped_gradients
from siloquent.synth.spec.network import build_blank_network, draw_first_embeddings

pytestmark = pytest.mark.statistical
DELTA, CLIP, SCALE = 1e-2, 1, 2**6
SIZES = (2, 2)
BASE = np.array([[0, 0], [1, 0], [0, 1]], dtype=np.int64)
PAIR = (BASE, np.concatenate([BASE, [[1, 1]]]))
NETWORK = build_blank_network((0,), 1, SIZES, draw_first_embeddings(SIZES, 2, seed=0))
QUANTA = Quanta(CLIP, SCALE)
EACH = np.stack([sum_clipped_gradients(NETWORK, row[None], QUANTA) for row in PAIR[1]])


def steps(
    rows: NDArray[np.int64], n: int, *, rate: Fraction, multiplier: float, sampled: bool = True
) -> NDArray[np.int64]:
    """n noisy sums of clipped gradients, each of a sample of its own: what ``noisy_gradient`` releases.

    Sums are whole, so a sample's is the sum of its rows' own.
    """
    each = EACH[: len(rows)]
    taken = (
        draw_coins(round_to_dyadic(rate), size=n * len(rows)).reshape(n, -1)
        if sampled
        else np.ones((n, len(rows)), dtype=bool)
    )
    variance = math.ceil((SCALE * multiplier) ** 2)
    return add_gaussian(np.ascontiguousarray(taken.astype(np.int64) @ each), variance=variance)


def claim(rate: Fraction, multiplier: float) -> dict[str, float]:
    epsilon = compute_steps_epsilon(rate=float(rate), multiplier=multiplier, steps=1, delta=DELTA)
    return {"epsilon": float(epsilon), "delta": DELTA}


def test_the_sum_of_a_sample_is_the_sum_of_its_rows() -> None:
    assert (sum_clipped_gradients(NETWORK, PAIR[1], QUANTA) == EACH.sum(axis=0)).all()
    assert (np.sqrt((EACH**2).sum(axis=1)) <= SCALE).all()


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(2**64 // 10, 2**64)])
def test_a_step_keeps_its_price(rate: Fraction) -> None:
    assert_private(lambda rows, n: steps(rows, n, rate=rate, multiplier=1.0), PAIR, n=40_000, **claim(rate, 1.0))


def test_gradients_of_rows_that_were_not_sampled_are_caught() -> None:
    """All rows in every step, at the price of a sample: the thesis's fixed sample of rows for its weights is alike."""
    rate = Fraction(2**64 // 10, 2**64)

    def all_rows(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        return steps(rows, n, rate=rate, multiplier=1.0, sampled=False)

    assert_caught(all_rows, PAIR, n=80_000, **claim(rate, 1.0))


def test_noise_without_the_check_of_norms_is_caught() -> None:
    rate = Fraction(1)

    def unchecked(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        raw = 4 * EACH[: len(rows)].sum(axis=0)
        return add_gaussian(np.ascontiguousarray(np.broadcast_to(raw, (n, raw.size))), variance=SCALE**2)

    assert_caught(unchecked, PAIR, n=20_000, **claim(rate, 1.0))


# Rows that are replaced: the row that differs is in both samples, or in none.


def replaced_divergence(order: int, *, rate: float, multiplier: float) -> float:
    """The Renyi divergence of one step between two rows whose gradients are opposite, by integration.

    ``multiplier``: the noise's deviation over the distance of the two, as in the plan of such a table.
    """
    reach, deviation = 0.5, multiplier
    # What is integrated is largest at (2 order - 1) times the reach; sums of smooth laws converge at once.
    far = order + 12 * deviation
    x = np.linspace(-far, far, 2 * math.ceil(far / deviation * 50) + 1)

    def log_law(at: float) -> NDArray[np.float64]:
        away = np.log(rate) - (x - at) ** 2 / (2 * deviation**2)
        stays = (np.log1p(-rate) - x**2 / (2 * deviation**2)) if rate < 1 else np.full_like(x, -np.inf)
        return np.logaddexp(away, stays) - math.log(deviation * math.sqrt(2 * math.pi))

    one, other = log_law(reach), log_law(-reach)
    terms = order * one - (order - 1) * other
    top = terms.max()
    return float((top + math.log(np.exp(terms - top).sum() * (x[1] - x[0]))) / (order - 1))


RATES, MULTIPLIERS, ORDERS_TRIED = (1.0, 0.5, 0.1, 0.01), (0.5, 1.0, 2.0, 6.0), (2, 3, 8, 32, 64)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_replaced_rows_on_samples_cost_no_more_than_twice_the_clip(rate: float, multiplier: float) -> None:
    for order in ORDERS_TRIED:
        found = replaced_divergence(order, rate=rate, multiplier=multiplier)
        charged = compute_renyi_divergence(order, rate=rate, multiplier=multiplier)
        assert found <= charged * (1 + 1e-6) + 1e-12, (order, found, charged)
        # The price of an added row, for half the distance, is refuted where all rows are in every sample.
        assert rate < 1 or found > 2 * compute_renyi_divergence(order, rate=rate, multiplier=2 * multiplier)


def term(j: int, a: NDArray[np.float64], b: NDArray[np.float64], rate: float) -> float:
    """E[(f_a - f_b)^j (1 - q + q f_b)^(1-j)] in the plane, by integration: docs/explanation/synth-chain.md."""
    line = np.linspace(-14, 22, 721)
    x, y = np.meshgrid(line, line, indexing="ij")
    law = np.exp(-(x**2 + y**2) / 2) / (2 * np.pi)
    one, other = (np.exp(at[0] * x + at[1] * y - at @ at / 2) for at in (a, b))
    return float((law * (one - other) ** j * (1 - rate + rate * other) ** (1 - j)).sum() * (line[1] - line[0]) ** 2)


def of_the_formula(j: int, distance: float) -> float:
    """E[(f_s - 1)^j]."""
    return sum((-1) ** (j - i) * math.comb(j, i) * math.exp(distance**2 * i * (i - 1) / 2) for i in range(j + 1))


@pytest.mark.parametrize("seed", range(8))
def test_no_pair_of_clipped_rows_has_a_larger_term_than_the_formula(seed: int) -> None:
    random = np.random.default_rng(seed)
    clip = float(random.choice([0.1, 0.4, 0.9]))
    for rate in (0.01, 0.3, 0.8, 1.0):
        angles, lengths = random.uniform(0, 2 * np.pi, 2), clip * random.choice([1.0, 1.0, 0.6], 2)
        a, b = (r * np.array([np.cos(t), np.sin(t)]) for r, t in zip(lengths, angles, strict=True))
        for j in range(2, 6):
            assert term(j, a, b, rate) <= of_the_formula(j, 2 * clip) * (1 + 1e-6), (clip, rate, j, a, b)


def test_opposite_rows_in_every_sample_have_the_terms_of_the_formula_and_rare_ones_less() -> None:
    a = np.array([0.5, 0.0])
    for j in range(2, 6):
        assert term(j, a, -a, 1.0) == pytest.approx(of_the_formula(j, 1.0), rel=1e-6)
    least = replaced_divergence(2, rate=1e-4, multiplier=1.0) / compute_renyi_divergence(2, rate=1e-4, multiplier=1.0)
    assert least == pytest.approx(4 * math.sinh(1 / 4) / (math.e - 1), rel=1e-3)


TURNED = np.array([[1, 0], [1, 1]], dtype=np.int64)
"""Rows that differ in the column that is learned alone: at the first step their gradients are opposite."""
OPPOSITE = (np.concatenate([BASE, TURNED[:1]]), np.concatenate([BASE, TURNED[1:]]))


def steps_of(
    rows: NDArray[np.int64], n: int, *, rate: Fraction, multiplier: float, sensitivity: int
) -> NDArray[np.int64]:
    each = np.stack([sum_clipped_gradients(NETWORK, row[None], QUANTA) for row in rows])
    taken = draw_coins(round_to_dyadic(rate), size=n * len(rows)).reshape(n, -1)
    variance = math.ceil((SCALE * sensitivity * multiplier) ** 2)
    return add_gaussian(np.ascontiguousarray(taken.astype(np.int64) @ each), variance=variance)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 2), Fraction(2**64 // 10, 2**64)])
def test_a_step_keeps_its_price_where_a_sampled_row_is_replaced(rate: Fraction) -> None:
    def release(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        return steps_of(rows, n, rate=rate, multiplier=1.0, sensitivity=2)

    assert_private(release, OPPOSITE, n=40_000, **claim(rate, 1.0))


@pytest.mark.slow
def test_noise_for_an_added_row_where_a_sampled_row_is_replaced_is_caught() -> None:
    """Where all rows are in every sample, a quarter of the noise that replaced rows ask for."""
    rate = Fraction(1)

    def release(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
        return steps_of(rows, n, rate=rate, multiplier=0.5, sensitivity=1)

    assert_caught(release, OPPOSITE, n=80_000, **claim(rate, 1.0))
