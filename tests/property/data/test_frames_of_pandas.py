"""One value more in a frame of pandas changes the column's type, and not what becomes of other rows.

The large version, every combination: ``python -m benchmarks core --only frame-rows``.
"""

from __future__ import annotations

from unittest.mock import patch

import pandas as pd
import pytest

from benchmarks.hostile import frames
from siloquent.data.sources import objects
from siloquent.data.sources import pandas as by_type
from siloquent.errors import SchemaError

STEP = 397


@pytest.mark.slow
def test_one_value_more_changes_no_other_row() -> None:
    found = dict(frames.neighbours(STEP, start=5))
    assert len(found) > 30
    assert not {name: fault for name, fault in found.items() if fault}


def test_two_users_beyond_the_whole_numbers_of_floats_are_never_one() -> None:
    exact = pd.Series([5, 2**53, 2**53 + 1])
    for column in (exact, exact.astype("Int64"), exact.astype("float64"), exact.astype(object), exact.astype("uint64")):
        read = frames.rows_of(pd.DataFrame({"n": range(3), "i": column}), "i")
        assert read == {0: ("5",), 1: ("None",), 2: ("None",)}, column.dtype
    texts = exact.astype("string")
    assert frames.rows_of(pd.DataFrame({"n": range(3), "i": texts}), "i")[2] == (str(2**53 + 1),)


def test_booleans_that_pandas_may_turn_into_numbers_are_refused_where_texts_are_read() -> None:
    frame = pd.DataFrame({"n": [0, 1], "c": [True, False]})
    with pytest.raises(SchemaError, match=r'astype\("boolean"\)'):
        frames.rows_of(frame, "c")
    assert frames.rows_of(frame.astype({"c": "boolean"}), "c") == {0: ("3",), 1: ("5",)}


PLANTED = {
    "floats as whole numbers": ("int64", "nan", "i", (objects, "FIRST_INEXACT", 2**63)),
    "ids keep their type": ("int64", "nan", "i", (by_type, "_exact", lambda numbers: numbers)),
    "categories keep their type": ("int32", "nan", "c", (by_type, "_KEPT", {**by_type._KEPT, "category": "f"})),
    "booleans as texts": ("bool", "None", "w", (objects, "_NUMBERS", ())),
    "moments as texts": ("nanoseconds", "text", "m", (objects, "_MOMENTS", ())),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name: str) -> None:
    column, value, names, fault = PLANTED[name]
    frame = pd.DataFrame({"n": range(4), names: frames.columns()[column]})
    join = frames.added(frame, frames.values()[value])["concat"]
    assert not frames.fault(frame, join, names)
    with patch.object(*fault):
        assert frames.fault(frame, join, names)
