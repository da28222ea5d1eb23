"""Computed columns in SQL have the cells of their programs, whatever the cells that they are computed from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sqlglot import exp

from siloquent.data.cell_queries import CellQueries
from siloquent.data.computed_columns import ComputedColumn
from siloquent.data.grouped_counts import GroupedCount, build_count_kernel
from siloquent.data.sql.indices import SourceColumn
from siloquent.data.sql.programs import NoSql, SqlWriter, write_cell, write_index
from siloquent.explore.plan.computed.attributes import build_test_attribute, build_value_attribute
from siloquent.explore.spec.language.parse import parse_expression, parse_predicate
from siloquent.schema import Attribute, Block, Domain

DOMAIN = Domain(
    (
        Attribute("price", "real", Decimal(0), Decimal(110_000), Decimal("0.01"), outside="clamp", null="drop"),
        Attribute("discount", "real", Decimal(0), Decimal("0.1"), Decimal("0.01"), outside="clamp", null="cell"),
        Attribute("debt", "integer", Decimal(-40), Decimal(25), Decimal(1), outside="drop", null="drop"),
        Attribute("ward", "category", values=("b", "a", "icu"), null="cell"),
        Attribute("ill", "boolean", null="drop"),
        Attribute("sent", "date", datetime(2020, 1, 1), datetime(2023, 12, 31), Decimal(86_400), null="drop"),
        Attribute("due", "date", datetime(2019, 6, 1), datetime(2024, 2, 1), Decimal(86_400), null="cell"),
        Attribute("code", "integer", Decimal(1), Decimal(9_000), Decimal(1), outside="drop", null="drop"),
    )
)
COLUMNS = tuple(SourceColumn(one, place, one.name, "integer") for place, one in enumerate(DOMAIN))
VALUES = [
    "price * (1 - discount)", "price * discount - debt", "debt * debt * debt", "abs(debt) + 2 * debt", "sign(debt)",
    "NULLIF(debt, 3) * price",
    "CASE WHEN ward = 'icu' THEN price ELSE 0 END", "CASE WHEN sent < due THEN debt WHEN ill THEN 7 END",
    "CASE WHEN ward LIKE 'i%' OR debt > 3 THEN price * (1 - discount) ELSE debt END", "price + code * 3",
    "CASE WHEN code < 900 THEN debt * 3 END * 2", "CASE WHEN NOT (ward = 'a' AND ill) THEN code * 2 ELSE debt END",
]  # fmt: skip
TESTS = [
    "sent < due", "sent < due AND debt > 0", "NOT (sent < due OR ward = 'a')", "price * discount > code",
    "debt = code - 20 AND ward <> 'b'", "code % 13 < 4 AND debt < code", "ill AND sent <= due OR ward LIKE '%c%'",
    "(ward = 'a' OR ward = 'icu') AND debt BETWEEN -3 AND 20 AND code IN (4, 8) OR ward = 'b' AND code < 40 AND ill",
]  # fmt: skip

LEFT = [
    "COALESCE(discount, 0) * debt",
    "greatest(debt, code)",
    "(code % 7) * debt",
    "due - sent",
]
"""Programs that tell NULL from values left out, or divide."""


Build = Callable[[ComputedColumn, SqlWriter], exp.Expr]


def draw_cells(rows: int, seed: int) -> dict[str, NDArray[np.int64]]:
    draw = np.random.default_rng(seed)
    return {one.index_name: draw.integers(-1, one.attribute.size, size=rows) for one in COLUMNS}


def compute(column: ComputedColumn, cells: dict[str, NDArray[np.int64]], build: Build) -> NDArray[np.float64]:
    with duckdb.connect() as engine:
        engine.register("kept", pa.table(cells))
        lent: list[str] = []

        def lend(columns: dict[str, NDArray[np.int64]]) -> str:
            lent.append(f"lent_{len(lent)}")
            engine.register(lent[-1], pa.table(columns))
            return lent[-1]

        writer = SqlWriter({one.attribute.name: one for one in COLUMNS}, lend, [])
        value = build(column, writer)
        query = exp.select(exp.alias_(value, "x")).from_(exp.to_table("kept"))
        for name, on in writer.joins:
            query = query.join(exp.to_table(name), on=on, join_type="LEFT")
        found = engine.execute(query.sql("duckdb")).fetchnumpy()["x"]
        return np.asarray(np.ma.filled(found.astype(np.float64), np.nan))


def build_column(attribute: Attribute) -> ComputedColumn:
    assert attribute.computed is not None
    return ComputedColumn(attribute, tuple(one for one in COLUMNS if one.attribute.name in attribute.computed.inputs))


@pytest.mark.parametrize("text", VALUES)
def test_a_number_is_that_of_its_program(text: str) -> None:
    column = build_column(build_value_attribute(parse_expression(text), DOMAIN, {}))
    cells = draw_cells(20_000, seed=len(text))
    expected = column.compute_cells(cells)
    known = (expected >= 0) & (expected < column.attribute.steps)
    found = compute(column, cells, write_index)
    np.testing.assert_array_equal(found, np.where(known, expected, np.nan))


@pytest.mark.parametrize("text", TESTS)
def test_a_condition_is_that_of_its_program(text: str) -> None:
    column = build_column(build_test_attribute(parse_predicate(text), DOMAIN))
    cells = draw_cells(20_000, seed=len(text))
    found = compute(column, cells, write_cell)
    np.testing.assert_array_equal(found, column.compute_cells(cells))
    passing = compute(column, cells, lambda one, writer: exp.and_(*writer.write_condition(one.program.node)))
    np.testing.assert_array_equal(np.nan_to_num(passing), column.compute_cells(cells) == 1)


@pytest.mark.parametrize("text", LEFT)
def test_other_programs_are_left_to_batches(text: str) -> None:
    column = build_column(build_value_attribute(parse_expression(text), DOMAIN, {}))
    with pytest.raises(NoSql):
        compute(column, draw_cells(50, seed=1), write_index)


@pytest.mark.parametrize("seed", range(6))
def test_numbers_in_one_pass_are_those_of_batches(seed: int) -> None:
    """Random classes with some left out, of declared and computed columns, a wide one among them."""
    draw = np.random.default_rng(seed)
    test = build_column(build_test_attribute(parse_predicate(TESTS[seed]), DOMAIN))
    number = build_column(build_value_attribute(parse_expression(VALUES[seed]), DOMAIN, {}))
    parts = [(COLUMNS[3], 3), (COLUMNS[7], 5), (test, 2)]
    classes = [draw.integers(-1, many, size=one.attribute.size + 1) for one, many in parts]
    block = Block(tuple(one.attribute.name for one, _ in parts), tuple(classes), (test.attribute,))
    scan = GroupedCount(block, tuple(one for one, _ in parts))
    cells = draw_cells(30_000, seed)
    with duckdb.connect() as engine:
        engine.register("kept", pa.table(cells))
        lent = CellQueries(lambda name, columns: engine.register(name, pa.table(columns)) and None, engine.unregister)
        requests = [([scan], None), ([scan], COLUMNS[2]), ([scan], number)]
        found = lent.run(
            requests,
            exp.to_table("kept"),
            lambda query: pa.table(engine.execute(query.sql("duckdb")).fetchnumpy()),
            lambda _, __: pytest.fail("it has SQL"),
        )
        lent.clear()
    batch = pa.RecordBatch.from_pydict({name: pa.array(one) for name, one in cells.items()})
    for (scans, summed), [result] in zip(requests, found, strict=True):
        expected = build_count_kernel(scans, summed)(batch)
        half = 2**20
        np.testing.assert_array_equal(result[0], expected[0])
        if summed is not None:
            np.testing.assert_array_equal(result[1] + half * result[2], expected[1] + half * expected[2])


def test_numbers_that_could_leave_64_bits_in_some_row_are_left_to_batches() -> None:
    """Of rows that pass over the plan's bounds, too: an error would tell that there is one."""
    column = build_column(build_value_attribute(parse_expression("price * price * price"), DOMAIN, {"price": (0, 100)}))
    with pytest.raises(NoSql):
        compute(column, draw_cells(50, seed=1), write_index)
