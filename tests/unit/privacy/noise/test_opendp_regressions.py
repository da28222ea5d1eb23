"""What we rely on in OpenDP's two integer constructors. A new OpenDP version must pass this file before its pin moves.

The laws themselves are tested in tests/statistical/noise, and audited in tests/audit.
"""

from __future__ import annotations

import importlib.metadata
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, get_accountant
from siloquent.privacy.noise import add_gaussian, add_laplace
from siloquent.privacy.noise.opendp_noise import Kind, build_measurement

KINDS: list[Kind] = ["laplace", "gaussian"]
SCALES = [0.1, 1 / 3, 1.0, 5 / 1024, 1023 / 1024, 2.5, 7.0, 54657 / 1024, 1e6 + 0.5, 2.0**40]


def test_opendp_is_the_version_that_these_tests_were_written_for() -> None:
    assert importlib.metadata.version("opendp").startswith("0.16.")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("l1", [1, 2, 13, 65_536])
def test_its_laplace_price_is_ours_within_one_whole_unit(scale: float, l1: int) -> None:
    theirs = Fraction(build_measurement("laplace", scale).map(l1))  # type: ignore[attr-defined]
    ours = get_accountant("pure").compute_cost(DiscreteLaplace(scale=Fraction(scale), l1=l1)).amount
    # Its price is a float rounded up: never below the exact one, and above it by a few of its last digits at most.
    exact = Fraction(l1) / Fraction(scale)
    assert exact <= theirs <= exact * (1 + Fraction(1, 2**50))
    assert abs(math.ceil(theirs * 10**9) - ours) <= 1 + ours // 2**50


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("l2", [1, 2, 13, 256])
def test_its_gaussian_price_is_ours_within_one_whole_unit(scale: float, l2: int) -> None:
    theirs = Fraction(build_measurement("gaussian", scale).map(float(l2)))  # type: ignore[attr-defined]
    event = DiscreteGaussian(variance=Fraction(scale) ** 2, l2_squared=l2**2)
    ours = get_accountant("zcdp").compute_cost(event).amount
    assert theirs >= l2**2 / (2 * Fraction(scale) ** 2)
    assert abs(math.ceil(theirs * 10**12) - ours) <= 1 + ours // 2**48


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_it_refuses_scales_that_are_not_finite_or_negative(kind: Kind, bad: float) -> None:
    with pytest.raises(Exception, match="scale"):
        build_measurement(kind, bad)


@pytest.mark.parametrize(
    "bad",
    [[math.nan], [1.5], [True], [2**63], np.array([math.nan]), np.array([1.0]), np.array([1], dtype=np.int32), 5],
    ids=repr,
)
@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_int64_alone_so_that_no_nan_becomes_a_number(kind: Kind, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        build_measurement(kind, 2.0)(bad)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 2, 1_000, 10_000])
def test_it_answers_as_many_values_as_it_was_asked(kind: Kind, count: int) -> None:
    assert len(build_measurement(kind, 2.0)(np.zeros(count, dtype=np.int64))) == count


@pytest.mark.parametrize("kind", KINDS)
def test_it_clips_at_the_ends_of_int64_and_never_wraps(kind: Kind) -> None:
    top, bottom = 2**63 - 1, -(2**63)
    at_the_top = build_measurement(kind, 2.0**40)(np.full(200, top, dtype=np.int64))
    at_the_bottom = build_measurement(kind, 2.0**40)(np.full(200, bottom, dtype=np.int64))
    assert min(at_the_top) > top - 2**50  # scale 2^40: chance e^-1024 a value
    assert max(at_the_bottom) < bottom + 2**50
    assert top in at_the_top  # else 200 draws below zero
    assert bottom in at_the_bottom


@pytest.mark.parametrize("kind", KINDS)
def test_it_returns_python_integers_that_an_int64_array_holds_exactly(kind: Kind) -> None:
    noisy = build_measurement(kind, 2.0)(np.full(50, 2**60, dtype=np.int64))
    assert all(type(value) is int for value in noisy)
    assert max(abs(value - 2**60) for value in noisy) < 1_000  # a float in between would round to multiples of 256
    assert any(value % 2 for value in noisy)


def test_the_room_itself_uses_it_within_its_limits() -> None:
    zeros = np.zeros(30, dtype=np.int64)
    assert add_laplace(zeros, scale=Fraction(5, 2)).any()
    assert add_gaussian(zeros, variance=Fraction(25, 4)).any()
