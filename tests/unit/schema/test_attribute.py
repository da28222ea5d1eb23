"""An attribute's places, values and labels, and the declarations that cannot be."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from siloquent.errors import RequestError, SchemaError
from siloquent.schema import OTHER, OUTSIDE, Attribute


def number(**changes: Any) -> Attribute:
    fields = {"lo": Decimal(0), "hi": Decimal(10), "grid": Decimal(1), **changes}
    return Attribute("v", fields.pop("kind", "real"), **fields)


def moments(kind: Any, first_hour: int, last_hour: int, *, grid: str = "86400") -> Attribute:
    lo, hi = datetime(2024, 1, 1, first_hour), datetime(2024, 1, 2, last_hour)
    return Attribute("d", kind, lo=lo, hi=hi, grid=Decimal(grid))


@pytest.mark.parametrize(
    ("value", "clamped", "dropped"),
    [(0, 0, 0), (10, 10, 10), (0.4999, 0, 0), (0.5, 1, 1), (9.5, 10, 10), (-0.1, 0, -1), (10.1, 10, -1),
     (math.inf, 10, -1), (-math.inf, 0, -1), ("7", 7, 7), (-0.0, 0, 0)],
)  # fmt: skip
def test_numbers_go_to_the_nearest_grid_point_and_bounds_decide_the_rest(
    value: object, clamped: int, dropped: int
) -> None:
    assert number(outside="clamp").index(value) == clamped
    assert number(outside="drop").index(value) == dropped


@pytest.mark.parametrize("gone", [None, math.nan, "x", Decimal("sNaN"), [], np.array([1, 2])])
def test_null_nan_and_what_cannot_be_read_are_one_thing(gone: object) -> None:
    assert number(null="drop").index(gone) == OUTSIDE
    assert number(null="cell").index(gone) == 11
    assert number(null="value", null_value=Decimal(3)).index(gone) == 3


def test_a_category_has_a_cell_for_others_and_one_for_null_where_declared() -> None:
    plain = Attribute("w", "category", values=("A", "B"))
    wide = Attribute("w", "category", values=("A", "B"), other="cell", null="cell")
    assert [plain.index(v) for v in ("A", "B", "C", "a", None, 1.0)] == [0, 1, -1, -1, -1, -1]
    assert [wide.index(v) for v in ("A", "B", "C", "a", None, 1.0)] == [0, 1, 2, 2, 3, 3]
    assert (plain.size, wide.size) == (2, 4)
    assert [wide.label(i) for i in range(4)] == ["A", "B", OTHER, None]


def test_whole_numbers_and_booleans_can_be_categories() -> None:
    coded = Attribute("w", "category", values=("1", "2", "true"))
    assert [coded.index(v) for v in (1, np.int64(2), True, 3)] == [0, 1, 2, -1]


def test_a_day_that_ends_the_range_counts_up_to_midnight() -> None:
    day = Attribute("d", "date", lo=datetime(2024, 1, 1), hi=datetime(2024, 1, 3), grid=Decimal(86_400))
    assert day.size == 3
    assert [day.index(v) for v in ("2024-01-03 23:59:59.999999", "2024-01-04", "2023-12-31")] == [2, -1, -1]
    assert [day.index(v) for v in (date(2024, 1, 1), datetime(2024, 1, 2, 5), None, 5)] == [0, 1, -1, -1]
    assert day.label(2) == date(2024, 1, 3)


def test_hours_count_from_lo() -> None:
    hour = Attribute(
        "h", "datetime", lo=datetime(2024, 1, 1, 6), hi=datetime(2024, 1, 1, 9), grid=Decimal(3_600), outside="clamp"
    )
    assert [hour.index(f"2024-01-01 {t}") for t in ("05:59", "06:00", "06:59", "09:59", "12:00")] == [0, 0, 0, 3, 3]


def test_an_id_and_a_text_have_no_cells() -> None:
    for kind in ("id", "text"):
        attribute = Attribute("x", kind)  # type: ignore[arg-type]
        assert (attribute.size, attribute.index("anything")) == (0, OUTSIDE)


@pytest.mark.parametrize(
    "attribute",
    [
        number(lo=Decimal("-0.3"), hi=Decimal("0.4"), grid=Decimal("0.1")),
        number(lo=Decimal("1e-9"), hi=Decimal("5e-8"), grid=Decimal("1e-9")),
        number(lo=Decimal(-(2**47)), hi=Decimal(-(2**47) + 20)),
        number(kind="integer", lo=Decimal(-7), hi=Decimal(35), grid=Decimal(7), null="cell"),
        Attribute("b", "boolean", null="cell"),
        Attribute("c", "category", values=("x", "y")),
        Attribute("d", "date", lo=datetime(1, 1, 1), hi=datetime(1, 3, 1), grid=Decimal(86_400)),
        Attribute("t", "datetime", lo=datetime(2024, 1, 1), hi=datetime(2024, 1, 1, 1), grid=Decimal(60)),
    ],
)
def test_labels_and_points_are_the_values_of_their_places(attribute: Attribute) -> None:
    for place, point in enumerate(attribute.list_points().tolist()):
        assert attribute.label(place) == point
        assert attribute.index(point) == place


def test_bins_hold_every_place_once() -> None:
    binned = number(edges=(Decimal(0), Decimal(2), Decimal(5), Decimal(10)), null="cell")
    assert binned.map_to_bins().tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, -1]
    assert binned.list_bin_labels() == ["[0, 2)", "[2, 5)", "[5, 10]", None]


def test_an_attribute_of_too_many_values_serves_sums_only() -> None:
    wide = number(hi=Decimal(10**7))
    assert wide.index(10**7) == 10**7
    with pytest.raises(RequestError, match="declare a coarser grid"):
        wide.list_points()


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: number(lo=None), "has no bounds"),
        (lambda: number(grid=None), "has no grid"),
        (lambda: number(grid=Decimal(0)), "a grid above 0"),
        (lambda: number(lo=Decimal(11)), "needs lo <= hi"),
        (lambda: number(grid=Decimal(3)), "multiples of the grid"),
        (lambda: number(lo=Decimal("0.5")), "multiples of the grid"),
        (lambda: number(kind="integer", grid=Decimal("0.5")), "is an integer"),
        (lambda: number(lo=Decimal("NaN")), "not finite"),
        (lambda: number(hi=Decimal("Infinity")), "not finite"),
        (lambda: number(lo=datetime(2024, 1, 1)), "its bounds must be numbers"),
        (lambda: number(hi=Decimal(2**40)), "more than 2\\^40 grid steps"),
        (lambda: number(lo=Decimal(2**49), hi=Decimal(2**49 + 1)), "2\\^48 grid steps away from zero"),
        (lambda: number(hi=Decimal(10**39), grid=Decimal(1)), "2\\^48"),
        (lambda: number(kind="integer", lo=Decimal(0), hi=Decimal(10**19), grid=Decimal(10**18)), "within 2\\^62"),
        (lambda: number(edges=(Decimal(0), Decimal(5))), "must begin at lo"),
        (lambda: number(edges=(Decimal(0), Decimal(5), Decimal(5), Decimal(10))), "increasing edges"),
        (lambda: number(edges=(Decimal(0), Decimal("0.5"), Decimal(10))), "edges must be multiples"),
        (lambda: number(null="value", null_value=Decimal(99), outside="drop"), "not one of its own values"),
        (lambda: number(null="value", null_value="x"), "not one of its own values"),
        (lambda: number(null="value", null_value=None), "not one of its own values"),
        (lambda: Attribute("c", "category"), "has no values"),
        (lambda: Attribute("c", "category", values=("A", "A")), "twice"),
        (lambda: Attribute("c", "category", values=(OTHER,)), "is the name of the cell"),
        (lambda: Attribute("c", "category", values=("a\0b",)), "NUL"),
        (
            lambda: Attribute("d", "date", lo=Decimal(1), hi=Decimal(2), grid=Decimal(86_400)),
            "its bounds must be dates",
        ),
        (lambda: moments("date", 0, 0, grid="5"), "of days"),
        (lambda: moments("datetime", 0, 0, grid="0.5"), "of seconds"),
        (
            lambda: Attribute(
                "d", "date", lo=datetime(2024, 1, 1, 5), hi=datetime(2024, 1, 2, 5), grid=Decimal(86_400)
            ),
            "a time of day",
        ),
        (
            lambda: Attribute(
                "t", "datetime", lo=datetime(2024, 1, 1), hi=datetime(2024, 1, 2, 1), grid=Decimal(86_400)
            ),
            "distance",
        ),
        (lambda: Attribute("", "id"), "1 to 128 characters"),
        (lambda: Attribute('a"b', "id"), "without double quotes"),
        (lambda: Attribute("x" * 129, "id"), "1 to 128 characters"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(make: Any, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        make()


def test_large_bounds_are_checked_exactly() -> None:
    wide = number(lo=Decimal(10**30), hi=Decimal(2 * 10**30), grid=Decimal(10**25))
    assert wide.size == 100_001
    assert wide.index(1.5e30) == 50_000
