"""Answers as frames of pandas: a group without a value is missing, and its neighbours keep their type."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import siloquent as sq


@pytest.mark.parametrize(
    ("meaning", "values", "kept"),
    [
        (["A", "B"], ["A", "B", None], "string"),
        ("1..3", [1, 3, None], "Int64"),
        ("yes/no", [True, False, None], "boolean"),
    ],
)
def test_a_missing_group_is_na_in_pandas(meaning: str, values: list[object], kept: str, tmp_path: Path) -> None:
    rows = pa.table({"key": values * 50})
    declared = sq.declare(rows, {"key": meaning}, name="t", person="none", epsilon=50, empty="group")
    sq.create_workspace(tmp_path / "w")
    with sq.open(tmp_path / "w") as session:
        session.add_frame(declared, rows)
        answer = session.ask("SELECT key, COUNT(*) FROM t GROUP BY key ERROR 40")
    frame = answer.to_pandas()
    assert frame["key"].dtype == kept
    assert frame["key"].isna().sum() == 1
    assert "nan" not in [str(value) for value in frame["key"]]
    assert frame["count"].dtype.kind in "fi"
