"""Per-person subqueries: the numbers of DuckDB without noise; what one unit moves; faults planted in the product."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

import siloquent as sq
from property.explore.neighbours import declared, neighbours
from property.explore.samplers import recorded, used
from siloquent.api import Session
from siloquent.data.sql.indices import build_int_literal, quote_name
from siloquent.data.units import unit_rows
from siloquent.errors import RequestError, SiloquentError
from siloquent.explore.plan.relations import unit_rows as plan_unit_rows
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse, render
from siloquent.schema import TableSchema
from siloquent.session import compute_budget_limit

SCHEMA = """
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "C", "B"], null = "cell" }},
  {{ name = "age", type = "integer", lo = 0, hi = 19, outside = "{outside}", null = "{null}" }},
  {{ name = "cost", type = "real", lo = -2.5, hi = 40, grid = 0.5, outside = "{outside}", null = "{null}" }},
  {{ name = "big", type = "real", lo = -90000000, hi = 90000000, grid = 0.01, outside = "clamp", null = "cell" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-20, outside = "clamp", null = "cell" }},
  {{ name = "ill", type = "boolean", null = "cell" }},
]
[table]
name = "visits"
adjacency = "{adjacency}"
size_hint = 400
unit = {{ kind = "user", column = "patient", max_rows = {rows} }}
[budget]
accountant = "{accountant}"
{budget}
"""
BUDGETS = {"pure": 'epsilon = "1000000"', "zcdp": 'rho = "1000000"\ndelta = "1e-6"'}
MOST = 6


def build_rows(chance: random.Random, number: int = 400) -> pa.Table:
    """Build rows of persons, some with more than count, of NULL, at and beyond the bounds."""
    rows = range(number)
    return pa.table(
        {
            "patient": pa.array([chance.choice([None, "x", "x", *map(str, range(120))]) for _ in rows], pa.string()),
            "ward": [chance.choice(["A", "A", "B", "C", None]) for _ in rows],
            "age": [chance.choice([None, -3, 25, *range(0, 20, 3)]) for _ in rows],
            "cost": [chance.choice([None, -9.0, 55.5, chance.randint(-5, 80) / 2]) for _ in rows],
            "big": [chance.choice([None, 9e7, -9e7, chance.randint(-9 * 10**9, 9 * 10**9) / 100]) for _ in rows],
            "day": [f"2024-01-{chance.randint(1, 9):02}" for _ in rows],
            "ill": [chance.choice([True, False, False, None]) for _ in rows],
        }
    )


ROWS = build_rows(random.Random(5))
# As declared: values beyond the bounds count as the bound, or are left out; rows of nobody count nowhere.
KEPT = {
    "clamp": "CASE WHEN {0} IS NOT NULL THEN LEAST(GREATEST({0}, {1}), {2}) END",
    "drop": "CASE WHEN {0} BETWEEN {1} AND {2} THEN {0} END",
}


@contextmanager
def opened(folder: Path, accountant: str, adjacency: str, outside: str, null: str) -> Iterator[Session]:
    sq.create_workspace(folder)
    text = SCHEMA.format(
        accountant=accountant, adjacency=adjacency, budget=BUDGETS[accountant], outside=outside, null=null, rows=MOST
    )
    with sq.open(folder) as session:
        session.add_frame(sq.read_schema(text), ROWS)
        yield session


@contextmanager
def engine(outside: str) -> Iterator[duckdb.DuckDBPyConnection]:
    age, cost = (
        KEPT[outside].format(name, lo, hi) + f" AS {name}" for name, lo, hi in (("age", 0, 19), ("cost", -2.5, 40))
    )
    with duckdb.connect(":memory:") as connection:
        connection.register("rows", ROWS)
        connection.execute(
            f"CREATE TABLE visits AS SELECT * REPLACE (day::DATE AS day, {age}, {cost}) FROM rows "
            "WHERE patient IS NOT NULL"
        )
        yield connection


def clamp(text: str, lo: float, hi: float) -> str:
    return f"CASE WHEN {text} IS NOT NULL THEN LEAST(GREATEST({text}, {lo}), {hi}) END"


VALUES = {
    "n": ("COUNT(*)", f"LEAST(COUNT(*), {MOST})"),
    "h": ("COUNT(*) FILTER (WHERE ill AND age > 3)", f"LEAST(COUNT(*) FILTER (WHERE ill AND age > 3), {MOST})"),
    "v": ("COUNT(cost)", f"LEAST(COUNT(cost), {MOST})"),
    "k": ("COUNT(DISTINCT ward)", "COUNT(DISTINCT ward)"),
    "s": ("SUM(cost)", clamp("SUM(cost)", -2.5 * MOST, 40 * MOST)),
    "c": (
        "SUM(CASE WHEN ward <> 'A' THEN cost END)",
        clamp("SUM(cost) FILTER (WHERE ward <> 'A')", -2.5 * MOST, 40 * MOST),
    ),
    "b": ("SUM(big)", clamp("SUM(big::DECIMAL(14, 2))::DOUBLE", -9e7 * MOST, 9e7 * MOST)),
    "lo": ("MIN(cost)", "MIN(cost)"),
    "hi": ("MAX(age)", "MAX(age)"),
    "last": ("MAX(day)", "MAX(day)"),
}
"""Columns of a person: as they are asked, and what they are by DuckDB."""
WHERES = ["", "WHERE age >= 6", "WHERE ward IN ('A', 'B') OR ill", "WHERE cost < 20 AND NOT ill", "WHERE ward IS NULL"]
OUTER = [
    ("SELECT COUNT(*) AS x, COUNT(s) AS y, SUM(s) AS z FROM t", "nsh"),
    ("SELECT AVG(n) AS x, SUM(c) AS y FROM t WHERE k >= 2 OR h > 0", "nkhc"),
    ("SELECT n, COUNT(*) AS x FROM t GROUP BY n ORDER BY n", "n"),
    ("SELECT k, n // 3 AS m, COUNT(*) AS x, SUM(v) AS y FROM t GROUP BY k, m ORDER BY k, m", "nkv"),
    ("SELECT SUM(v) AS x, COUNT(b) AS y FROM t WHERE hi > 5 AND b > 1000000", ["b", "v", "hi"]),
    ("SELECT SUM(hi - lo) AS x, COUNT(*) AS y FROM t WHERE hi > lo + 3", ["hi", "lo"]),
    ("SELECT COUNT(*) AS x FROM t WHERE last >= DATE '2024-01-07' AND n > 1", ["last", "n"]),
    ("SELECT SUM(s) AS x FROM t WHERE lo IS NOT NULL", ["s", "lo"]),
]
ROUNDED = ["SELECT SUM(b) AS x FROM t", "SELECT VAR_POP(s) AS x FROM t WHERE v > 1"]
"""Sums of very many steps are rounded to coarse units."""


def write(names: Any, where: str, outer: str, *, exact: bool) -> str:
    columns = ", ".join(f"{VALUES[name][exact]} AS {name}" for name in names)
    inner = f"SELECT patient, {columns} FROM visits {where} GROUP BY patient"
    return f"WITH t AS ({inner}) {outer}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accountant", "adjacency", "outside", "null"),
    [
        ("pure", "add-remove", "clamp", "cell"),
        ("zcdp", "replace-one", "drop", "drop"),
        ("zcdp", "add-remove", "drop", "cell"),
    ],
)
def test_numbers_are_those_of_sql(tmp_path: Path, accountant: str, adjacency: str, outside: str, null: str) -> None:
    tail = "BUDGET 9000 EPSILON" if accountant == "pure" else "BUDGET 9000 RHO"
    asked = 0
    with opened(tmp_path / "w", accountant, adjacency, outside, null) as session, engine(outside) as exact:
        for (outer, names), where in product(OUTER, WHERES):
            if null == "drop" and "IS NULL" in where + outer and "ward" not in where:
                continue
            text = write(names, where, outer, exact=False)
            with recorded():
                answer = session.ask(f"{text} {tail} REUSE NONE")
            found = exact.execute(write(names, where, outer, exact=True))
            columns = [one[0] for one in found.description or ()]
            expected = {tuple(map(plain, row)) for row in found.fetchall()}
            own = [list(answer.columns).index(name) for name in columns]
            shown = {tuple(plain(row[place]) for place in own) for row in answer.rows}
            assert {row for row in shown if not is_empty(row, columns)} == expected, text
            asked += 1
        for outer in ROUNDED:
            with recorded():
                ((value, low, high),) = session.ask(f"{write('bsv', '', outer, exact=False)} {tail} REUSE NONE").rows
            ((truth,),) = exact.execute(write("bsv", "", outer, exact=True)).fetchall()
            assert low <= truth <= high
            assert value == pytest.approx(truth, rel=1e-2)
    assert asked >= 35


def is_empty(row: tuple[Any, ...], columns: list[str]) -> bool:
    """Whether a group of the answer has no person: SQL does not list it."""
    return columns[0] in ("n", "k") and row[columns.index("x")] == 0


def plain(value: Any) -> Any:
    value = 0 if value is None else value  # of nothing, the released sum is 0
    is_number = isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)
    return round(float(value), 6) if is_number else value


# What one person moves

QUESTIONS = [
    "SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who) WHERE n > 1 ERROR 30",
    "SELECT n, COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM visits WHERE NOT ill GROUP BY who) GROUP BY n ERROR 30",
    "SELECT SUM(s) FROM (SELECT who, SUM(cost) AS s FROM visits WHERE ward <> 'C' GROUP BY who) ERROR {sum}",
    "SELECT h, SUM(s) FROM (SELECT who, SUM(cost) AS s, COUNT(*) FILTER (WHERE age > 1) AS h FROM visits GROUP BY who) "
    "GROUP BY h ERROR {sum}",
    "SELECT AVG(m) FROM (SELECT who, MAX(cost) AS m FROM visits GROUP BY who) BUDGET 30 EPSILON",
    "SELECT MEDIAN(k) FROM (SELECT who, COUNT(DISTINCT age) AS k FROM visits GROUP BY who) ERROR 30",
    "SELECT COUNT(DISTINCT k) FROM (SELECT who, COUNT(DISTINCT ward) AS k FROM visits GROUP BY who) ERROR 8",
    "SELECT VAR(s) FROM (SELECT who, MIN(cost) AS s FROM visits GROUP BY who) BUDGET 30 EPSILON",
]


def compute_shares(accountant: str, adjacency: str, seed: int) -> list[Fraction]:
    """Compute the largest share of its price that some pair needs, for each plan of each question."""
    chance = random.Random(f"{accountant} {adjacency} {seed}")
    made = declared(chance, accountant, adjacency, "user", bounds=chance.choice([(-5, 5), (0, 6), (-70_000, 99_999)]))
    found = []
    with neighbours(chance, made) as many:
        for text in QUESTIONS:
            query = parse(text.format(sum=400 * max(map(abs, made.bounds)) * made.rows))
            left, plans = compute_budget_limit(made.schema.budget), ()
            with suppress(RequestError):  # no person can have two rows if only one counts
                plans = plan_query(query, made.schema, left=left).first.plans
            for plan in plans:
                for candidate in plan.candidates:
                    one = replace(plan, chosen=candidate.priced)
                    draws = many.reached(one)
                    found.append(max(used(one.event, draws[i], draws[j]) for i, j in many.pairs))
    return found


SETTINGS = list(product(BUDGETS, ["add-remove", "replace-one"], range(2)))


@pytest.mark.slow
def test_no_person_moves_more_than_is_paid_for_and_some_move_all_of_it() -> None:
    found = [share for setting in SETTINGS for share in compute_shares(*setting)]
    assert max(found) == 1
    assert sum(share == 1 for share in found) > len(found) / 4


@pytest.mark.slow
def test_a_row_for_each_visit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the rows are grouped by all that is read, so that one person has several."""
    build = unit_rows.build_unit_rows

    def build_finer(rows: Any, find: Any, user: Any) -> Any:
        query = build(rows, find, user)
        return query.group_by(*map(quote_name, query.find(exp.Subquery).this.named_selects))

    monkeypatch.setattr("siloquent.data.units.unit_table.build_unit_rows", build_finer)
    assert any(share > 1 for seed in range(6) for share in compute_shares("pure", "add-remove", seed))


