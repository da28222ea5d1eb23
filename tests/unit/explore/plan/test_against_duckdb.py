"""Without noise, on rows that fit their declaration, an answer is what DuckDB says of the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pytest

from siloquent.explore.measure.base import compute_answers, sum_units
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec import parse
from siloquent.schema import TableSchema
from unit.explore.plan.tables import table

ROWS = 2_000
SCHEMA = table()


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """Wards with NULL and values that are not listed; everything else as it is declared."""
    rng = np.random.default_rng(5)
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE visits (age INTEGER, cost DOUBLE, ward VARCHAR, sex VARCHAR, day DATE)")
    wards = [*"ABCDEFGH", "Z", "a", None]
    rows = [
        (
            int(rng.integers(0, 100)),
            float(rng.integers(-100, 400_001)) / 2,
            wards[int(rng.integers(len(wards)))],
            "fm"[int(rng.integers(2))],
            f"2024-{int(rng.integers(1, 13)):02}-{int(rng.integers(1, 29)):02}",
        )
        for _ in range(ROWS)
    ]
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows)
    yield connection
    connection.close()


def exact(compiled: CompiledWorkload, schema: TableSchema, engine: duckdb.DuckDBPyConnection) -> list[int]:
    """W x, with x counted through the declaration's own index functions."""
    columns = []
    for part in compiled.parts:
        names = part.block.attributes
        rows = engine.execute(f"SELECT {', '.join([*names, compiled.attribute or 'age'])} FROM visits").fetchall()
        cells, sums = (np.zeros(part.block.size, dtype=np.int64) for _ in range(2))
        for row in rows:
            places = [c[schema.domain[n].index(v)] for n, c, v in zip(names, part.block.classes, row, strict=False)]
            if min(places, default=0) < 0:
                continue
            cell = int(np.ravel_multi_index(places, part.block.shape)) if places else 0
            cells[cell] += 1
            sums[cell] += schema.domain[compiled.attribute].index(row[-1]) if compiled.attribute else 0
        columns.append(part.fold(cells) if compiled.summed is None else sum_units(compiled.summed, part, sums, cells))
    return compute_answers(compiled, columns).tolist()


def asked(text: str) -> CompiledWorkload:
    return compile_workload(parse(f"{text} ERROR 5"), SCHEMA)


CONDITIONS = [
    "age < 50",
    "age BETWEEN 20 AND 29 OR sex = 'f'",
    "NOT (ward = 'A' AND age >= 30)",
    "ward != 'A'",
    "ward NOT IN ('A', 'B')",
    "ward IS NULL OR age = 7",
    "ward IS NOT NULL AND sex IN ('m')",
    "age % 7 = 3 AND age // 10 != 2",
    "abs(age - 50) > 30",
    "round(cost) > 1000 AND cost < 150000.5",
    "year(day) = 2024 AND month(day) >= 6 AND dayofweek(day) = 0",
    "day >= DATE '2024-03-15' AND day < DATE '2024-09-01'",
    "cost > age",
    "cost * 2 > 3 + age",
    "sex = 'f' AND (age > 90 OR day = DATE '2024-05-05')",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_counts_what_duckdb_counts(condition: str, engine: duckdb.DuckDBPyConnection) -> None:
    expected = engine.execute(f"SELECT COUNT(*) FROM visits WHERE {condition}").fetchone()
    assert expected is not None
    assert exact(asked(f"SELECT COUNT(*) FROM visits WHERE {condition}"), SCHEMA, engine) == [expected[0]]


@pytest.mark.parametrize(
    "keys", ["sex", "sex, age // 10", "month(day)", "dayofweek(day), sex", "year(day)", "age % 3, sex, month(day)"]
)
@pytest.mark.parametrize("where", ["", "WHERE age < 60 AND ward IS NOT NULL"])
def test_groups_hold_what_duckdb_finds_and_empty_ones_hold_nothing(
    keys: str, where: str, engine: duckdb.DuckDBPyConnection
) -> None:
    compiled = asked(f"SELECT {keys}, COUNT(*) FROM visits {where} GROUP BY {keys}")
    found = dict(zip(compiled.labels, exact(compiled, SCHEMA, engine), strict=True))
    expected = engine.execute(f"SELECT {keys}, COUNT(*) FROM visits {where} GROUP BY {keys}").fetchall()
    assert {key: count for key, count in found.items() if count} == {tuple(row[:-1]): row[-1] for row in expected}


def test_groups_of_a_category_show_null_and_what_is_not_listed(engine: duckdb.DuckDBPyConnection) -> None:
    compiled = asked("SELECT ward, COUNT(*) FROM visits GROUP BY ward")
    listed = "CASE WHEN ward IN ('A','B','C','D','E','F','G','H') OR ward IS NULL THEN ward ELSE '(other)' END"
    expected = dict(engine.execute(f"SELECT {listed}, COUNT(*) FROM visits GROUP BY 1").fetchall())
    assert [expected[label] for (label,) in compiled.labels] == exact(compiled, SCHEMA, engine)


def test_sums_are_what_duckdb_adds_up(engine: duckdb.DuckDBPyConnection) -> None:
    compiled = asked("SELECT sex, SUM(age) FROM visits WHERE cost > 5 GROUP BY sex")
    expected = engine.execute("SELECT sex, SUM(age) FROM visits WHERE cost > 5 GROUP BY sex ORDER BY sex").fetchall()
    assert exact(compiled, SCHEMA, engine) == [row[1] for row in expected]


def test_sums_of_long_numbers_lie_within_their_slack(engine: duckdb.DuckDBPyConnection) -> None:
    compiled = asked("BIN visits ON SUM(cost) WHERE W = {age < 10, age < 50, age < 100}")
    tests = ", ".join(f"SUM(cost) FILTER (WHERE age < {a})" for a in (10, 50, 100))
    expected: tuple[Any, ...] | None = engine.execute(f"SELECT {tests} FROM visits").fetchone()
    assert expected is not None
    for found, true in zip(exact(compiled, SCHEMA, engine), expected, strict=True):
        assert abs(found * compiled.grid - true) <= compiled.slack * compiled.grid
