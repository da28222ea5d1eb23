"""For any rows: sums of batches are sums of rows, and no neighbour moves them by more than the event says."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baselines.monomials import Monomials, compute_sums, join
from siloquent.maths.models.monomial_index import count_orderings
from siloquent.privacy import DiscreteGaussian
from siloquent.search import Budget, KeyOf, OfferPlan, plan
from siloquent.search.measure import build_sum_kernel
from siloquent.search.measure.statistics import build_whole_records
from siloquent.search.offers import MeasuredSums
from siloquent.search.records import compute_max_record_length
from unit.search.tables import USER, schema, spec

ROWS = st.lists(
    st.tuples(st.integers(-1, 3), st.integers(-1, 1000), st.integers(-1, 101), st.integers(-1, 2)), max_size=6
)
ROW = st.tuples(st.integers(-1, 3), st.integers(-1, 1000), st.integers(-1, 101), st.integers(-1, 2))
OFFERS = st.fixed_dictionaries(
    {
        "features": st.sampled_from([("x",), ("x", "y"), ("kind", "y"), ("x", "y", "kind")]),
        "keys": st.sampled_from([(), (KeyOf("town"),)]),
        "second_moments": st.sampled_from(["total", "none"]),
        "norm_cut": st.sampled_from([None, 0.5, 1.2]),
        "indicators": st.sampled_from([(), ("y",)]),
        "budget": st.sampled_from([Budget(rho="0.1"), Budget(rho="100")]),
    }
)


def made_of(given_: dict, adjacency: str, unit: str = '{ kind = "row" }') -> OfferPlan:
    if "y" not in given_["features"]:
        given_ = {**given_, "indicators": ()}
    return plan(spec(**given_), schema(adjacency=adjacency, unit=unit))


def sums(made: OfferPlan, rows: list[tuple[int, int, int, int]]) -> MeasuredSums:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4)
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in columns.T], names=["town", "x", "y", "kind"])
    kernel = build_sum_kernel(made, made.features)
    return kernel.unpack_sums(kernel(batch))


def moved(made: OfferPlan, one: MeasuredSums, other: MeasuredSums) -> Fraction:
    """The squared change of all orders, each over its variance; off the diagonal half the variance, both triangles."""
    total = Fraction(0)
    orders = (zip(one.counts, other.counts, strict=True), zip(one.sums, other.sums, strict=True))
    for pairs, variance in zip(orders, made.parameters, strict=False):
        change = sum(int(((a - b) ** 2).sum()) for a, b in pairs)
        assert variance is not None or change == 0
        total += Fraction(change) / variance if variance else 0
    if one.second is not None and made.parameters[2] is not None:
        total += Fraction(int(((one.second - other.second) ** 2).sum())) / made.parameters[2]
    for order, (a, b) in enumerate(zip(one.higher, other.higher, strict=True), start=3):
        times, variance = count_orderings(len(made.columns), order), made.parameters[order]
        assert variance is not None
        total += Fraction(sum(int(n) * int(d) ** 2 for n, d in zip(times, a - b, strict=True))) / variance
    return total


def limit(made: OfferPlan) -> Fraction:
    assert isinstance(made.event, DiscreteGaussian)
    return Fraction(made.event.l2_squared) / made.event.variance


def test_a_record_as_long_as_the_cut_is_no_longer_than_what_is_charged_for() -> None:
    features = plan(spec(features=("x", "y"), keys=()), schema()).features
    for x, y in itertools.product(range(0, 1001, 37), range(101)):
        places = {"x": np.array([x]), "y": np.array([y])}
        cut = math.sqrt((build_whole_records(features, places, 1, 1_023, None) ** 2).sum()) / 1_023
        cut_off = build_whole_records(features, places, 1, 1_023, cut)
        assert (cut_off**2).sum() <= compute_max_record_length(features, 1_023, cut)


@settings(max_examples=120, deadline=None)
@given(OFFERS, ROWS, ROW)
def test_a_row_that_comes_moves_the_sums_by_no_more_than_the_event_says(given_: dict, rows: list, row: tuple) -> None:
    made = made_of(given_, "add-remove")
    assert moved(made, sums(made, rows), sums(made, [*rows, row])) <= limit(made)


@settings(max_examples=120, deadline=None)
@given(OFFERS, ROWS, ROW, ROW)
def test_a_row_that_is_replaced_does_neither(given_: dict, rows: list, row: tuple, other: tuple) -> None:
    made = made_of(given_, "replace-one")
    assert moved(made, sums(made, [*rows, row]), sums(made, [*rows, other])) <= limit(made)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([3, 4]), st.sampled_from(["add-remove", "replace-one"]), ROWS, ROW, ROW)
def test_higher_orders_are_moved_by_no_more_than_the_event_says(
    order: int, adjacency: str, rows: list, row: tuple, other: tuple
) -> None:
    given_ = {"features": ("x", "y", "kind"), "keys": (), "order": order, "budget": Budget(rho="1")}
    made = made_of({**given_, "indicators": ("y",)}, adjacency)
    pair = ([*rows, row], [*rows, other] if adjacency == "replace-one" else rows)
    assert moved(made, *(sums(made, side) for side in pair)) <= limit(made)


def test_a_row_at_every_end_reaches_the_event_of_all_orders() -> None:
    given_ = {"features": ("x", "y"), "keys": (), "order": 4, "budget": Budget(rho="1")}
    made = made_of(given_, "add-remove")
    change = moved(made, sums(made, []), sums(made, [(0, 1000, 100, 0)]))
    assert limit(made) * Fraction(999, 1000) < change <= limit(made)


@settings(max_examples=60, deadline=None)
@given(OFFERS, ROWS, st.lists(ROW, min_size=1, max_size=3), st.lists(ROW, max_size=3))
def test_all_rows_of_a_user_do_neither(given_: dict, rows: list, mine: list, other: list) -> None:
    made = made_of(given_, "replace-one", USER)
    assert moved(made, sums(made, rows + mine), sums(made, rows + other)) <= limit(made)


def test_the_event_is_reached_by_a_row_at_every_end_of_its_range() -> None:
    given_ = {"features": ("x", "y"), "keys": (KeyOf("town"),), "second_moments": "total", "budget": Budget(rho="1")}
    made = made_of(given_, "add-remove")
    change = moved(made, sums(made, []), sums(made, [(0, 1000, 100, 0)]))
    assert limit(made) * Fraction(9999, 10000) < change <= limit(made)


@settings(max_examples=60, deadline=None)
@given(OFFERS, ROWS, ROWS)
def test_batches_add_up(given_: dict, one: list, other: list) -> None:
    made = made_of(given_, "add-remove")
    parts, whole = (sums(made, one), sums(made, other)), sums(made, one + other)
    for i, counts in enumerate(whole.counts):
        assert np.array_equal(counts, parts[0].counts[i] + parts[1].counts[i])
        assert np.array_equal(whole.sums[i], parts[0].sums[i] + parts[1].sums[i])
    if whole.second is not None:
        assert np.array_equal(whole.second, parts[0].second + parts[1].second)  # type: ignore[operator]


TABLE = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=5)


def by_key(rows: list[tuple[int, ...]], names: tuple[str, ...], order: int) -> dict[object, Monomials]:
    return {
        key: compute_sums(
            names, np.array([row[1 : 1 + len(names)] for row in rows if row[0] == key], dtype=float), order
        )
        for key in {row[0] for row in rows}
    }


@settings(max_examples=80, deadline=None)
@given(TABLE, TABLE, st.integers(1, 4))
def test_a_join_of_monomials_is_that_of_the_joined_rows(left: list, right: list, order: int) -> None:
    pairs = [(*a[1:], b[1]) for a in left for b in right if a[0] == b[0]]
    found = join(by_key(left, ("a", "b"), order), by_key(right, ("c",), order))
    if not pairs:
        assert found is None
        return
    expected = compute_sums(("a", "b", "c"), np.array(pairs, dtype=float), order)
    assert found is not None
    assert {p: v for p, v in found.sums.items() if v} == {p: v for p, v in expected.sums.items() if v}


@settings(max_examples=60, deadline=None)
@given(TABLE, TABLE, TABLE)
def test_unions_and_joins_keep_the_laws_of_a_semi_ring(one: list, two: list, three: list) -> None:
    a, b = (compute_sums(("a",), np.array([row[1:2] for row in rows], dtype=float), 3) for rows in (one, two))
    c = compute_sums(("c",), np.array([row[2:3] for row in three], dtype=float), 3)
    assert (a + b).sums == (b + a).sums
    assert ((a + b) * c).sums == (a * c + b * c).sums


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 100), st.sampled_from([0.3, 0.5, 1.0]))
def test_a_record_that_is_cut_is_hardly_shorter_than_the_cut(x: int, y: int, cut: float) -> None:
    """A shorter one would lose what is paid for; whole steps take less than one off each column."""
    features = plan(spec(features=("x", "y"), keys=()), schema()).features
    places = {"x": np.array([x]), "y": np.array([y])}
    whole = math.sqrt((build_whole_records(features, places, 1, 1_023, None) ** 2).sum())
    cut_off = math.sqrt((build_whole_records(features, places, 1, 1_023, cut) ** 2).sum())
    assert cut_off == whole if whole <= 1_023 * cut else 1_023 * cut - 3 < cut_off <= 1_023 * cut + 3


def test_without_keys_a_replaced_record_stays_in_its_place_and_is_charged_for_no_other() -> None:
    """The worst pair of records, or of one and none, nearly uses up what is charged: two places would cost more."""
    given_ = {"features": ("x", "y"), "keys": (), "shares": ("0.8", "0.1", "0.1"), "budget": Budget(rho="1")}
    one = made_of(given_, "replace-one")
    ends = [(0, x, y, 0) for x in (0, 500, 1000) for y in (0, 50, 100)] + [(0, -1, 0, 0)]
    worst = max(moved(one, sums(one, [a]), sums(one, [b])) for a, b in itertools.combinations(ends, 2))
    assert limit(one) * Fraction(98, 100) < worst <= limit(one)
