"""Earlier answers are drawn from only while they mean what the new question asks, also after a change of the file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent
from property.explore.samplers import recorded
from siloquent.session import create_workspace

SCHEMA = """
format = 1
attribute = [
  { name = "x", type = "integer", lo = 0, hi = 99, outside = "drop", null = "drop" },
  { name = "y", type = "integer", lo = -5, hi = 20, outside = "drop", null = "drop" },
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
  { name = "ill", type = "boolean", null = "cell" },
  { name = "well", type = "boolean", null = "drop" },
]
[table]
name = "visits"
source = "parquet:data/visits.parquet"
adjacency = "add-remove"
size_hint = 3000
unit = { kind = "row" }
[budget]
BUDGET
reuse = "any"
"""
BUDGETS = {"pure": 'accountant = "pure"\nepsilon = "1000"', "zcdp": 'accountant = "zcdp"\nrho = "1000"\ndelta = "1e-6"'}
X = 'hi = 99, outside = "drop", null = "drop"'
CHANGES = {
    "outside": ('hi = 99, outside = "clamp", null = "drop"', lambda x: 0 if x is None else min(x, 99)),
    "null": ('hi = 99, outside = "drop", null = { value = 80 }', lambda x: 80 if x is None else x * (x <= 99)),
    "null as 7": ('hi = 99, outside = "drop", null = { value = 7 }', lambda x: 7 if x is None else x * (x <= 99)),
}
VALUES = [5, 500, None] * 1_000
SUMS = {
    "SELECT SUM(x) AS n FROM visits": lambda x, _: x,
    "SELECT SUM(x) AS n FROM visits WHERE ward = 'A'": lambda x, ward: x * (ward == "A"),
    "SELECT SUM(2 * x) AS n FROM visits": lambda x, _: 2 * x,
    "SELECT SUM(x * CASE WHEN ward = 'A' THEN 1 ELSE 3 END) AS n FROM visits": lambda x, ward: (
        x * (1 if ward == "A" else 3)
    ),
}


def declare(folder: Path, accountant: str, edit: tuple[str, str] = ("", "")) -> None:
    text = SCHEMA.replace("BUDGET", BUDGETS[accountant])
    assert edit[0] in text
    (folder / "schemas" / "visits.toml").write_text(text.replace(*edit))


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    folder = create_workspace(tmp_path / "clinic").folder
    (folder / "data").mkdir()
    size = len(VALUES)
    rows = {"x": VALUES, "y": [3] * size, "ward": ["A", "B"] * (size // 2), "ill": [True] * size}
    none = pa.nulls(size, pa.bool_())
    pq.write_table(pa.table({**rows, "well": none}), folder / "data" / "visits.parquet")
    return folder


@pytest.mark.parametrize("accountant", BUDGETS)
@pytest.mark.parametrize("change", CHANGES)
def test_sums_are_not_drawn_from_sums_of_a_column_declared_otherwise(
    clinic: Path, accountant: str, change: str
) -> None:
    line, read = CHANGES[change]
    for edit in [("", ""), (X, line)]:
        declare(clinic, accountant, edit)
        with siloquent.open(clinic) as session, recorded():
            for question, weigh in SUMS.items():
                meant = read if edit[0] else lambda x: 0 if x is None else x * (x <= 99)
                exact = sum(weigh(meant(x), "AB"[i % 2]) for i, x in enumerate(VALUES))
                error = 9_000 if edit[0] else 10_000
                (value, low, high) = session.ask(f"{question} ERROR {error}").rows[0]
                assert low <= exact <= high, (question, exact, value)


def test_a_sum_is_drawn_from_the_same_sum(clinic: Path) -> None:
    declare(clinic, "pure")
    with siloquent.open(clinic) as session:
        first = session.ask("SELECT SUM(x) FROM visits ERROR 10000")
    declare(clinic, "pure", ('"A", "B"]', '"A", "B"], labels = { A = "surgery" }'))
    with siloquent.open(clinic) as session:
        again = session.ask("SELECT SUM(x) FROM visits ERROR 9000")
        assert again.accuracy.label == "independent"
        assert 0 < again.cost.amount < first.cost.amount


def test_a_total_is_not_drawn_from_groups_that_leave_rows_out(clinic: Path) -> None:
    """A computed boolean has a cell of NULL, and its rows can be left out nevertheless."""
    declare(clinic, "pure")
    key = "CASE WHEN ward = 'A' THEN ill ELSE well END"
    with siloquent.open(clinic) as session, recorded():
        session.ask(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k ERROR 5")
        (_, low, high) = session.ask("SELECT COUNT(*) FROM visits ERROR 20").rows[0]
    assert low <= len(VALUES) <= high
