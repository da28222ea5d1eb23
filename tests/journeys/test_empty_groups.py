"""A group that may have no rows has no average: NULL and the whole domain, in each form, and never a made-up number."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import siloquent as sq
from siloquent.explore.replay import _iter_renderings
from siloquent.explore.spec.answers.text import format_cells

GROUPS = [f"g{i}" for i in range(40)]
FRAME = pa.table({"g": ["g0"] * 3_000, "x": [7] * 3_000, "who": [f"p{i}" for i in range(3_000)]})
BY_GROUP = "FROM t GROUP BY g"


@pytest.fixture
def session(tmp_path: Path) -> sq.Session:
    made = sq.open(sq.create_workspace(tmp_path / "w").folder)
    declared = sq.declare(
        FRAME, {"g": GROUPS, "x": "0..100", "who": "id"}, name="t", person="who", max_rows=2, rows=3_000, epsilon=50
    )
    made.add_frame(declared, FRAME)
    return made


# Of 39 empty groups each has a noisy count of 0 or less with probability 1/2 at least: all have more once in 2^39 runs.
@pytest.mark.parametrize("aggregate", ["AVG(x)", "VAR(x)", "STDDEV(x)", "VAR_POP(x)"])
def test_a_group_that_may_be_empty_has_no_value(session: sq.Session, aggregate: str) -> None:
    error = 500 if aggregate.startswith("VAR") else 30
    answer = session.ask(f"SELECT g, {aggregate} {BY_GROUP} ERROR {error} FOR AT LEAST 300 ROWS")
    missing = [row for row in answer.rows if row[1] is None]
    assert missing
    assert answer.rows[0][1] is not None
    assert {tuple(row[2:]) for row in missing if aggregate == "AVG(x)"} <= {(0.0, 100.0)}
    assert all(low < high for _, _, low, high in missing)
    assert any("has no value: by the noisy count, there may be no rows" in one for one in answer.notes)
    document = answer.to_json()
    assert [row[1] for row in document["rows"]] == [row[1] for row in answer.rows]
    _, cells = format_cells(answer.columns, missing)
    assert {cell[1] for cell in cells} == {""}
    assert "" not in {cell[2] for cell in cells}
    assert answer.table.column(1).null_count == len(missing)
    assert answer.pictures()
    assert answer._repr_html_()


def test_a_group_without_a_value_passes_no_having_and_stands_last(session: sq.Session) -> None:
    rows = session.ask(f"SELECT g, AVG(x) {BY_GROUP} ERROR 30 FOR AT LEAST 300 ROWS").rows
    known = {row[0] for row in rows if row[1] is not None}
    kept = session.ask(f"SELECT g, AVG(x) {BY_GROUP} HAVING AVG(x) >= 0 ERROR 30 FOR AT LEAST 300 ROWS")
    assert {row[0] for row in kept.rows if row[1] is not None} == {row[0] for row in kept.rows}
    assert {row[0] for row in kept.rows} == known
    for order in ("ASC", "DESC"):
        asked = f"SELECT g, AVG(x) {BY_GROUP} ORDER BY AVG(x) {order} LIMIT 40 ERROR 30 FOR AT LEAST 300 ROWS"
        values = [row[1] for row in session.ask(asked).rows]
        assert values[len(known) :] == [None] * (len(values) - len(known))


def test_releases_verify_as_this_version_and_as_earlier_ones_wrote_them(session: sq.Session) -> None:
    answer = session.ask(f"SELECT g, AVG(x) {BY_GROUP} ERROR 30 FOR AT LEAST 300 ROWS")
    folder = session.save(answer)
    assert session.verify(folder).outcome == "verified"
    schema = session.schema("t")
    (stored,) = session.ledger.iter_answers("t@1")
    now, earlier = _iter_renderings(session, schema, stored)
    numbers = earlier.contents["answer.parquet"].column(1).to_pylist()
    assert now.contents["answer.parquet"].column(1).to_pylist() == [row[1] for row in answer.rows]
    assert None not in numbers
    assert 50.0 in numbers
    assert not any("has no value" in one for one in earlier.manifest.known)
