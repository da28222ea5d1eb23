"""EXISTS, IN and their negations by person and by link: the numbers of DuckDB, whatever the tables hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent as sq
from property.explore.samplers import recorded
from siloquent.api import Session
from siloquent.errors import SiloquentError
from siloquent.explore.spec import parse, render

UNIT = """format = 1
[unit]
name = "patient"
adjacency = "{adjacency}"
[budget]
accountant = "{accountant}"
{budget}
"""
BUDGETS = {"pure": 'epsilon = "1000000"', "zcdp": 'rho = "1000000"\ndelta = "1e-6"'}
FILE = """format = 1
attribute = [{attributes}]
[table]
name = "{name}"
source = "parquet:{name}.parquet"
size_hint = 300
unit = {{ of = "patient", {way} }}
"""
KIND = '{ name = "kind", type = "category", values = ["a", "b", "c"], null = "cell" }'
AGE = '{ name = "age", type = "integer", lo = 0, hi = 19, outside = "clamp", null = "cell" }'
DAYS = (
    '{ name = "first", type = "date", lo = 2024-01-01, hi = 2026-12-31, outside = "drop", null = "cell" }, '
    '{ name = "last", type = "date", lo = 2023-06-01, hi = 2026-12-31, outside = "drop", null = "cell" }'
)
TABLES = {
    "patients": ('{ name = "patient", type = "id" }, ' + KIND, 'column = "patient", max_rows = 1'),
    "visits": (
        '{ name = "patient", type = "id" }, { name = "visit", type = "id" }, { name = "badge", type = "id" }, ' + AGE,
        'column = "patient", max_rows = 40',
    ),
    "courses": (
        '{ name = "visit", type = "id" }, ' + KIND + ", " + DAYS,
        'via = "visits", on = { visit = "visit" }, max_rows = 90',
    ),
}


def draw_tables(chance: random.Random) -> dict[str, pa.Table]:
    """Draw tables without broken keys: then looking up within a person is what SQL does."""
    people = [f"p{number}" for number in range(60)]
    kinds: list[str | None] = ["a", "b", "c", None]
    visits = [(chance.choice([*people, *people[:3] * 9, None]), f"v{number}") for number in range(220)]

    def day() -> str | None:
        return chance.choice([None, f"{chance.randint(2024, 2026)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}"])

    return {
        "patients": pa.table({"patient": people[:50], "kind": [chance.choice(kinds) for _ in range(50)]}),
        "visits": pa.table(
            {
                "patient": pa.array([one for one, _ in visits], pa.string()),
                "visit": [one for _, one in visits],
                "badge": pa.array([chance.choice([None, "x", "y"]) for _ in visits], pa.string()),
                "age": pa.array([chance.choice([None, *range(20)]) for _ in visits], pa.int64()),
            }
        ),
        "courses": pa.table(
            {
                "visit": [chance.choice(visits)[1] for _ in range(400)],
                "kind": [chance.choice(kinds) for _ in range(400)],
                "first": pa.array([day() for _ in range(400)], pa.string()),
                "last": pa.array([day() for _ in range(400)], pa.string()),
            }
        ),
    }


@contextmanager
def opened(folder: Path, seed: int, accountant: str, adjacency: str) -> Iterator[tuple[Session, Any]]:
    """Open the tables as a workspace, and the rows that have a person in DuckDB."""
    sq.create_workspace(folder)
    (folder / "units").mkdir()
    unit = UNIT.format(adjacency=adjacency, accountant=accountant, budget=BUDGETS[accountant])
    (folder / "units" / "patient.toml").write_text(unit)
    tables = draw_tables(random.Random(seed))
    with duckdb.connect(":memory:") as exact, sq.open(folder) as session:
        for name, (attributes, way) in TABLES.items():
            (folder / "schemas" / f"{name}.toml").write_text(FILE.format(name=name, attributes=attributes, way=way))
            pq.write_table(tables[name], folder / f"{name}.parquet")
            exact.register(f"all_{name}", tables[name])
            exact.execute(f"CREATE TABLE {name} AS SELECT * FROM all_{name}")
        exact.execute("DELETE FROM visits WHERE patient IS NULL")
        exact.execute("DELETE FROM courses WHERE visit NOT IN (SELECT visit FROM visits)")
        exact.execute("ALTER TABLE courses ALTER first TYPE DATE")
        exact.execute("ALTER TABLE courses ALTER last TYPE DATE")
        yield session, exact


CONDITIONS = {
    "patients": [
        "EXISTS (SELECT 1 FROM visits v WHERE v.patient = patients.patient)",
        "EXISTS (SELECT * FROM visits v WHERE v.patient = patients.patient AND (v.age > 12 OR v.age IS NULL))",
        "patient IN (SELECT patient FROM visits WHERE age BETWEEN 3 AND 5)",
        "patient IN (SELECT DISTINCT v.patient FROM visits AS v WHERE NOT v.age < 11)",
    ],
    "visits": [
        "patient IN (SELECT patient FROM patients WHERE kind = 'a')",
        "EXISTS (SELECT 1 FROM courses c WHERE c.visit = visits.visit AND c.kind IN ('a', 'b'))",
        "EXISTS (SELECT 1 FROM courses c WHERE c.visit = visits.visit AND c.first < c.last AND c.kind <> 'b')",
        "EXISTS (SELECT 1 FROM visits w WHERE w.patient = visits.patient AND w.age = 19)",
        "visit IN (SELECT visit FROM courses WHERE kind IS NULL)",
        "EXISTS (SELECT 1 FROM visits w WHERE w.patient = visits.patient AND w.age > visits.age)",
        "EXISTS (SELECT 1 FROM visits w WHERE w.patient = visits.patient AND w.age <> visits.age AND w.age < 9)",
    ],
    "courses": [
        "EXISTS (SELECT 1 FROM visits v WHERE v.visit = courses.visit AND v.age >= 10)",
        "EXISTS (SELECT 1 FROM courses d WHERE d.visit = courses.visit AND d.kind = 'c')",
        "EXISTS (SELECT 1 FROM courses d WHERE d.visit = courses.visit AND d.kind <> courses.kind)",
        "EXISTS (SELECT 1 FROM courses d WHERE d.visit = courses.visit AND d.first <= courses.last AND d.kind = 'a')",
    ],
}
NEGATED = [one for one in CONDITIONS["visits"] if one.startswith("visit IN")]
"""Refused with NOT, since a key may be NULL."""
SHAPES = {
    "patients": ["SELECT COUNT(*) AS n FROM patients {}", "SELECT kind, COUNT(*) AS n FROM patients {} GROUP BY kind"],
    "visits": [
        "SELECT COUNT(*) AS n, SUM(age) AS s FROM visits {}",
        "SELECT COUNT(DISTINCT patient) AS n FROM visits {}",
        "SELECT COUNT(*) AS n FROM (SELECT patient, MAX(age) AS m FROM visits {} GROUP BY patient) t WHERE m > 15",
    ],
    "courses": ["SELECT kind, COUNT(*) AS n FROM courses {} GROUP BY kind"],
}


JOINED = [
    "SELECT p.kind, COUNT(v.visit) AS n FROM patients p LEFT JOIN visits v ON p.patient = v.patient GROUP BY p.kind",
    "SELECT p.kind, SUM(v.age) AS n FROM patients p LEFT OUTER JOIN visits v USING (patient) GROUP BY p.kind",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON p.patient = v.patient WHERE v.visit IS NULL",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v USING (patient) WHERE v.visit IS NULL AND p.kind <> 'a'",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v USING (patient) WHERE v.age > 5",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v USING (patient) WHERE v.badge IS NOT NULL",
    "SELECT COUNT(*) AS n FROM patients p LEFT JOIN visits v ON v.patient = p.patient WHERE v.patient IS NULL",
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN courses c ON v.visit = c.visit WHERE c.visit IS NULL AND v.age < 9",
    "SELECT COUNT(*) AS n FROM visits v LEFT JOIN courses c USING (visit) WHERE c.visit IS NOT NULL",
    "SELECT p.kind, COUNT(v.patient) AS n FROM patients p LEFT JOIN visits v USING (patient) GROUP BY p.kind",
    "SELECT COUNT(*) FILTER (WHERE v.age > 5) AS n FROM patients p LEFT JOIN visits v USING (patient)",
    "SELECT v.age, COUNT(v.visit) AS n FROM patients p LEFT JOIN visits v USING (patient) GROUP BY v.age",
    "SELECT COUNT(c.kind) AS n FROM visits v LEFT JOIN courses c ON c.visit = v.visit",
    "SELECT COUNT(*) AS n FROM (SELECT p.kind, v.visit FROM patients p LEFT JOIN visits v USING (patient)) t "
    "WHERE visit IS NULL",
    "WITH t AS (SELECT kind, visit FROM patients p LEFT JOIN visits v ON p.patient = v.patient) "
    "SELECT kind, COUNT(visit) AS n FROM t GROUP BY kind",
    "SELECT kind, n FROM (SELECT p.kind, COUNT(v.visit) AS n FROM patients p LEFT JOIN visits v USING (patient) "
    "GROUP BY p.kind) t WHERE n > 0",
    "SELECT COUNT(*) AS n FROM (SELECT v.patient, COUNT(*) AS c FROM patients p LEFT JOIN visits v USING (patient) "
    "WHERE v.age > 5 GROUP BY v.patient) t WHERE c > 2",
    "SELECT COUNT(*) AS n FROM (SELECT patient FROM patients WHERE kind = 'a') a "
    "JOIN (SELECT patient, age FROM visits WHERE age > 3) b ON a.patient = b.patient",
    "WITH old AS (SELECT patient FROM patients WHERE kind <> 'a'), w AS (SELECT patient AS who, age FROM visits) "
    "SELECT SUM(age) AS n FROM w JOIN old ON w.who = old.patient WHERE age < 17",
    "SELECT kind, COUNT(*) AS n FROM (SELECT visit FROM visits WHERE age > 9) v, courses c WHERE c.visit = v.visit "
    "GROUP BY kind",
    "SELECT COUNT(badge) AS n, COUNT(*) AS m FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE badge IS NULL AND age > 3",
    "SELECT COUNT(patient) AS n FROM visits",
    "SELECT COUNT(badge) AS n FROM courses c JOIN visits v ON c.visit = v.visit",
]
"""Joins of subqueries, outer joins, and ids that are missing."""


def list_questions(chance: random.Random) -> list[str]:
    """Every condition and its negation in a shape, and some of two joined by AND and OR."""
    found = []
    for table, conditions in CONDITIONS.items():
        negated = [f"NOT {one}" for one in conditions if one not in NEGATED]
        wheres = [*conditions, *negated]
        wheres += [f"{negated[-1]} {word} {conditions[0]}" for word in ("AND", "OR")]
        found += [chance.choice(SHAPES[table]).format(f"WHERE {one}") for one in wheres]
    return [
        *found,
        *JOINED,
        "SELECT kind, COUNT(*) FILTER (WHERE patient NOT IN (SELECT patient FROM visits)) AS n, COUNT(*) AS m "
        "FROM patients GROUP BY kind",
    ]


def read_rows(rows: Any) -> set[tuple[Any, ...]]:
    return {tuple(0 if one is None and place else one for place, one in enumerate(row)) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "accountant", "adjacency"), [(1, "pure", "add-remove"), (2, "zcdp", "replace-one")])
def test_numbers_are_those_of_sql(tmp_path: Path, seed: int, accountant: str, adjacency: str) -> None:
    tail = "BUDGET 9000 EPSILON" if accountant == "pure" else "BUDGET 9000 RHO"
    with opened(tmp_path / "w", seed, accountant, adjacency) as (session, exact):
        for text in list_questions(random.Random(seed)):
            with recorded():
                answer = session.ask(f"{text} {tail} REUSE NONE")
            names = list(answer.columns)
            found = exact.execute(text)
            places = [names.index(one[0]) for one in found.description]
            shown = read_rows(tuple(row[place] for place in places) for row in answer.rows)
            expected = read_rows(found.fetchall())
            assert {row for row in shown if any(row[1:]) or len(row) == 1} == {
                row for row in expected if any(row[1:]) or len(row) == 1
            }, text
        assert session.ledger.verify().ok


def write(condition: str, negated: bool) -> str:
    return f"WHERE {'NOT ' if negated else ''}{condition}"


@pytest.mark.parametrize(("table", "negated"), list(product(CONDITIONS, [False, True])))
def test_what_is_rendered_is_the_same_question(table: str, negated: bool) -> None:
    for condition, shape in product(CONDITIONS[table], SHAPES[table]):
        asked = parse(f"{shape.format(write(condition, negated))} BUDGET 1 EPSILON")
        assert parse(render(asked)) == asked


REFUSED = [
    "SELECT COUNT(*) FROM visits WHERE visit NOT IN (SELECT visit FROM courses)",
    "SELECT COUNT(*) FROM patients WHERE EXISTS (SELECT 1 FROM visits WHERE visits.age = 3)",
    "SELECT COUNT(*) FROM patients p WHERE EXISTS (SELECT 1 FROM courses c WHERE c.kind = p.kind)",
    "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.patient = v.patient AND w.age > v.age "
    "AND w.age <> v.age)",
    "SELECT COUNT(*) FROM patients WHERE patient IN (SELECT visit FROM courses)",
    "SELECT COUNT(*) FROM patients WHERE patient IN (SELECT patient FROM nowhere)",
    "SELECT COUNT(*) FROM patients WHERE patient IN (SELECT patient FROM visits GROUP BY patient)",
    "SELECT COUNT(*) FROM patients WHERE patient IN (SELECT patient FROM visits WHERE patient IN (SELECT patient FROM "
    "patients))",
    "SELECT COUNT(*) FROM patients WHERE EXISTS (SELECT 1 FROM visits)",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient)",
    "SELECT COUNT(v.visit) FROM patients p LEFT JOIN visits v ON p.patient = v.patient AND v.age > 3",
    "SELECT COUNT(*) FROM visits v LEFT JOIN patients p USING (patient) WHERE p.kind = 'a'",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE v.visit IS NULL AND v.age > 2",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE v.badge IS NULL",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE v.age IS NULL AND p.kind <> 'a'",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE COALESCE(v.age, 19) > 2",
    "SELECT v.age, SUM(v.age) FROM patients p LEFT JOIN visits v USING (patient) GROUP BY v.age",
    "SELECT COUNT(*), SUM(v.age) FROM patients p LEFT JOIN visits v USING (patient)",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE v.age > 5 OR p.kind = 'a'",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE v.age IS NULL",
    "SELECT COUNT(*) FROM patients p LEFT JOIN visits v USING (patient) WHERE p.patient IS NOT NULL",
    "SELECT SUM(v.age) FROM visits v LEFT JOIN courses c ON c.visit = v.visit",
    "SELECT COUNT(*) FROM (SELECT p.patient, COUNT(v.visit) AS n FROM patients p LEFT JOIN visits v USING (patient) "
    "GROUP BY p.patient) t WHERE n = 0",
    "SELECT AVG(age) FROM (SELECT p.patient, COUNT(v.visit) AS age FROM patients p LEFT JOIN visits v USING (patient) "
    "GROUP BY p.patient) t",
    "SELECT COUNT(*) FROM (SELECT p.patient FROM patients p LEFT JOIN visits v USING (patient)) t",
    "SELECT COUNT(*) FROM (SELECT patient FROM (SELECT p.patient FROM patients p LEFT JOIN visits v USING (patient)) "
    "t) u",
    "WITH t AS (SELECT kind, visit FROM patients p LEFT JOIN visits v USING (patient)) SELECT COUNT(*) FROM t",
    "SELECT kind, n FROM (SELECT p.kind, COUNT(*) AS n FROM patients p LEFT JOIN visits v USING (patient) "
    "GROUP BY p.kind) t WHERE n > 1",
    "SELECT COUNT(*) FROM (SELECT p.patient, v.visit FROM patients p LEFT JOIN visits v USING (patient)) t "
    "JOIN courses c ON c.visit = t.visit",
    "SELECT COUNT(*) FROM patients p FULL JOIN visits v USING (patient)",
    "SELECT COUNT(*) FROM (SELECT kind AS x, patient FROM patients) a JOIN (SELECT age AS x, patient FROM visits) b "
    "USING (patient)",
]


@pytest.mark.parametrize("text", JOINED)
def test_what_is_rendered_of_a_join_is_the_same_question(text: str) -> None:
    asked = parse(f"{text} ERROR {', '.join('9' * (2 if ' AS m' in text else 1))}", linked=TABLES)
    assert parse(render(asked), linked=TABLES) == asked


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused_with_a_question_that_works(text: str, tmp_path: Path) -> None:
    with opened(tmp_path / "w", 1, "pure", "add-remove") as (session, _):
        with pytest.raises(SiloquentError) as refused:
            session.ask(f"{text} BUDGET 1 EPSILON")
        assert refused.value.code in ("request_invalid", "unknown_name", "syntax"), refused.value
        assert refused.value.fix.startswith("SELECT"), refused.value
        session.explain(refused.value.fix)
        assert not any(entry.kind == "reserve" for entry in session.ledger.iter_entries(after=0))
