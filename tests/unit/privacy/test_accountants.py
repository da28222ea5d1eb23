"""Prices are what the formulas of the sources say, in whole units, rounded up."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import LedgerError, NotAllowed, RequestError
from siloquent.privacy import (
    Composed,
    Cost,
    Disclosure,
    DiscreteGaussian,
    DiscreteLaplace,
    Disjoint,
    ExponentialSelect,
    GeometricTopK,
    LocalReport,
    NoiseReduction,
    PermuteAndFlip,
    SampledGaussian,
    StabilityThreshold,
    SummedGaussian,
    build_limit,
    get_accountant,
    list_required_settings,
    parse_exact,
)
from siloquent.privacy.events import ADD_REMOVE, ROW_ADD_REMOVE, ThresholdedGaussian, event_from_json, event_to_json

F = Fraction
PURE, ZCDP = get_accountant("pure"), get_accountant("zcdp")


@pytest.mark.parametrize(
    ("event", "epsilon", "rho"),
    [
        (DiscreteLaplace(scale=F(10), l1=3), F(3, 10), F(9, 200)),
        (GeometricTopK(k=4, scale=F(20), linf=1, monotone=True), F(1, 5), F(1, 50)),
        (GeometricTopK(k=4, scale=F(20), linf=1, monotone=False), F(2, 5), F(2, 25)),
        (PermuteAndFlip(epsilon=F(1, 2)), F(1, 2), F(1, 8)),
        (ExponentialSelect(rounds=3, range=F(1, 10)), F(3, 10), F(3, 800)),
        (NoiseReduction(scales=(F(8), F(4)), l1=2), F(1, 2), F(1, 8)),
        (NoiseReduction(scales=(F(8), F(4)), l1=2, stop=0), F(1, 4), F(1, 8)),
        (Composed((DiscreteLaplace(F(10), 1), DiscreteLaplace(F(5), 1))), F(3, 10), F(1, 200) + F(1, 50)),
        (Disjoint((DiscreteLaplace(F(10), 1), DiscreteLaplace(F(5), 1))), F(1, 5), F(1, 50)),
    ],
)
def test_an_event_costs_what_its_source_says(event: object, epsilon: Fraction, rho: Fraction) -> None:
    assert PURE.compute_price(event).amount == epsilon
    assert ZCDP.compute_price(event).amount == rho


@pytest.mark.parametrize("name", ["", "renyi", "Pure", "PURE", " pure", "zcdp\n", "zcdp/1", "pure,zcdp"])
def test_an_accountant_that_this_version_does_not_know_is_no_other_one(name: str) -> None:
    with pytest.raises(LedgerError, match=re.escape(f"No accountant named {name!r}. Known: pure, zcdp.")):
        get_accountant(name)


def test_a_gaussian_costs_half_its_squared_sensitivity_over_its_variance() -> None:
    assert ZCDP.compute_cost(DiscreteGaussian(variance=F(18), l2_squared=4)) == Cost(math.ceil(F(4, 36) * 10**12))


def test_delta_is_charged_beside_the_amount() -> None:
    event = SampledGaussian(rate=F(1, 10), multiplier=F(1), steps=5, epsilon=F(1, 2), delta=F(1, 10**7))
    assert PURE.compute_cost(event) == Cost(500_000_000, 10**11)
    assert ZCDP.compute_cost(event) == Cost(125_000_000_000, 10**11)
    assert PURE.compute_cost(StabilityThreshold(delta=F(1, 10**6))) == Cost(0, 10**12)


@pytest.mark.parametrize(
    "event", [DiscreteGaussian(F(4), 1), SummedGaussian(F(9), 2, 1, 4), Composed((DiscreteGaussian(F(4), 1),))]
)
def test_gaussian_noise_is_refused_in_a_pure_account(event: object) -> None:
    with pytest.raises(NotAllowed):
        PURE.compute_cost(event)


@pytest.mark.parametrize("event", [LocalReport(F(1)), Disclosure("psi", "sizes"), object()])
def test_an_event_without_a_rule_is_refused_and_never_free(event: object) -> None:
    for book in (PURE, ZCDP):
        with pytest.raises((NotAllowed, AttributeError)):
            book.compute_cost(event)  # type: ignore[arg-type]


def test_costs_round_up_and_limits_down() -> None:
    third = DiscreteLaplace(scale=F(3), l1=1)
    assert PURE.compute_cost(third) == Cost(333_333_334)
    assert build_limit("pure", "1/3") == Cost(333_333_333)


def test_a_tenth_and_two_tenths_fit_into_three_tenths() -> None:
    spent = PURE.compute_cost(DiscreteLaplace(F(10), 1)) + PURE.compute_cost(DiscreteLaplace(F(10), 2))
    assert spent.amount <= build_limit("pure", "0.3").amount
    assert 0.1 + 0.2 > 0.3


def test_only_a_pure_account_gives_back_what_an_early_stop_saved() -> None:
    event = NoiseReduction(scales=(F(8), F(4)), l1=2)
    assert PURE.compute_floor(event) == Cost(250_000_000)
    assert ZCDP.compute_floor(event) == ZCDP.compute_cost(event)


def test_a_sum_of_shares_costs_no_less_than_the_central_gaussian() -> None:
    central = DiscreteGaussian(variance=F(40), l2_squared=5)
    shared = SummedGaussian(share=F(20), honest=2, l2_squared=5, length=1000)
    assert (
        ZCDP.compute_price(central).amount
        <= ZCDP.compute_price(shared).amount
        <= ZCDP.compute_price(central).amount * (1 + F(1, 10**9))
    )


def test_prices_that_need_add_remove_say_so() -> None:
    assert list_required_settings(GeometricTopK(2, F(3), 1, monotone=True)) == {ADD_REMOVE}
    assert list_required_settings(GeometricTopK(2, F(3), 1, monotone=False)) == frozenset()
    nested = Composed((Disjoint((GeometricTopK(2, F(3), 1, monotone=True),)),))
    assert list_required_settings(nested) == {ADD_REMOVE, ROW_ADD_REMOVE}


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf", "", "abc", "1/0", "1e999", 0.1, True, None, Decimal("NaN")])
def test_amounts_that_are_not_exact_and_finite_are_refused(bad: object) -> None:
    with pytest.raises(RequestError):
        parse_exact(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, 1.0, True, float("nan")])
def test_a_cost_is_a_whole_number_of_at_least_zero(bad: object) -> None:
    with pytest.raises(RequestError):
        Cost(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteLaplace(scale=F(0), l1=1),
        lambda: DiscreteLaplace(scale=1.5, l1=1),  # type: ignore[arg-type]
        lambda: DiscreteLaplace(scale=F(1), l1=-1),
        lambda: DiscreteGaussian(variance=F(-1), l2_squared=1),
        lambda: PermuteAndFlip(epsilon=F(0)),
        lambda: NoiseReduction(scales=(F(1), F(2)), l1=1),
        lambda: NoiseReduction(scales=(), l1=1),
        lambda: NoiseReduction(scales=(F(2),), l1=1, stop=1),
        lambda: SummedGaussian(share=F(8), honest=1, l2_squared=1, length=1),
        lambda: SummedGaussian(share=F(9), honest=1, l2_squared=-1, length=1),
        lambda: SummedGaussian(share=F(9), honest=1, l2_squared=1, length=0),
        lambda: ThresholdedGaussian(variance=F(4), keys=1, l2_squared=1, threshold=9, delta=F(1)),
        lambda: SampledGaussian(rate=F(2), multiplier=F(1), steps=1, epsilon=F(1), delta=F(1, 2)),
        lambda: GeometricTopK(k=0, scale=F(1), linf=1, monotone=False),
    ],
)
def test_an_event_that_makes_no_sense_cannot_exist(make: object) -> None:
    with pytest.raises(RequestError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize("words", ["how many", "wie groß", "½ — 数", "\u2028", 'a "b"'])
def test_what_an_event_reveals_is_written_in_its_own_letters(words: str) -> None:
    """What is hashed has one text: escapes would be another one."""
    text = event_to_json(Disclosure("psi", words))
    quoted = words.replace('"', '\\"')
    assert text == f'{{"event":"disclosure/1","protocol":"psi","reveals":"{quoted}"}}'
    assert event_from_json(text) == Disclosure("psi", words)


def test_shares_of_any_size_are_priced_at_once() -> None:
    small, large = (SummedGaussian(Fraction(share), 4, share, 100) for share in (10**3, 10**12))
    assert 0 <= get_accountant("zcdp").compute_price(large).amount - Fraction(1, 8) < Fraction(1, 10**20)
    assert abs(
        get_accountant("zcdp").compute_price(small).amount - get_accountant("zcdp").compute_price(large).amount
    ) < Fraction(1, 10**20)


@pytest.mark.parametrize(("l2_squared", "share"), [(9, 9), (36, 9), (1, 16), (7, 11), (2, 13), (1, 10**6)])
def test_one_silos_share_costs_what_its_noise_would_alone(l2_squared: int, share: int) -> None:
    """Exactly where the root is one, else so little more that no whole unit changes; never less."""
    exactly = F(l2_squared, 2 * share)
    found = ZCDP.compute_price(SummedGaussian(F(share), 1, l2_squared, 5)).amount
    assert exactly <= found <= exactly * (1 + F(1, 2**60))
    if (l2_squared, share) in ((9, 9), (36, 9), (1, 16)):
        assert found == exactly
