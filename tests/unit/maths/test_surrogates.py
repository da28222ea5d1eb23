"""Polynomials are as near to the losses as they say, and turned linear fits are near the exact models."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.maths.models.glm_surrogates import (
    EXPONENTIAL,
    EXPONENTIAL_ERROR,
    LOGISTIC,
    LossSurrogate,
    convert_to_logistic,
    convert_to_poisson,
)


@pytest.mark.parametrize("one", LOGISTIC, ids=lambda one: f"reach {one.reach}")
def test_the_logistic_polynomial_is_off_by_what_it_says(one: LossSurrogate) -> None:
    t = np.linspace(-one.reach, one.reach, 10_001)
    worst = np.abs(np.log1p(np.exp(-t)) - (-t / 2 + one.constant + one.square * t**2)).max()
    assert worst == pytest.approx(one.error, rel=0.03)


def test_the_exponential_polynomial_is_off_by_less_than_it_says() -> None:
    t = np.linspace(-1, 1, 10_001)
    a, b, c = EXPONENTIAL
    assert 0.8 * EXPONENTIAL_ERROR < np.abs(np.exp(t) - (a + b * t + c * t * t)).max() <= EXPONENTIAL_ERROR


def linear(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    found = np.linalg.lstsq(np.column_stack([x, np.ones(len(y))]), y, rcond=None)[0]
    return found[:-1], float(found[-1])


def test_a_turned_fit_is_near_the_logistic_model() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200_000, 2))
    score = x @ [1.2, -0.8] + 0.3
    y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    slopes, constant = convert_to_logistic(*linear(x, y))
    # The direction is right; within reach of 3 the polynomial is flatter than the loss, so slopes come out larger.
    assert slopes[0] / slopes[1] == pytest.approx(-1.5, rel=0.05)
    assert 1.0 < slopes[0] / 1.2 < 1.2
    assert constant == pytest.approx(0.3, abs=0.1)


def test_a_turned_fit_is_near_the_poisson_model() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (200_000, 2))
    rate = np.exp(x @ [0.4, -0.3] + 1.0)
    y = rng.poisson(rate).astype(float)
    slopes, constant = convert_to_poisson(linear(x, y)[0], x.mean(axis=0), float(y.mean()))
    assert np.allclose(slopes, [0.4, -0.3], atol=0.06)
    assert constant == pytest.approx(1.0, abs=0.1)