def test_a_number_that_is_not_clamped_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a person with more rows than are declared has an index beyond the last, which no cell holds.

    Such a row is passed over, so it moves nothing; it is missing from the numbers.
    """

    def leave(number: Any, attribute: Any) -> Any:
        first = unit_rows.count_steps(attribute)
        return exp.Sub(this=exp.cast(number, "BIGINT"), expression=exp.Paren(this=build_int_literal(first)))

    monkeypatch.setattr(unit_rows, "_clamp", leave)
    with pytest.raises(AssertionError, match="SELECT"):
        test_numbers_are_those_of_sql(tmp_path, "pure", "add-remove", "clamp", "cell")


def test_a_plan_for_the_rows_that_count_is_seen_to_pay_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted the other way: with max_rows of the table instead of one row, no person uses up its price."""
    relate = plan_unit_rows.relate_units

    def relate_dearer(query: Any, schema: TableSchema) -> TableSchema:
        found = relate(query, schema)
        return found if found is schema else replace(found, unit=replace(found.unit, max_rows=3))

    monkeypatch.setattr("siloquent.explore.plan.relations.unit_rows.relate_units", relate_dearer)
    assert max(compute_shares("pure", "add-remove", 1)) < 1


# What is refused, and what a question is

REFUSED = [
    "SELECT AVG(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT ward FROM visits) t",
    "SELECT COUNT(DISTINCT patient) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) t",
    "SELECT AVG(n) FROM (SELECT patient, ward, COUNT(*) AS n FROM visits GROUP BY patient, ward) t",
    "SELECT AVG(m) FROM (SELECT patient, AVG(cost) AS m FROM visits GROUP BY patient) t",
    "SELECT AVG(m) FROM (SELECT patient, SUM(cost * age) AS m FROM visits GROUP BY patient) t",
    "SELECT AVG(m) FROM (SELECT patient, MAX(ward) AS m FROM visits GROUP BY patient) t",
    "SELECT AVG(m) FROM (SELECT patient, COUNT(*) + 1 AS m FROM visits GROUP BY patient) t",
    "SELECT AVG(m) FROM (SELECT patient, COUNT(*) AS m FROM visits WHERE big > cost GROUP BY patient) t",
    "SELECT MAX(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) t",
    "SELECT AVG(x) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) t",
    "SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n, SUM(age) AS n FROM visits GROUP BY patient) t",
    "SELECT ward, MAX(cost) FROM visits GROUP BY ward",
    "SELECT ward, m FROM (SELECT ward, MAX(cost) AS m FROM visits GROUP BY ward) t",
]


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused_before_anything_is_spent(text: str, tmp_path: Path) -> None:
    with opened(tmp_path / "w", "pure", "add-remove", "clamp", "cell") as session:
        with pytest.raises((RequestError, SiloquentError)) as refused:
            session.ask(f"{text} BUDGET 1 EPSILON")
        assert refused.value.code in ("request_invalid", "unknown_name", "syntax_invalid"), refused.value
        assert refused.value.fix
        if refused.value.fix.startswith("SELECT"):
            session.explain(refused.value.fix)
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))


