"""Columns of many values: a joint is counted where the model can hold it, and nothing is promised where it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.synth import Budget
from siloquent.synth.spec.release import SyntheticRelease
from unit.synth.people import opened, planned, schema, spec

ROWS = 6_000


def made(folder: Path, values: int, *, more: str = "", **given: str) -> SyntheticRelease:
    """Two columns that say the same, each of so many values, and one of two."""
    words = [f"v{i:03}" for i in range(values)]
    listed = "[" + ", ".join(f'"{word}"' for word in words) + "]"
    columns = "".join(
        f'  {{ name = "{name}", type = "category", values = {listed}, null = "drop" }},\n' for name in "ab"
    )
    places = np.arange(ROWS) % values
    texts = np.array(words)[places]
    table = pa.table({"a": texts, "b": texts, "x": pa.array(places % 2 == 0)})
    with opened(folder / "w", table, columns=columns + more, rules="", size_hint=ROWS) as session:
        return session.synth.synthesize(spec(budget=Budget(epsilon="90"), report=0, **given), key="k")


X = '  { name = "x", type = "boolean", null = "drop" },\n'


@pytest.mark.slow
def test_a_pair_of_many_cells_is_counted(tmp_path: Path) -> None:
    release = made(tmp_path, 100, more=X)
    assert ("a", "b") in {joint.attributes for joint in release.measurements.select_kind("joint")}
    plain = release.rows.to_pydict()
    assert np.mean([a == b for a, b in zip(plain["a"], plain["b"], strict=True)]) > 0.9


@pytest.mark.slow
def test_the_smallest_joint_is_counted_where_all_are_too_large(tmp_path: Path) -> None:
    release = made(tmp_path, 150)
    assert [joint.attributes for joint in release.measurements.select_kind("joint")] == [("a", "b")]


def test_a_run_ends_without_joints_where_the_model_can_hold_none(tmp_path: Path) -> None:
    release = made(tmp_path, 300)
    assert release.measurements.select_kind("joint") == ()
    assert release.rows.num_rows > ROWS / 2
    assert [(pair.measured, pair.off) for pair in release.report.pairs] == [(False, 1.0)]


def test_nothing_is_promised_of_a_pair_that_was_too_large(tmp_path: Path) -> None:
    pairs = {(pair.first, pair.second): pair for pair in made(tmp_path, 300, more=X).report.pairs}
    assert (pairs["a", "b"].measured, pairs["a", "b"].off) == (False, 1.0)
    assert pairs["a", "x"].off < 1


@pytest.mark.parametrize("quality", ["fast", "best"])
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_a_budget_of_next_to_nothing_is_refused_in_words(quality: str, accountant: str) -> None:
    of, least = schema(size_hint=None, accountant=accountant), Budget(epsilon="0.0000000000000001")
    with pytest.raises((AccuracyUnreachable, RequestError), match="budget"):
        planned(of, budget=least, quality=quality)
