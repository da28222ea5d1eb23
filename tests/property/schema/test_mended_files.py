"""The lines that a refused declaration offers lead on: with them it is read, or refused for another reason."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.refusals.questions import SMALL
from siloquent.errors import SchemaError
from siloquent.fixes import WriteLines
from siloquent.schema.build import parse_schema

VAST = ("inf", "-inf", "nan", "1" + "0" * 30)
slips = {
    "hi = 200": [f"hi = {one}" for one in VAST],
    "lo = 0": [f"lo = {one}" for one in VAST],
    "width = 50": [f"width = {one}" for one in VAST],
    'outside = "clamp"': ["outside = True", "outside = clamp", "outside = None", "outside = 'clamp"],
    'null = "drop", bins': ["null = False, bins", "null = drop, bins"],
    "size_hint = 500": ["size_hint = True", "size_hint = inf", "size_hint : 500"],
    'epsilon = "0.05"': ["epsilon = nan", "epsilon = None", "epsilon = 0,05"],
    '["x", "y"]': ["[x, y]", '["x" "y"]'],
}
wrong_files = st.lists(
    st.sampled_from(sorted(slips)).flatmap(lambda right: st.sampled_from([(right, one) for one in slips[right]])),
    min_size=1, max_size=3, unique_by=lambda one: one[0],
)  # fmt: skip


def refuse(text: str) -> SchemaError | None:
    try:
        parse_schema(text)
    except SchemaError as refused:
        return refused
    return None


@pytest.mark.slow
@given(wrong_files)
def test_a_fix_is_not_refused_for_the_same_reason(changes: list[tuple[str, str]]) -> None:
    text = SMALL
    for right, wrong in changes:
        text = text.replace(right, wrong)
    refused = refuse(text)
    assume(refused is not None)
    assert refused is not None
    writes = [one for one in refused.remedy.parts if isinstance(one, WriteLines)]
    assume(writes)
    mended = text
    for one in writes:
        mended = one.apply(mended)
    again = refuse(mended)
    assert again is None or again.detail != refused.detail, (changes, writes)
