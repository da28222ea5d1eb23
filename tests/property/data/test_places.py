"""Every value falls into the same place in Python, in DuckDB and in Spark."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from benchmarks.trials.random_tables import MOMENT_TEXTS, NUMBER_TEXTS, TRUTH_TEXTS
from property.data.generated import disagreements, random_table, schema_of
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.data.sql import indices as index_sql
from siloquent.schema import Attribute

TEXTS = schema_of(
    Attribute("n", "real", lo=Decimal("-1.5"), hi=Decimal(3), grid=Decimal("0.1"), outside="clamp", null="cell"),
    Attribute("m", "datetime", lo=datetime(1969, 1, 1), hi=datetime(1970, 1, 2), grid=Decimal(60), null="cell"),
    Attribute("b", "boolean", null="cell"),
    Attribute("c", "category", values=("", " ", "a", "A", "'", "\\", "é"), other="cell", null="cell"),
)
anything = st.text(max_size=12).filter(lambda text: "\0" not in text)
numberish = st.text("0123456789+-.eE infaty_xXdDf\n\u0661", max_size=9)
momentish = st.builds(
    "{}{}-{}-{}{}".format,
    st.sampled_from(["", " ", "0"]),
    st.integers(0, 12_000).map("{:04}".format),
    st.integers(0, 13).map("{:02}".format),
    st.integers(0, 32).map("{:02}".format),
    st.sampled_from(["", " ", "Z", " 10:00", "T23:59:60", "T23:59:59.5", " 24:00", " 10:00:00+00", " 1:00", "\n"]),
)


def duckdb_engine(rows: pa.Table) -> DuckDBEngine:
    return DuckDBEngine(arrow=rows)


def of_texts(values: list[str | None]) -> pa.Table:
    column = pa.array(values, pa.string())
    return pa.table({"row": pa.array(range(len(values))), **dict.fromkeys(["n", "m", "b", "c"], column)})


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.none() | anything | numberish | momentish, min_size=1, max_size=60))
def test_duckdb_reads_every_text_as_python_does(values: list[str | None]) -> None:
    assert disagreements(TEXTS, of_texts(values), duckdb_engine) == []


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.floats(width=64) | st.floats(width=32), min_size=1, max_size=60))
def test_duckdb_puts_every_double_where_python_does(values: list[float]) -> None:
    schema = schema_of(*(a for a in TEXTS.domain.attributes if a.name in ("n", "b")))
    column = pa.array(values, pa.float64(), from_pandas=False)
    table = pa.table({"row": pa.array(range(len(values))), "n": column, "b": column})
    assert disagreements(schema, table, duckdb_engine) == []


@pytest.mark.parametrize("seed", range(5))
def test_duckdb_agrees_with_python_on_random_declarations(seed: int) -> None:
    schema, table = random_table(seed, attributes=40, rows=100)
    assert disagreements(schema, table, duckdb_engine) == []


def test_the_comparison_would_catch_an_index_that_rounds_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    real = index_sql.build_float_literal
    monkeypatch.setattr(index_sql, "build_float_literal", lambda value: real(0.49 if value == 0.5 else value))
    schema, table = random_table(0, attributes=40, rows=100)
    assert any("0.1" in wrong or "real" in wrong for wrong in disagreements(schema, table, duckdb_engine))


class TestSpark:
    pytestmark = pytest.mark.spark

    @pytest.fixture(autouse=True)
    def _session(self, spark_session: Any) -> None:
        self.session = spark_session

    def make(self, rows: pa.Table) -> SparkEngine:
        self.session.createDataFrame(rows).createOrReplaceGlobalTempView("places")
        return SparkEngine(self.session, exp.table_("places", db="global_temp"))

    def test_spark_reads_every_text_as_python_does(self) -> None:
        values = [*NUMBER_TEXTS, *MOMENT_TEXTS, *TRUTH_TEXTS, None, *(f" {word} " for word in NUMBER_TEXTS)]
        assert disagreements(TEXTS, of_texts(values), self.make) == []

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(5))
    def test_spark_agrees_with_python_on_random_declarations(self, seed: int) -> None:
        schema, table = random_table(seed, attributes=40, rows=60)
        assert disagreements(schema, _as_spark_holds(table), self.make) == []


def _as_spark_holds(table: pa.Table) -> pa.Table:
    """Spark has neither unsigned numbers nor moments in other units than microseconds."""
    for i, column in enumerate(table.columns):
        kind = column.type
        if pa.types.is_unsigned_integer(kind):
            column = column.cast(pa.decimal128(38, 0))
        elif pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", tz=kind.tz))
        table = table.set_column(i, table.column_names[i], column)
    return table