def test_conditions_of_too_many_ranges_are_refused_all_together() -> None:
    """Each one fits, but sixteen of them would make a query of a length without end."""
    listed = ", ".join(str(place / 2) for place in range(-5, 81, 2))
    price = ", ".join(str(place) for place in range(1, 3_000, 2))
    wide = replace_text(SCHEMA, "lo = -2.5, hi = 40, grid = 0.5", "lo = 0, hi = 4000, grid = 1")
    few = f"COUNT(*) FILTER (WHERE cost IN ({listed})) AS n"
    many = [f"COUNT(*) FILTER (WHERE cost IN ({price}) AND age > {place}) AS n{place}" for place in range(3)]
    for columns, refused in ((few, False), (many[0], False), (", ".join(many), True)):
        question = f"SELECT COUNT(*) FROM (SELECT patient, {columns} FROM visits GROUP BY patient) ERROR 9"
        with pytest.raises(RequestError, match="separate ranges") if refused else nullcontext():
            plan_query(parse(question), wide, left=compute_budget_limit(wide.budget))


def replace_text(schema: str, before: str, after: str) -> TableSchema:
    text = schema.format(
        accountant="pure", adjacency="add-remove", budget=BUDGETS["pure"], outside="drop", null="cell", rows=MOST
    )
    assert before in text
    return sq.read_schema(text.replace(before, after))


