"""Shares of the chance to fail never add up to more than all of it, and radii are what they cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.maths.tails.laplace_sums import build_union_tails
from siloquent.maths.tails.simultaneous import (
    compute_chi_square_radius,
    compute_laplace_radius,
    compute_normal_radius,
    compute_number_log_share,
    compute_product_log_share,
    compute_set_log_share,
)


def sets(places: int) -> list[NDArray[np.bool_]]:
    return [np.array(one) for one in itertools.product((False, True), repeat=places) if any(one)]


@pytest.mark.parametrize("places", range(1, 14))
def test_shares_of_all_sets_add_up_to_one_at_most(places: int) -> None:
    total = math.fsum(math.exp(compute_set_log_share(one)) for one in sets(places))
    assert 0.5 < total <= 1 + 1e-12


@pytest.mark.parametrize("shape", [(2, 3), (4, 5), (2, 2, 3)])
def test_shares_of_all_sets_of_cells_add_up_to_one_at_most(shape: tuple[int, ...]) -> None:
    every = itertools.product((False, True), repeat=math.prod(shape)) if math.prod(shape) < 13 else _products(shape)
    cells = [np.array(one).reshape(shape) for one in every]
    assert math.fsum(math.exp(compute_product_log_share(one)) for one in cells) <= 1 + 1e-12


def _products(shape: tuple[int, ...]) -> list[NDArray[np.bool_]]:
    return [np.multiply.outer(one, other) for one in sets(shape[0]) for other in sets(shape[1])]


def test_what_is_no_product_of_sets_has_no_share() -> None:
    assert compute_product_log_share(np.eye(4, dtype=bool)) == -math.inf
    assert compute_product_log_share(np.zeros((2, 2), dtype=bool)) == -math.inf


def test_shares_of_numbers_add_up_to_one() -> None:
    some = math.fsum(math.exp(compute_number_log_share(number)) for number in range(1, 100_000))
    assert some + 1 / math.log2(100_001) == pytest.approx(1, abs=1e-9)


def test_ranges_that_are_asked_most_have_most() -> None:
    def share(*places: int) -> float:
        return compute_set_log_share(np.isin(np.arange(50), places))

    assert share(*range(50)) > share(7) > share(*range(20)) > share(*range(3, 20)) > share(3, 7) > share(3, 7, 9)


def test_the_normal_radius_is_the_quantile_of_both_sides() -> None:
    found = compute_normal_radius(np.array([1.0, 2.0]), np.log([0.05, 0.05]))
    assert found == pytest.approx([1.959964, 3.919928], rel=1e-6)


def test_one_noise_is_chi_square_with_one_degree() -> None:
    assert compute_chi_square_radius(np.array([3.0]), 1, math.log(0.05)) == pytest.approx(3 * 1.959964, rel=1e-6)


@pytest.mark.parametrize("share", [0.05, 1e-6, 1e-15])
def test_the_laplace_radius_is_above_the_exact_quantile_and_near_it(share: float) -> None:
    scales = np.array([[3.0, 0, 0, 0], [1, 1, 1, 1], [4, 2, 1, 0.5]])
    found = compute_laplace_radius(scales, np.full(3, math.log(share)))
    assert found[0] >= 3 * math.log(1 / share)
    for row, radius in zip(scales, found, strict=True):
        exact = build_union_tails(row[None, :], share, two_sided=True).quantile if share > 1e-9 else 0.0
        assert exact <= radius * (1 + 1e-6)
        assert radius <= 2.2 * (row.max() * math.log(1 / share) + np.sqrt((row * row).sum()))
