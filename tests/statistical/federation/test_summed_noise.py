"""The noise that is in a secure sum, after all roles have played their parts, against its exact law."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.federation.channel import Channel, Member, Members, MemoryNetwork, run_all
from siloquent.federation.measure import add_full_noise
from siloquent.federation.sums import SumResult, SumSpec, add_shares, contribute_vector, gather_sum
from siloquent.privacy.noise.distributed import add_gaussian_share, add_laplace_share
from statistical.noise.laws import Law, assert_law, gaussian, laplace

pytestmark = pytest.mark.statistical
SILOS = ("north", "river", "hill", "lake")
MEMBERS = Members(
    (
        *(Member(name, "party", name) for name in SILOS),
        Member("w1", "worker", "a"),
        Member("w2", "worker", "b"),
        Member("office", "moderator", "c"),
    )
)
DRAWS = 100_000
Share = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def noise_of_sum(spec: SumSpec, share: Share) -> NDArray[np.int64]:
    """What is left of a secure sum of known vectors once these are taken off."""
    known = {name: np.full(spec.length, 1_000 * (k + 1), dtype=np.int64) for k, name in enumerate(SILOS)}
    parts: dict[str, Callable[[Channel], SumResult | None]] = {
        name: lambda channel, name=name: contribute_vector(channel, spec, lambda: share(known[name]))  # type: ignore[misc]
        for name in SILOS
    }
    parts |= {name: lambda channel: add_shares(channel, spec, add_full_noise) for name in ("w1", "w2")}
    result = run_all(MemoryNetwork(MEMBERS), {**parts, "office": lambda channel: gather_sum(channel, spec)})["office"]
    assert result is not None
    return result.total - sum(known.values())


def convolved(law: Law) -> Law:
    """The law of two independent draws added up."""
    values = np.arange(law.low, law.high + 1)
    mass = law.below(values + 1) - law.below(values)
    running = np.concatenate([[0.0], np.cumsum(np.convolve(mass, mass))])
    low, high = 2 * law.low, 2 * law.high
    return Law(lambda y: running[np.clip(y - low, 0, len(running) - 1)], low, high)


def of_others(share: Share) -> Share:
    """Shares of all silos but the last, which looks at the sum and takes off its own."""
    return lambda values: values if int(values[0]) == 1_000 * len(SILOS) else share(values)


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(10)])
def test_shares_of_all_other_silos_are_laplace_noise_of_the_scale(scale: Fraction) -> None:
    spec = SumSpec("x", DRAWS, 2**20, parties=4, min_parties=4, noise="laplace", scale=scale)
    share = of_others(lambda values: add_laplace_share(values, scale=scale, honest=spec.honest))
    assert_law(noise_of_sum(spec, share), laplace(scale))


def test_shares_of_all_other_silos_are_gaussian_noise_of_the_variance() -> None:
    spec = SumSpec("x", DRAWS, 2**20, parties=4, min_parties=4, noise="gaussian", scale=Fraction(36))
    share = of_others(lambda values: add_gaussian_share(values, variance=36, honest=spec.honest))
    found = noise_of_sum(spec, share)
    assert_law(found, gaussian(Fraction(36)))  # the distance of a sum of shares of variance 12 is below 4e-38


@pytest.mark.parametrize(("law", "exact"), [("laplace", laplace(Fraction(3))), ("gaussian", gaussian(Fraction(3)))])
def test_two_workers_add_two_full_draws(law: str, exact: Law) -> None:
    spec = SumSpec("x", DRAWS, 2**20, 4, 4, noise="workers", scale=Fraction(3), law=law)  # type: ignore[arg-type]
    assert_law(noise_of_sum(spec, lambda values: values), convolved(exact))


def test_a_silo_that_leaves_its_share_out_is_seen_in_the_law() -> None:
    spec = SumSpec("x", DRAWS, 2**20, parties=4, min_parties=4, noise="laplace", scale=Fraction(10))
    left_out: list[int] = []

    def share(values: NDArray[np.int64]) -> NDArray[np.int64]:
        if int(values[0]) == 1_000:
            left_out.append(1)
            return values
        return add_laplace_share(values, scale=Fraction(10), honest=spec.honest)

    found = noise_of_sum(spec, of_others(share))
    assert left_out
    with pytest.raises(AssertionError):
        assert_law(found, laplace(Fraction(10)))
