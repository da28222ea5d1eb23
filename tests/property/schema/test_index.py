"""The index function is total: every value of every type has exactly one place, and each value its own."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from property.schema.strategies import anything, attributes, numbers
from siloquent.schema import OUTSIDE, Attribute


@given(attribute=attributes, value=anything)
def test_every_value_of_every_type_has_one_place(attribute: Attribute, value: Any) -> None:
    place = attribute.index(value)
    assert type(place) is int
    assert OUTSIDE <= place < attribute.size
    assert attribute.index(value) == place


@given(attribute=attributes, data=st.data())
def test_the_label_of_a_place_falls_into_that_place(attribute: Attribute, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, attribute.steps - 1))
    assert attribute.index(attribute.label(place)) == place


@given(attribute=attributes)
def test_null_has_the_place_that_is_declared(attribute: Attribute) -> None:
    place = attribute.index(None)
    assert place == {"drop": OUTSIDE, "cell": attribute.size - 1}.get(attribute.null, place)
    assert (place == OUTSIDE) == (attribute.null == "drop")
    assert attribute.index("\0 nothing reads like this") in (place, attribute.other_index)


@given(attribute=numbers(), one=st.floats(allow_nan=False), other=st.floats(allow_nan=False))
def test_larger_numbers_have_no_smaller_places(attribute: Attribute, one: float, other: float) -> None:
    low, high = attribute.index(min(one, other)), attribute.index(max(one, other))
    assert low <= high or OUTSIDE in (low, high)


@given(attribute=numbers(), place=st.integers(0, 10_000), shift=st.floats(-0.49, 0.49))
def test_numbers_less_than_half_a_step_off_share_a_place(attribute: Attribute, place: int, shift: float) -> None:
    assert attribute.lo is not None
    assert attribute.grid is not None
    place = min(place, attribute.steps - 1)
    value = float(attribute.lo) + (place + shift) * float(attribute.grid)  # type: ignore[arg-type]
    if math.ulp(value) * 64 < float(attribute.grid) and float(attribute.lo) <= value <= float(attribute.hi):  # type: ignore[arg-type]
        assert attribute.index(value) == place
