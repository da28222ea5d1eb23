"""Joins with public tables: what counts is what DuckDB's join counts, at the price of a question about the key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.plan.planner import plan
from siloquent.explore.plan.quantiles import plan_quantile
from siloquent.explore.plan.relations.public_joins import build_canonical_request, find_public_table
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse, render
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from siloquent.schema import Attribute, ForeignKey
from siloquent.schema.public_tables.loaded import PublicColumn, PublicTable
from unit.explore.plan.tables import PLENTY, table
from unit.explore.plan.test_against_duckdb import exact

REGION = Attribute("region", "category", values=("north", "south", "west"), null="cell")
BEDS = Attribute("beds", "integer", lo=Decimal(0), hi=Decimal(50), grid=Decimal(1))
WARDS: dict[str, tuple[str | None, int]] = {"A": ("north", 10), "B": ("south", 20), "C": ("north", 30), "D": (None, 40)}
"""Four of the eight listed wards; neither NULL nor what is not listed has a row."""


def public() -> PublicTable:
    ward = table().domain["ward"]
    met = [WARDS.get(str(value)) for value in (*ward.values, None, None)]
    return PublicTable(
        "wards",
        "ward",
        tuple(one is not None for one in met),
        (
            PublicColumn(REGION, tuple(-1 if one is None else REGION.index(one[0]) for one in met)),
            PublicColumn(BEDS, tuple(-1 if one is None else BEDS.index(one[1]) for one in met)),
        ),
    )


SCHEMA = replace(table(), public=(public(),), constraints=(ForeignKey(("ward",), "wards", ("ward",)),))
FROM = "FROM visits JOIN wards USING (ward)"


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    rng = np.random.default_rng(5)
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE visits (age INTEGER, ward VARCHAR, sex VARCHAR)")
        listed = [*"ABCDEFGH", "Z", None]
        rows = [(int(rng.integers(100)), listed[rng.integers(10)], "fm"[rng.integers(2)]) for _ in range(1_000)]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
        connection.execute("CREATE TABLE wards (ward VARCHAR, region VARCHAR, beds INTEGER)")
        connection.executemany("INSERT INTO wards VALUES (?, ?, ?)", [(ward, *facts) for ward, facts in WARDS.items()])
        yield connection


def asked(text: str) -> CompiledWorkload:
    return compile_workload(parse(f"{text} ERROR 5"), SCHEMA)


@pytest.mark.parametrize(
    "condition",
    [
        "region = 'north'",
        "NOT region = 'north'",
        "region != 'south' AND age < 30",
        "region IS NULL",
        "region IS NOT NULL OR sex = 'f'",
        "region IN ('north', 'west') AND beds > 10",
        "beds // 20 = 1 OR age > 90",
        "lower(region) LIKE 'n%'",
        "ward != 'A' AND beds < 40",
        "age > beds",
        "TRUE",
    ],
)
def test_a_condition_counts_what_a_join_counts(condition: str, engine: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT COUNT(*) {FROM} WHERE {condition}"
    expected: tuple[Any, ...] | None = engine.execute(text).fetchone()
    assert expected is not None
    assert exact(asked(text), SCHEMA, engine) == [expected[0]]


@pytest.mark.parametrize("keys", ["region", "region, sex", "sex, region, ward", "beds // 20", "age // 50, region"])
def test_groups_hold_what_a_join_finds_and_empty_ones_hold_nothing(
    keys: str, engine: duckdb.DuckDBPyConnection
) -> None:
    text = f"SELECT {keys}, COUNT(*) {FROM} GROUP BY {keys}"
    compiled = asked(text)
    found = dict(zip(compiled.labels, exact(compiled, SCHEMA, engine), strict=True))
    expected = {tuple(row[:-1]): row[-1] for row in engine.execute(text).fetchall()}
    assert {key: count for key, count in found.items() if count} == expected
    assert compiled.keys == tuple(key.strip() for key in keys.split(","))


def test_all_declared_groups_appear_also_those_without_a_key() -> None:
    assert asked(f"SELECT region, COUNT(*) {FROM} GROUP BY region").labels == (
        ("north",),
        ("south",),
        ("west",),
        (None,),
    )


def test_sums_over_a_join_are_sums_of_the_tables_own_numbers(engine: duckdb.DuckDBPyConnection) -> None:
    text = f"SELECT region, SUM(age) {FROM} WHERE region IS NOT NULL GROUP BY region"
    expected = dict(engine.execute(text).fetchall())
    found = asked(text)
    assert exact(found, SCHEMA, engine) == [expected.get(label, 0) for (label,) in found.labels]


@pytest.mark.parametrize("more", [{}, {"adjacency": "replace-one"}, {"users": 4}])
def test_a_join_lets_one_row_change_no_more_than_it_does_without(more: dict[str, Any]) -> None:
    schema = replace(table(**more), public=SCHEMA.public, constraints=SCHEMA.constraints)
    joined = compile_workload(parse(f"SELECT region, COUNT(*) {FROM} GROUP BY region ERROR 5"), schema)
    alone = compile_workload(parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 5"), schema)
    assert joined.sensitivity == alone.sensitivity


def test_a_quantile_of_joined_groups_is_planned() -> None:
    query = parse(f"SELECT region, MEDIAN(age) {FROM} GROUP BY region ERROR 50")
    assert plan_quantile(query, SCHEMA, left=PLENTY).compiled.labels[0] == ("north",)


def test_a_question_keeps_its_words_and_other_public_rows_make_another_question() -> None:
    query = parse(f"SELECT region, COUNT(*) {FROM} WHERE beds > 5 GROUP BY region ERROR 50")
    assert render(plan(query, SCHEMA, left=PLENTY).query) == render(query)
    other = replace(public(), known=(True,) * 10)
    assert build_canonical_request(query, SCHEMA) != build_canonical_request(query, replace(SCHEMA, public=(other,)))


def test_case_does_not_count_in_a_join() -> None:
    query = parse("SELECT REGION, COUNT(*) FROM visits JOIN wards USING (WARD) GROUP BY REGION ERROR 50")
    same = parse("SELECT region, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY region ERROR 50")
    assert resolve_names(query, SCHEMA) == same


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("SELECT COUNT(*) FROM visits JOIN people USING (ward) ERROR 5", "public/people.toml"),
        ("SELECT COUNT(*) FROM visits JOIN wards USING (sex) ERROR 5", r"USING \(ward\)"),
        (f"SELECT AVG(beds) {FROM} ERROR 5 FOR AT LEAST 50 ROWS", "belongs to the public table"),
    ],
)
def test_a_join_that_cannot_be_is_refused_with_the_line_to_add(question: str, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        compile_workload(parse(question), SCHEMA)


@pytest.mark.parametrize("items", ["AVG(beds)", "MEDIAN(beds)", "STDDEV(beds)", "SUM(beds)", "COUNT(*), AVG(beds)"])
def test_a_public_number_is_not_summed_in_whatever_way_it_is_planned(items: str) -> None:
    with pytest.raises(RequestError, match="belongs to the public table"):
        plan_query(parse(f"SELECT {items} {FROM} BUDGET 0.1 EPSILON"), SCHEMA, left=PLENTY)


def test_public_names_are_nobodys_without_the_join_and_public_values_are_checked_with_it() -> None:
    with pytest.raises(UnknownName, match=r"No attribute named 'region'.*FROM visits JOIN wards USING \(ward\)"):
        compile_workload(parse("SELECT COUNT(*) FROM visits WHERE region = 'north' ERROR 5"), SCHEMA)
    with pytest.raises(UnknownName, match="Did you mean 'north'"):
        compile_workload(parse(f"SELECT COUNT(*) {FROM} WHERE region = 'North' ERROR 5"), SCHEMA)
    assert find_public_table(parse("SELECT COUNT(*) FROM visits ERROR 5"), SCHEMA) is None