def test_a_query_that_cannot_be_built_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted where the product builds the query of a unit's rows."""

    def fail(*given: Any) -> None:
        raise RequestError("no query", fix="none")

    monkeypatch.setattr("siloquent.data.units.unit_table.build_unit_rows", fail)
    with opened(tmp_path / "w", "pure", "add-remove", "clamp", "cell") as session:
        with pytest.raises(RequestError, match="no query"):
            session.ask("SELECT COUNT(*) FROM (SELECT patient FROM visits GROUP BY patient) ERROR 9")
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))


def test_answers_about_persons_and_about_rows_are_never_combined(tmp_path: Path) -> None:
    """A count of rows says nothing about a count of persons, nor one of persons with other rows about it."""
    person = "SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)"
    with opened(tmp_path / "w", "pure", "add-remove", "clamp", "cell") as session:
        session.ask("SELECT COUNT(*) FROM visits BUDGET 100 EPSILON REUSE ANY")
        prices = [session.explain(f"{person} ERROR 20 REUSE ANY").price]
        session.ask(f"{person} ERROR 20 REUSE ANY")
        prices.append(session.explain(f"{person} ERROR 20 REUSE ANY").price)
        other = "SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits WHERE ill GROUP BY patient)"
        prices.append(session.explain(f"{other} ERROR 20 REUSE ANY").price)
    assert prices == [prices[0], 0, prices[0]]
    assert prices[0] > 0


