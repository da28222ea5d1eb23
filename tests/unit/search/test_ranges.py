"""Ranges that are estimated: near the rows, paid for, and read by everybody who has the offer."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from siloquent.errors import RequestError
from siloquent.privacy import Composed, ExponentialSelect
from siloquent.search import Budget, Catalogue, KeyOf, OfferSpec, RequestSpec, plan
from siloquent.search.estimate.joins import compute_offer_means
from siloquent.search.measure.ranges import select_range
from siloquent.search.measure.statistics import shift_indices
from unit.search.tables import PURE, rows, schema, session, spec

NARROW = {"range": "quantiles", "features": ("x", "kind")}


def test_the_ends_are_those_that_few_rows_lie_beyond() -> None:
    counts = np.zeros(1_001, dtype=np.int64)
    counts[400:500] = 100
    found = [select_range(counts, Fraction(1, 100)) for _ in range(50)]
    # At this rate a miss by 20 rows costs a factor of e^-10.
    assert all(395 <= first <= 405 and 494 <= last <= 500 and declared == 1_001 for first, last, declared in found)


@pytest.mark.parametrize("counts", [np.zeros(5, dtype=np.int64), np.array([0, 0, 900, 0, 0])])
def test_a_range_always_has_two_places(counts: np.ndarray) -> None:
    for _ in range(50):
        first, last, _ = select_range(counts, Fraction(1, 10))
        assert 0 <= first < last < 5


@pytest.mark.parametrize(("account", "budget"), [(PURE, Budget(epsilon="1")), ("", Budget(rho="0.05"))])
def test_estimated_ranges_are_part_of_the_price(account: str, budget: Budget) -> None:
    made = plan(spec(**NARROW, budget=budget), schema(**({"budget": account} if account else {})))
    whole = Fraction(1) if account else Fraction("0.05")
    assert isinstance(made.event, Composed)
    assert isinstance(made.event.parts[0], ExponentialSelect)
    assert made.event.parts[0].rounds == 2
    assert whole * Fraction("0.97") < made.price <= whole


def test_categories_have_no_range_to_estimate() -> None:
    with pytest.raises(RequestError, match="Only ranges of numbers"):
        plan(spec(range="quantiles", features=("kind",)), schema())


def test_means_are_right_in_the_estimated_range_and_null_stays_the_middle(tmp_path: Path) -> None:
    base = rows(4_000)
    x = np.clip(4 + np.random.default_rng(3).normal(0, 0.2, 4_000), 0, 10).round(2)
    frame = base.set_column(base.column_names.index("x"), "x", pa.array(x))
    y = pa.array([None if i % 2 else 60 for i in range(4_000)])
    frame = frame.set_column(frame.column_names.index("y"), "y", y)
    with session(tmp_path, frame) as opened:
        made = opened.search.offer(spec(range="quantiles", features=("x", "y"), budget=Budget(rho="100")), key="k")
        again = opened.search.offer(spec(range="quantiles", features=("x", "y"), budget=Budget(rho="100")), key="k")
        assert again.to_bytes() == made.to_bytes()
    lo, hi = float(Fraction(made.features[0].lo)), float(Fraction(made.features[0].hi))
    assert 3.2 < lo < 3.8 < 4.2 < hi < 4.8
    middle, half = made.scale[0]
    found = middle + half * compute_offer_means(made, 0).values[:, 0]
    assert np.allclose(found, 4, atol=0.03)


def test_platform_scoring_may_estimate_the_requests_ranges(tmp_path: Path) -> None:
    with session(tmp_path, rows(4_000)) as opened:
        opened.add_frame(schema(name="other"), rows(4_000, seed=1))
        made = opened.search.offer(OfferSpec("other", ("x",), (KeyOf("town"),), budget=Budget(rho="10")))
        asked = RequestSpec(
            "places", "y", ("wet",), ("town",), scoring="platform", budget=Budget(rho="10"), range="quantiles"
        )
        found = opened.search.find(asked, Catalogue((made,)))
    # y follows 8 x of the town: 16 steps of y from town to town are 2 steps of x.
    slope = {one.feature: one.value for one in found.model.coefficients}
    assert slope["other.x"] == pytest.approx(8, rel=0.15)


def test_one_row_in_fifty_lies_below_the_range_and_one_above() -> None:
    counts = np.ones(2_450, dtype=np.int64)  # of which 49 are a fiftieth, and 50 would be a 49th
    sure = Fraction(100)  # a place beside the best one has a chance of e^-100
    assert select_range(counts, sure) == (49, 2_450 - 1 - 49, 2_450)
    uneven = np.random.default_rng(4).integers(0, 30, 400)
    first, last, _ = select_range(uneven, sure)
    assert select_range(uneven[::-1].copy(), sure) == (399 - last, 399 - first, 400)


def test_places_behind_the_declared_ones_stay_behind_the_range() -> None:
    """NULL and other values have cells after the declared places: they are no large numbers."""
    places = np.array([-1, 0, 2, 4, 6, 9, 10, 11])
    assert shift_indices(places, (2, 6, 10)).tolist() == [-1, 0, 0, 2, 4, 4, 5, 5]


def test_ends_that_cross_are_put_in_order() -> None:
    """With hardly any budget both ends are anywhere: of 60 ranges over 1,000 places 9 are one wide once in 10^12."""
    counts = np.zeros(1_000, dtype=np.int64)
    widths = [last - first for first, last, _ in (select_range(counts, Fraction(1, 10**9)) for _ in range(60))]
    assert sum(width == 1 for width in widths) < 9
