"""A list of values in Python is these values, whatever signs they hold: none is a range, a label or a list."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

import siloquent as sq
from siloquent.errors import SiloquentError
from siloquent.schema import Attribute

plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
spoken = st.from_regex(r"[0-9]{1,3}(-|\.\.| - )[0-9]{1,3}", fullmatch=True)
marked = st.sampled_from(
    ["a = b", "<=50K", "1 = one", "a, b", "a; b", "a|b", '"a"', "@month", "=t.c", "rest", "yes/no", "id"]
)
values = st.lists(plain | spoken | marked, min_size=1, max_size=5, unique=True)
FRAME = pa.table({"g": ["any"]})


@given(values)
def test_a_list_declares_its_own_values(listed: list[str]) -> None:
    try:
        Attribute("g", "category", values=tuple(listed))
    except SiloquentError:
        assume(False)
    assert sq.declare_attribute("g", listed).values == tuple(listed)
    declared = sq.declare(FRAME, {"g": listed}, person="none").to_schema()
    assert declared.domain["g"].values == tuple(listed)