def test_the_guarantee_is_that_of_the_table(tmp_path: Path) -> None:
    """A person's rows are hidden as they are declared, all of them, and not only one."""
    person = "SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient) ERROR 9"
    with opened(tmp_path / "w", "pure", "add-remove", "clamp", "cell") as session:
        rows, persons = session.ask("SELECT COUNT(*) FROM visits ERROR 9"), session.ask(person, key="k")
        assert persons.guarantee.unit == rows.guarantee.unit == f"all rows of one patient (at most {MOST} count)"
        assert persons.guarantee.account == rows.guarantee.account
        assert "one row for each patient" in persons.left_out
        assert session.ask(person, key="k").rows == persons.rows
        assert session.ledger.verify().ok


@pytest.mark.parametrize(("outer", "names"), OUTER)
def test_what_is_rendered_is_the_same_question(outer: str, names: Any) -> None:
    for where in WHERES:
        asked = parse(f"{write(names, where, outer, exact=False)} BUDGET 1 EPSILON")
        assert parse(render(asked)) == asked


def test_having_within_is_where_around() -> None:
    inner = "SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient"
    assert parse(f"SELECT COUNT(*) FROM ({inner} HAVING COUNT(*) > 2) ERROR 1") == parse(
        f"SELECT COUNT(*) FROM ({inner}) WHERE n > 2 ERROR 1"
    )
