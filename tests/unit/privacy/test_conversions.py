"""Conversions agree with 50-digit arithmetic and never undercut the exact Gaussian or a numeric accountant."""

from __future__ import annotations

import math

import mpmath
import pytest

from siloquent.errors import RequestError
from siloquent.privacy import compute_gaussian_epsilon, convert_epsilon_to_rho, convert_zcdp_to_epsilon
from siloquent.privacy.conversions import compute_gaussian_delta, compute_log_delta


@pytest.mark.parametrize(("rho", "epsilon"), [(0.01, 0.621693), (0.1, 2.141939), (0.5, 5.221534), (1, 7.766217)])
def test_epsilon_at_a_millionth_is_the_published_figure(rho: float, epsilon: float) -> None:
    assert convert_zcdp_to_epsilon(rho, 1e-6) == pytest.approx(epsilon, abs=1e-6)


def test_inverse_gives_the_published_rho() -> None:
    assert convert_epsilon_to_rho(1, 1e-6) == pytest.approx(0.024356, abs=5e-7)
    assert convert_epsilon_to_rho(1, 1e-9) == pytest.approx(0.014973, abs=5e-7)


@pytest.mark.parametrize("rho", [1e-12, 1e-6, 1e-3, 0.1, 2.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_delta_agrees_with_fifty_digits_and_is_the_least_over_orders(rho: float, delta: float) -> None:
    epsilon = convert_zcdp_to_epsilon(rho, delta)
    with mpmath.workdps(50):
        r, e = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def bound(a: mpmath.mpf) -> mpmath.mpf:
            return (a - 1) * (a * r - e) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)

        best = min(bound(1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 200)) for k in range(-2400, 3200))
        assert float(best) == pytest.approx(compute_log_delta(rho, epsilon), abs=1e-3)
        assert float(best) >= compute_log_delta(rho, epsilon) - 1e-9
    if epsilon > 1e-12:  # below that, epsilon 0 already gives less than delta
        assert compute_log_delta(rho, epsilon) == pytest.approx(math.log(delta), abs=1e-6)
    else:
        assert compute_log_delta(rho, epsilon) <= math.log(delta)


@pytest.mark.parametrize("rho", [1e-9, 1e-6, 1e-4, 1e-2, 0.5, 2.0])
def test_zcdp_is_dearer_than_the_exact_gaussian_by_at_most_a_quarter(rho: float) -> None:
    ratio = convert_zcdp_to_epsilon(rho, 1e-6) / compute_gaussian_epsilon(rho, 1e-6)
    assert 1 <= ratio <= 1.25


def test_exact_gaussian_agrees_with_fifty_digits() -> None:
    with mpmath.workdps(50):
        mu, e = mpmath.sqrt(2 * mpmath.mpf("0.1")), mpmath.mpf("1.5")
        delta = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
    assert compute_gaussian_delta(0.1, 1.5) == pytest.approx(float(delta), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("count", [1, 3, 10, 30, 100])
def test_never_below_the_privacy_loss_distribution(sigma: float, count: int) -> None:
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    pld = PLDAccountant().compose(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(sigma), count))
    for delta in (1e-9, 1e-7, 1e-6, 1e-5, 1e-3):
        assert convert_zcdp_to_epsilon(count / (2 * sigma**2), delta) >= pld.get_epsilon(delta) * (1 - 1e-3)


def test_more_loss_means_more_epsilon_and_more_delta_less() -> None:
    epsilons = [convert_zcdp_to_epsilon(rho, 1e-6) for rho in (1e-9, 1e-4, 0.01, 1.0)]
    assert epsilons == sorted(epsilons)
    assert convert_zcdp_to_epsilon(0.1, 1e-3) < convert_zcdp_to_epsilon(0.1, 1e-9)
    assert convert_zcdp_to_epsilon(0, 1e-6) == 0


@pytest.mark.parametrize(("rho", "delta"), [(math.nan, 0.1), (-1, 0.1), (math.inf, 0.1), (1, 0), (1, 1), (1, math.nan)])
def test_arguments_out_of_range_are_refused(rho: float, delta: float) -> None:
    with pytest.raises(RequestError):
        convert_zcdp_to_epsilon(rho, delta)
