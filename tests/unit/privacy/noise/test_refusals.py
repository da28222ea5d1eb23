"""What noise refuses, before it draws a bit: floats above all, and whatever 64-bit arithmetic could not hold."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from siloquent.errors import RequestError
from siloquent.privacy import noise
from siloquent.privacy.noise import distributed, draws
from siloquent.privacy.noise.distributions import MagnitudeDistribution
from siloquent.privacy.noise.local import HashDistribution, SetDistribution, draw_hashes, draw_sets

COUNTS = np.array([3, 0, 5], dtype=np.int64)
ADDERS: list[tuple[Callable[..., Any], str]] = [
    (noise.add_laplace, "scale"),
    (noise.add_geometric, "scale"),
    (noise.add_gaussian, "variance"),
]
BAD_NUMBERS = [0.5, 1.0, float("nan"), float("inf"), np.float64(2), "1", None, True, Fraction(0), -1, Fraction(-1, 3)]
BAD_VALUES = [
    np.array([1.0, 2.0]),
    np.array([1, 2], dtype=np.int32),
    np.array([1, 2], dtype=np.uint64),
    np.array([1, None], dtype=object),
    np.array([True]),
    [1, 2],
    7,
    np.array([2**60 + 1], dtype=np.int64),
    np.array([-(2**63)], dtype=np.int64),
]


@pytest.mark.parametrize("bad", [*BAD_NUMBERS, 2**50 + 1, Fraction(2**61, 2**12 + 1), Fraction(2, 2**50 + 1)], ids=repr)
@pytest.mark.parametrize(("add", "name"), ADDERS, ids=["laplace", "geometric", "gaussian"])
def test_a_parameter_that_is_no_fraction_in_range_is_refused(add: Callable[..., Any], name: str, bad: object) -> None:
    with pytest.raises(RequestError, match=f"The {name}"):
        add(COUNTS, **{name: bad})


@pytest.mark.parametrize("bad", BAD_VALUES, ids=repr)
@pytest.mark.parametrize(("add", "name"), ADDERS, ids=["laplace", "geometric", "gaussian"])
def test_values_that_are_no_int64_array_in_range_are_refused(add: Callable[..., Any], name: str, bad: object) -> None:
    with pytest.raises(RequestError, match="The values must"):
        add(bad, **{name: Fraction(3)})


def test_the_refusal_of_a_large_value_does_not_tell_it() -> None:
    with pytest.raises(RequestError) as refusal:
        noise.add_laplace(np.array([2**60 + 12_345], dtype=np.int64), scale=1)
    assert str(2**60 + 12_345) not in str(refusal.value)
    assert "12345" not in str(refusal.value)


def test_a_positional_parameter_is_refused() -> None:
    with pytest.raises(TypeError):
        noise.add_laplace(COUNTS, Fraction(3))  # type: ignore[misc]


@pytest.mark.parametrize("select", [noise.permute_and_flip, noise.select_exponential])
@pytest.mark.parametrize("rate", [*BAD_NUMBERS, 2**50 + 1, Fraction(1, 2**50 + 1)], ids=repr)
def test_a_selection_refuses_a_bad_rate(select: Callable[..., int], rate: object) -> None:
    with pytest.raises(RequestError, match="The rate"):
        select(COUNTS, rate=rate)


@pytest.mark.parametrize("select", [noise.permute_and_flip, noise.select_exponential])
@pytest.mark.parametrize("utilities", [np.array([], dtype=np.int64), np.zeros((2, 2), dtype=np.int64)], ids=repr)
def test_a_selection_refuses_no_candidates_and_tables(select: Callable[..., int], utilities: Any) -> None:
    with pytest.raises(RequestError, match="needs a vector"):
        select(utilities, rate=Fraction(1))


@pytest.mark.parametrize("k", [0, 4, -1, 1.0, True])
def test_rounds_of_selection_refuse_more_winners_than_candidates(k: object) -> None:
    with pytest.raises(RequestError, match="number of rounds"):
        noise.select_exponential_top_k(COUNTS, rate=Fraction(1), k=k)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [0.5, Fraction(3, 2), -1, float("nan"), True, None])
def test_a_coin_refuses_what_is_no_probability(p: object) -> None:
    with pytest.raises(RequestError, match="The probability"):
        noise.draw_bernoulli(p=p)  # type: ignore[arg-type]


@pytest.mark.parametrize("gamma", [0.5, -1, float("inf"), "1"])
def test_an_exponential_coin_refuses_what_is_no_exponent(gamma: object) -> None:
    with pytest.raises(RequestError, match="The exponent"):
        noise.draw_bernoulli_exp(gamma=gamma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "p", "values"),
    [
        (1, Fraction(1), COUNTS),
        (6, Fraction(1), COUNTS),
        (6, Fraction(1, 7), COUNTS),
        (6, 0.5, COUNTS),
        (5, Fraction(1, 2), COUNTS),
        (6, Fraction(1, 2), -COUNTS),
        (6.0, Fraction(1, 2), COUNTS),
    ],
)
def test_a_randomised_response_refuses_values_and_chances_out_of_range(size: Any, p: Any, values: Any) -> None:
    with pytest.raises(RequestError):
        noise.randomise_values(values, size=size, p=p)


@pytest.mark.parametrize(
    "scales",
    [(), (Fraction(1), Fraction(1)), (Fraction(1), Fraction(2)), (2.0, 1.0), (1, Fraction(0)), (1, Fraction(-1))],
)
def test_a_chain_refuses_scales_that_do_not_decrease_to_something_above_zero(scales: Any) -> None:
    with pytest.raises(RequestError):
        noise.draw_noise_chain(3, scales=scales)


@pytest.mark.parametrize("nodes", [[-1, 3], [3, 5], [-1, 5], [5]])
@pytest.mark.parametrize("draw", [draw_sets, draw_hashes])
def test_reports_of_nodes_that_are_none_are_refused(draw: Callable[..., Any], nodes: list[int]) -> None:
    law = SetDistribution(5, 2, 2**63) if draw is draw_sets else HashDistribution(5, 2, 2**63)
    with pytest.raises(RequestError, match=r"\[0, 5\)"):
        draw(np.array(nodes, dtype=np.int64), law)


@pytest.mark.parametrize(("variance", "honest"), [(16, 2), (Fraction(80, 10), 1), (80, 10)])
def test_a_share_whose_sum_would_not_be_gaussian_is_refused(variance: Any, honest: int) -> None:
    with pytest.raises(RequestError, match="too far from Gaussian"):
        distributed.add_gaussian_share(COUNTS, variance=variance, honest=honest)
    assert distributed.add_gaussian_share(COUNTS, variance=9 * honest, honest=honest).shape == (3,)


def test_a_sum_that_leaves_64_bits_is_cut_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No draw is ever so large: that it is cut, and does not end with an error, is seen with draws that are made up."""
    for draw, end in ((2**64, 2**63 - 1), (-(2**64), -(2**63)), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63))):
        monkeypatch.setattr(draws, "draw_one", lambda *_, made_up=draw: made_up)
        noisy = draws.add_draws(np.zeros(2, dtype=np.int64), "laplace", MagnitudeDistribution.from_scale(3))
        assert noisy.tolist() == [end, end]


@pytest.mark.parametrize("variance", [Fraction(27), Fraction(100), Fraction(1001, 7), Fraction(10**9 + 1)])
@pytest.mark.parametrize("honest", [1, 2, 3])
def test_shares_of_honest_parties_sum_to_the_variance_at_least(
    variance: Fraction, honest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Fraction] = []
    monkeypatch.setattr(distributed, "add_gaussian", lambda values, variance: drawn.append(variance) or values)
    distributed.add_gaussian_share(np.zeros(1, dtype=np.int64), variance=variance, honest=honest)
    assert variance <= honest * drawn[0] < variance + honest


def test_more_candidates_than_a_random_word_tells_apart_are_refused() -> None:
    with pytest.raises(RequestError):
        noise.permute_and_flip(np.broadcast_to(np.int64(0), 2**26 + 1), rate=Fraction(1))
