"""Events survive a ledger's decades: written and read back they are the same, and unknown ones are never free."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.errors import LedgerError, NotAllowed
from siloquent.privacy import (
    Composed,
    Disclosure,
    DiscreteGaussian,
    DiscreteLaplace,
    Disjoint,
    Event,
    ExponentialSelect,
    GeometricTopK,
    LocalReport,
    NoiseReduction,
    PermuteAndFlip,
    SampledGaussian,
    StabilityThreshold,
    SummedGaussian,
    ThresholdedGaussian,
    event_from_json,
    event_to_json,
    get_accountant,
)

positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000)
small = st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(1, 10))
whole = st.integers(min_value=1, max_value=10**9)
simple = st.one_of(
    st.builds(DiscreteLaplace, scale=positive, l1=whole),
    st.builds(DiscreteGaussian, variance=positive, l2_squared=whole),
    st.builds(GeometricTopK, k=whole, scale=positive, linf=whole, monotone=st.booleans()),
    st.builds(PermuteAndFlip, epsilon=positive),
    st.builds(ExponentialSelect, rounds=whole, range=positive),
    st.builds(
        lambda scales, l1, stop: NoiseReduction(tuple(sorted(scales, reverse=True)), l1, stop),
        st.sets(positive, min_size=1, max_size=5),
        whole,
        st.sampled_from([None, 0]),
    ),
    st.builds(
        SummedGaussian,
        share=st.integers(9, 10**6).map(Fraction),
        honest=st.integers(1, 50),
        l2_squared=whole,
        length=whole,
    ),
    st.builds(SampledGaussian, rate=small, multiplier=positive, steps=whole, epsilon=positive, delta=small),
    st.builds(StabilityThreshold, delta=small),
    st.builds(
        lambda variance, keys, moves, threshold, delta: ThresholdedGaussian(
            variance, keys, keys * moves, threshold, delta
        ),
        positive,
        st.integers(1, 50),
        st.sampled_from([1, 2]),
        st.integers(2, 10**6),
        small,
    ),
    st.builds(LocalReport, epsilon=positive),
    st.builds(Disclosure, protocol=st.text(max_size=20), reveals=st.text(max_size=20)),
)
events = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: Composed(tuple(parts))),
        st.lists(inner, max_size=3).map(lambda parts: Disjoint(tuple(parts))),
    ),
    max_leaves=6,
)


@given(events)
def test_an_event_reads_back_as_itself(event: Event) -> None:
    text = event_to_json(event)
    assert event_from_json(text) == event
    assert event_to_json(event_from_json(text)) == text


@given(events, st.sampled_from(["pure", "zcdp"]))
def test_a_cost_is_never_below_its_price(event: Event, name: str) -> None:
    book = get_accountant(name)
    try:
        price = book.compute_price(event)
    except NotAllowed:
        return
    cost = book.compute_cost(event)
    assert Fraction(cost.amount, book.scale) >= price.amount >= 0
    assert Fraction(cost.amount - 1, book.scale) < price.amount
    assert book.compute_floor(event).amount <= cost.amount


@given(st.lists(simple, max_size=4), st.sampled_from(["pure", "zcdp"]))
def test_composition_costs_the_sum_and_disjoint_parts_the_dearest(parts: list[Event], name: str) -> None:
    book = get_accountant(name)
    try:
        prices = [book.compute_price(part) for part in parts]
    except NotAllowed:
        with pytest.raises(NotAllowed):
            book.compute_price(Composed(tuple(parts)))
        return
    assert book.compute_price(Composed(tuple(parts))).amount == sum(p.amount for p in prices)
    assert book.compute_price(Disjoint(tuple(parts))).amount == max((p.amount for p in prices), default=0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"event":"discrete-laplace/2","l1":1,"scale":"1/1"}',
        '{"event":"discrete-laplace/1"}',
        '{"event":"discrete-laplace/1","l1":1,"scale":"1/0"}',
        '{"event":"discrete-laplace/1","l1":1,"scale":"1/1","extra":1}',
        "[" * 100_000,
    ],
)
def test_an_unknown_or_broken_event_is_an_error(text: str) -> None:
    with pytest.raises(LedgerError):
        event_from_json(text)
