"""Noise keeps shapes, leaves its input alone, and knows which law OpenDP can draw."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.privacy import noise
from siloquent.privacy.noise.draws import FEW
from siloquent.privacy.noise.opendp_noise import SMALL, find_float_scale

ADDERS = [
    pytest.param(lambda v: noise.add_laplace(v, scale=Fraction(5, 2)), id="laplace, OpenDP"),
    pytest.param(lambda v: noise.add_laplace(v, scale=Fraction(7, 3)), id="laplace, ours"),
    pytest.param(lambda v: noise.add_gaussian(v, variance=Fraction(25, 4)), id="gaussian, OpenDP"),
    pytest.param(lambda v: noise.add_gaussian(v, variance=7), id="gaussian, ours"),
    pytest.param(lambda v: noise.add_geometric(v, scale=3), id="geometric"),
]
SHAPES = [(0,), (1,), (3, 0), (4, 5), (FEW,), (FEW + 1,), (2, 3, 60), (SMALL + 1,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("add", ADDERS)
def test_the_answer_has_the_shape_of_the_question_and_is_a_copy(
    add: Callable[[Any], Any], shape: tuple[int, ...]
) -> None:
    values = np.full(shape, 10**6, dtype=np.int64)
    noisy = add(values)
    assert noisy.shape == shape
    assert noisy.dtype == np.int64
    assert (values == 10**6).all()
    assert (abs(noisy - values) < 1_000).all()  # scale 3: chance e^-333 a value


@pytest.mark.parametrize("add", ADDERS)
def test_every_entry_of_a_slice_gets_its_own_noise_in_its_own_place(add: Callable[[Any], Any]) -> None:
    table = np.arange(6_000, dtype=np.int64).reshape(60, 100) * 10**6
    noisy = add(table.T[::2])
    assert (np.rint(noisy / 10**6) * 10**6 == table.T[::2]).all()
    assert len(np.unique(noisy - table.T[::2])) > 3


def test_geometric_noise_is_never_negative() -> None:
    assert noise.add_geometric(np.zeros(10_000, dtype=np.int64), scale=2).min() == 0


def test_the_largest_values_and_scales_do_not_overflow() -> None:
    edge = np.array([2**60, -(2**60)] * 200, dtype=np.int64)
    for noisy in (noise.add_laplace(edge, scale=2**50), noise.add_laplace(edge, scale=Fraction(2**60 - 1, 2**10 + 1))):
        assert (abs(noisy - edge) < 2**57).all()  # chance e^-128 a value


@pytest.mark.parametrize(
    ("kind", "parameter", "scale"),
    [
        ("laplace", Fraction(5, 1024), 5 / 1024),
        ("laplace", Fraction(2**53 - 1), 2.0**53 - 1),
        ("laplace", Fraction(2**53 + 1), None),
        ("laplace", Fraction(7, 3), None),
        ("laplace", Fraction(0.1), 0.1),
        ("laplace", Fraction(1, 10), None),
        ("gaussian", Fraction(25, 4), 2.5),
        ("gaussian", Fraction(5), None),
        ("gaussian", Fraction(1, 9), None),
    ],
)
def test_opendp_serves_only_where_its_float_is_the_scale_itself(kind: Any, parameter: Fraction, scale: Any) -> None:
    assert find_float_scale(kind, parameter) == scale


def test_a_tiny_scale_adds_nothing_but_in_one_draw_of_e_to_the_scale() -> None:
    values = np.arange(5_000, dtype=np.int64)
    assert (noise.add_laplace(values, scale=Fraction(1, 100)) == values).all()  # chance 2 e^-100 a value
    assert (noise.add_gaussian(values, variance=Fraction(1, 1000)) == values).all()  # chance e^-500 a value


def test_certain_coins_fall_as_they_must() -> None:
    assert all(
        noise.draw_bernoulli(p=1) and not noise.draw_bernoulli(p=0) and noise.draw_bernoulli_exp(gamma=0)
        for _ in range(100)
    )
    assert not any(noise.draw_bernoulli_exp(gamma=10**30) for _ in range(100))


def test_a_huge_fraction_is_a_fine_coin() -> None:
    assert noise.draw_bernoulli(p=Fraction(10**50, 10**50 + 1))  # fails with chance 1e-50
    assert noise.draw_bernoulli_exp(gamma=Fraction(1, 10**50))


def test_a_single_candidate_is_always_chosen() -> None:
    one = np.array([-5], dtype=np.int64)
    assert noise.permute_and_flip(one, rate=Fraction(1)) == noise.select_exponential(one, rate=Fraction(1)) == 0


@pytest.mark.parametrize("select", [noise.permute_and_flip, noise.select_exponential])
@pytest.mark.parametrize("count", [5, FEW + 5])
def test_a_far_better_candidate_is_chosen(select: Callable[..., int], count: int) -> None:
    utilities = np.full(count, -(2**60), dtype=np.int64)
    utilities[3] = 2**60
    for rate in (Fraction(1, 100), Fraction(2**50), Fraction(1, 2**50)):  # the last: chance e^-2048 each
        assert select(utilities, rate=rate) == 3


def test_rounds_choose_each_candidate_once_and_the_best_first_at_a_high_rate() -> None:
    utilities = np.array([5, 1, 9, 7], dtype=np.int64)
    assert noise.select_exponential_top_k(utilities, rate=100, k=4).tolist() == [2, 3, 0, 1]
    assert sorted(noise.select_exponential_top_k(utilities, rate=Fraction(1, 100), k=4)) == [0, 1, 2, 3]


def test_a_chain_of_one_is_a_laplace_draw_and_an_empty_one_is_empty() -> None:
    assert noise.draw_noise_chain(7, scales=(Fraction(3),)).shape == (1, 7)
    assert noise.draw_noise_chain(0, scales=(Fraction(3), Fraction(2))).shape == (2, 0)


def test_reports_stay_in_range_and_keep_their_shape() -> None:
    values = np.array([[0, 4], [2, 1]], dtype=np.int64)
    for _ in range(100):
        reports = noise.randomise_values(values, size=5, p=Fraction(1, 5))
        assert reports.shape == (2, 2)
        assert reports.min() >= 0
        assert reports.max() < 5
