"""COUNT(DISTINCT a): the numbers of DuckDB without noise; what one unit moves, with faults planted in the product."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import siloquent as sq
from property.explore.neighbours import declared, neighbours
from property.explore.samplers import recorded, used
from siloquent.api import Session
from siloquent.data import PrivateTable
from siloquent.explore.plan import planner
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.cells import distinct
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.spec import parse
from siloquent.session import compute_budget_limit

SCHEMA = """
format = 1
attribute = [
  {{ name = "patient", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "C", "B"], null = "cell" }},
  {{ name = "age", type = "integer", lo = 0, hi = 19, outside = "drop", null = "drop" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-20, grid = "day", outside = "drop", null = "drop" }},
  {{ name = "ill", type = "boolean", null = "drop" }},
]
[table]
name = "visits"
adjacency = "{adjacency}"
size_hint = 400
unit = {{ kind = "user", column = "patient", max_rows = 40 }}
[budget]
accountant = "{accountant}"
{budget}
"""
BUDGETS = {"pure": 'epsilon = "1000000"', "zcdp": 'rho = "1000000"\ndelta = "1e-6"'}


def _build_rows(chance: random.Random, number: int = 400) -> pa.Table:
    rows = range(number)
    return pa.table(
        {
            "patient": pa.array([chance.choice([None, *map(str, range(60))]) for _ in rows], pa.string()),
            "ward": [chance.choice(["A", "A", "B", "C", None]) for _ in rows],
            "age": [chance.choice([None, *range(0, 20, 3)]) for _ in rows],
            "day": [f"2024-01-{chance.randint(1, 9):02}" for _ in rows],
            "ill": [chance.random() < 0.2 for _ in rows],
        }
    )


ROWS = _build_rows(random.Random(5))


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.register("rows", ROWS)
        connection.execute("CREATE TABLE visits AS SELECT * REPLACE (day::DATE AS day) FROM rows")
        yield connection


@contextmanager
def opened(folder: Any, accountant: str = "pure", adjacency: str = "add-remove") -> Iterator[Session]:
    sq.create_workspace(folder)
    text = SCHEMA.format(accountant=accountant, adjacency=adjacency, budget=BUDGETS[accountant])
    with sq.open(folder) as session:
        session.add_frame(sq.read_schema(text), ROWS)
        yield session


COUNTED = [
    "SELECT COUNT(DISTINCT patient) AS n FROM visits",
    "SELECT APPROX_COUNT_DISTINCT(patient) AS n FROM visits WHERE ward = 'B' OR ill",
    "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward ORDER BY ward",
    "SELECT ill, ward AS w, COUNT(DISTINCT patient) AS n FROM visits WHERE age > 5 GROUP BY ALL ORDER BY n DESC, 1, 2",
    "SELECT age // 5 AS a, COUNT(DISTINCT patient) AS n FROM visits WHERE age >= 0 GROUP BY a ORDER BY a",
    "SELECT ward, COUNT(DISTINCT patient) FILTER (WHERE ill) AS i, COUNT(*) AS n FROM visits GROUP BY 1 ORDER BY 1",
    "SELECT 100.0 * COUNT(DISTINCT patient) FILTER (WHERE ill) / COUNT(DISTINCT patient) AS share FROM visits",
    "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward HAVING n > 30 ORDER BY n DESC, ward",
    "SELECT ward, COUNT(DISTINCT visits.ward) AS w, COUNT(DISTINCT (day)) AS d FROM visits GROUP BY ward ORDER BY ward",
    "SELECT COUNT(DISTINCT age) AS a, COUNT(DISTINCT ill) AS i, COUNT(DISTINCT ward) AS w FROM visits WHERE age > 8",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with opened(tmp_path_factory.mktemp("distinct") / "w") as found:
        yield found


@pytest.mark.parametrize("text", COUNTED)
def test_numbers_are_those_of_sql(text: str, engine: duckdb.DuckDBPyConnection, session: Session) -> None:
    with recorded():
        answer = session.ask(f"{text} BUDGET 900 EPSILON REUSE NONE")
    # Rows without a patient belong to nobody.
    expected = engine.execute(text.replace("FROM visits", "FROM (FROM visits WHERE patient IS NOT NULL) visits"))
    names = [list(answer.columns).index(column[0]) for column in expected.description or ()]
    found = [tuple(row[place] for place in names) for row in answer.rows]
    assert [[_round(cell) for cell in row] for row in found] == [
        [_round(v) for v in row] for row in expected.fetchall()
    ]


def _round(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def test_a_unit_of_many_groups_counts_in_as_many_as_are_said(session: Session) -> None:
    text = "SELECT day, COUNT(DISTINCT patient) AS n FROM visits GROUP BY day BUDGET 900 EPSILON"
    with recorded():
        every = session.ask(text)
        some = {k: session.ask(f"{text} AT MOST {k} GROUPS EACH") for k in (1, 3)}
    patients = len(set(ROWS.column("patient").to_pylist()) - {None})
    totals = {k: sum(row[1] for row in answer.rows) for k, answer in some.items()}
    assert totals[1] == patients
    assert totals[1] < totals[3] < sum(row[1] for row in every.rows)
    assert totals[3] <= 3 * patients
    assert "each patient counts in at most 3 groups" in " ".join(some[3].notes)


def test_a_count_of_distinct_is_neither_drawn_from_counts_nor_serves_them(tmp_path: Any) -> None:
    with opened(tmp_path / "w") as session:
        for text in ("COUNT(*)", "COUNT(DISTINCT patient)", "COUNT(DISTINCT ward)"):
            answer = session.ask(f"SELECT {text} FROM visits ERROR 5 REUSE ANY")
            assert answer.accuracy.label == "fresh", text
            again = session.ask(f"SELECT {text} AS n FROM visits ERROR 5 REUSE ANY")
            assert (again.cost.amount, again.rows) == (0, answer.rows)


# What one unit moves

UNITS = [
    [{"who": 9, "ward": ward, "age": age, "ill": age > 0, "cost": 3} for ward, age in places]
    for places in (
        [("A", 1), ("B", 2), ("C", 3)],
        [("A", 1), ("A", 2), ("A", 3)],
        [("C", 4), ("C", 3), ("B", 4), ("A", 3)],
        [("B", 0)] * 3,
        [("C", 1), ("C", 3), ("C", 4)],
    )
]
UNITS.append([{"who": 9, "ward": None, "age": None, "ill": None, "cost": None}])
FEW = "FROM visits WHERE cost = 3"
"""Hardly any row of the other units."""
WARDS = "FROM visits WHERE ward IN ('A', 'B', 'C') GROUP BY ward"
QUESTIONS = {
    "units": "SELECT COUNT(DISTINCT who) FROM visits WHERE ill ERROR 9",
    "units by group": f"SELECT ward, COUNT(DISTINCT who) {WARDS} ERROR 9",
    "units of many groups": "SELECT age % 5, COUNT(DISTINCT who) FROM visits GROUP BY age % 5 ERROR 9",
    "units of one group": f"SELECT ward, COUNT(DISTINCT who) {WARDS} ERROR 9 AT MOST 1 GROUP EACH",
    "top": "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(DISTINCT who) DESC LIMIT 1 ERROR 9",
    "iceberg": "SELECT ward FROM visits GROUP BY ward HAVING COUNT(DISTINCT who) > 3 ERROR 9",
    "values": f"SELECT COUNT(DISTINCT age) {FEW} ERROR 3",
    "values by group": f"SELECT ward, COUNT(DISTINCT age) {FEW} GROUP BY ward ERROR 3",
    "few values": "SELECT ill, COUNT(DISTINCT ward) FROM visits GROUP BY ill ERROR 3",
}
SETTINGS = list(product(["pure", "zcdp"], ["add-remove", "replace-one"]))
MOST = 3


def plans_of(text: str, schema: Any) -> Iterator[Plan]:
    """Every mechanism that may be chosen."""
    found = plan(parse(text), schema, left=compute_budget_limit(schema.budget))
    yield from (replace(found, chosen=candidate.priced) for candidate in found.candidates)


def shares(name: str, accountant: str, adjacency: str, *, kind: str = "user") -> dict[str, Fraction]:
    """The largest share of its price that two neighbours need, by event."""
    found: dict[str, Fraction] = {}
    chance = random.Random(7)
    made = declared(chance, accountant, adjacency, kind, bounds=(-5, 5), most=MOST)
    with neighbours(chance, made, UNITS if kind == "user" else [unit[:1] for unit in UNITS]) as many:
        for one in plans_of(QUESTIONS[name], made.schema):
            draws = many.reached(one)
            share = max(used(one.event, draws[i], draws[j]) for i, j in many.pairs)
            key = type(one.event).__name__
            found[key] = max(found.get(key, Fraction(0)), share)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("accountant", "adjacency"), SETTINGS)
def test_some_unit_moves_the_numbers_as_far_as_is_paid_for_and_none_further(accountant: str, adjacency: str) -> None:
    found = {name: shares(name, accountant, adjacency) for name in QUESTIONS}
    assert max(share for one in found.values() for share in one.values()) <= 1
    event = {"pure": "DiscreteLaplace", "zcdp": "DiscreteGaussian"}[accountant]
    for name in ("units", "units by group", "units of one group", "values"):
        assert found[name][event] == 1, name
    if adjacency == "add-remove":
        assert found["values by group"][event] == 1


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_values_of_rows_as_units_move_by_one_row(adjacency: str) -> None:
    assert max(shares("values by group", "pure", adjacency, kind="row").values()) <= 1


real_units, real_bound, real_values = (
    PrivateTable.count_units_by_group,
    distinct._bound_units,
    distinct._bound_change,
)


def keeping_all(table: Any, *given: Any, **named: Any) -> Any:
    """A unit counts in all of its groups."""
    return real_units(table, *given, **{**named, "groups_each": None})


def without_replacement(real: Any) -> Any:
    """The price of a unit that is added or removed."""
    return lambda *given, replace_one: real(*given, replace_one=False)


def of_one_row(room: Any, rows: int, *, replace_one: bool) -> Any:
    """The price of one row of a unit."""
    return real_values(room, 1, replace_one=replace_one)


FAULTS: dict[str, tuple[str, str, Any, str, Any]] = {
    "k is not kept": ("units of one group", "add-remove", PrivateTable, "count_units_by_group", keeping_all),
    "units are priced as if added": (
        "units of one group",
        "replace-one",
        distinct,
        "_bound_units",
        without_replacement(real_bound),
    ),
    "values are priced as if added": (
        "values by group",
        "replace-one",
        distinct,
        "_bound_change",
        without_replacement(real_values),
    ),
    "values are priced by one row": ("values", "add-remove", distinct, "_bound_change", of_one_row),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, adjacency, place, what, fault = FAULTS[name]
    assert max(shares(asked, "pure", adjacency).values()) <= 1
    monkeypatch.setattr(planner, "_workloads", ByteLRU(2**20, lambda compiled: compiled.bytes))
    monkeypatch.setattr(place, what, fault)
    assert max(shares(asked, "pure", adjacency).values()) > 1
