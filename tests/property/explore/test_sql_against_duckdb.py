"""Without noise, an answer's keys, values, headers and order are those that DuckDB gives for the same SQL."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import siloquent as sq
from property.explore.samplers import recorded
from siloquent.api import Session

SCHEMA = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "C", "B"], null = "cell" },
  { name = "ill", type = "boolean", null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" },
  { name = "days", type = "integer", lo = -3, hi = 4, outside = "clamp", null = "cell" },
]
[table]
name = "visits"
adjacency = "add-remove"
size_hint = 400
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1000000"
"""


def _build_rows(chance: random.Random) -> pa.Table:
    rows = range(400)
    return pa.table(
        {
            "ward": [chance.choice(["A", "A", "B", "C", None]) for _ in rows],
            "ill": [chance.random() < 0.4 for _ in rows],
            "age": [chance.choice([None, *range(100)]) for _ in rows],
            "days": [chance.choice([None, *range(-3, 5)]) for _ in rows],
        }
    )


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    folder = tmp_path_factory.mktemp("sql")
    rows = _build_rows(random.Random(20))
    sq.create_workspace(folder / "w")
    with duckdb.connect(":memory:") as engine, sq.open(folder / "w") as session:
        engine.execute("CREATE TABLE visits AS SELECT * FROM rows")
        session.add_frame(sq.read_schema(SCHEMA), rows)
        yield session, engine


def compare(engines: tuple[Session, duckdb.DuckDBPyConnection], text: str, tail: str = "BUDGET 1 EPSILON") -> None:
    """Compare headers, values, order and NULLs; ends of intervals are not in DuckDB's answer."""
    session, engine = engines
    with recorded():
        answer = session.ask(f"{text} {tail} REUSE NONE")
    expected = engine.execute(text)
    names = [column[0] for column in expected.description or ()]
    shown = [list(answer.columns).index(name) for name in names]
    assert not {name for name in set(answer.columns) - set(names) if not name.endswith(("low", "high"))}
    found = [[_round(row[place]) for place in shown] for row in answer.rows]
    assert found == [[_round(value) for value in row] for row in expected.fetchall()], text


def _round(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else value


NAMES = [
    "SELECT v.ward, COUNT(*) AS n FROM visits v GROUP BY v.ward ORDER BY v.ward",
    "SELECT v.ward AS station, COUNT(*) AS n FROM main.visits AS v GROUP BY station ORDER BY station DESC",
    'SELECT "visits"."ward" w, COUNT(*) n FROM "memory"."main"."visits" GROUP BY 1 ORDER BY 1',
    "SELECT ward, ill, COUNT(*) AS n FROM visits GROUP BY ALL ORDER BY ill DESC, ward NULLS FIRST",
    "SELECT age // 10 AS decade, COUNT(*) AS n FROM visits WHERE age >= 0 GROUP BY decade ORDER BY n DESC, decade",
    "SELECT days, COUNT(*) AS n FROM visits GROUP BY days ORDER BY days NULLS LAST LIMIT 3 OFFSET 1",
    "SELECT ward, COUNT(*) AS n, SUM(age) AS total FROM visits GROUP BY ward ORDER BY total, n LIMIT 2",
    "SELECT ward, SUM(age) AS total FROM visits GROUP BY 1 ORDER BY 2 DESC FETCH FIRST 2 ROWS ONLY",
    "SELECT DISTINCT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3",
    "SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY w HAVING COUNT(*) > 80 ORDER BY w DESC NULLS FIRST LIMIT 2",
    "SELECT COUNT(*) AS n FROM visits ORDER BY n LIMIT 5",
]


@pytest.mark.parametrize("text", NAMES)
def test_names_order_and_limits_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text)


TESTED = [
    "SELECT COUNT(ward) AS w, COUNT(days) AS d, COUNT(age) AS a, COUNT(*) AS n FROM visits",
    "SELECT ward, COUNT(days) AS d, SUM(days) AS s FROM visits GROUP BY ward ORDER BY ward",
    "SELECT ill, COUNT(*) AS n, COUNT(*) FILTER (WHERE days > 0) AS p FROM visits GROUP BY ill ORDER BY ill",
    "SELECT ward, SUM(CASE WHEN days > 0 THEN 1 ELSE 0 END) AS p, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY 1",
    "SELECT ward, SUM(CASE WHEN ill THEN days ELSE 0 END) AS s, COUNT(1) AS n FROM visits GROUP BY ward ORDER BY 1",
    "SELECT COUNT(CASE WHEN days > 0 THEN 1 END) AS p, COUNT_IF(days <= 0) AS q FROM visits",
    "SELECT COUNT(CASE WHEN ill THEN days END) AS p, SUM(days) FILTER (WHERE NOT ill) AS s FROM visits",
    "SELECT COUNT(*) FILTER (WHERE ward IS NULL) AS p, COUNT(*) FILTER (WHERE ward <> 'A') AS q FROM visits",
    "SELECT ward, COUNT(*) FILTER (WHERE ill) AS p FROM visits GROUP BY ward ORDER BY p DESC, ward LIMIT 2",
]


@pytest.mark.parametrize("text", TESTED)
def test_counts_and_sums_with_tests_are_those_of_sql(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    compare(engines, text)


def test_averages_of_some_rows_are_those_of_sql(engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    text = "SELECT ill, AVG(days) FILTER (WHERE ward = 'A') AS a, AVG(days) AS b FROM visits GROUP BY ill ORDER BY ill"
    compare(engines, text)


SPELLED = [
    "SELECT COUNT(*) AS n FROM visits WHERE ill IS NOT TRUE AND (days > 0) IS NOT FALSE",
    "SELECT COUNT(*) AS n FROM visits WHERE (days > 0) IS TRUE OR (ward = 'A') IS UNKNOWN",
    "SELECT COUNT(*) AS n FROM visits WHERE NOT ((days > 0 AND ward = 'A') IS FALSE) AND (days > 1 OR ill) IS NOT NULL",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IS DISTINCT FROM 'A' AND days IS NOT DISTINCT FROM abs(days)",
    "SELECT COUNT(*) AS n FROM visits WHERE ward ILIKE 'a' OR (ward NOT ILIKE '%B' AND days NOTNULL)",
    "SELECT COUNT(*) AS n FROM visits WHERE age > '40' AND days <> CAST('2' AS INTEGER) AND 1 = 1",
    "SELECT ALL ward, COUNT(*) FILTER (ill) AS n, COUNT(ALL days) AS d FROM visits GROUP BY ward ORDER BY ward",
]


@pytest.mark.parametrize("text", SPELLED)
def test_other_spellings_of_tests_are_those_of_sql(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    compare(engines, text)


COMPUTED = [
    "SELECT ward, 100.0 * SUM(days) / COUNT(*) AS p, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY p DESC LIMIT 3",
    "SELECT ward, SUM(days) - 2 * COUNT(*) AS d, -COUNT(days) AS m FROM visits GROUP BY ALL ORDER BY d, ward",
    "SELECT ill, ROUND(AVG(days), 1) AS a, ROUND(SUM(days) / COUNT(days), 2) AS b FROM visits GROUP BY ill ORDER BY 1",
    "SELECT COUNT(*) AS n, COUNT(*) AS m, COUNT(*) * 2 - (COUNT(*) - 1) AS k FROM visits",
    "SELECT days, COUNT(*) FILTER (WHERE ill) / COUNT(*)::DOUBLE AS p FROM visits GROUP BY days ORDER BY p, days",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n < 100 ORDER BY ward",
    "SELECT ward, COUNT(*) AS n, SUM(days) s FROM visits GROUP BY 1 HAVING n > 9 AND s BETWEEN -9 AND 60 ORDER BY 1",
    "SELECT ward, SUM(days) / COUNT(*) AS m FROM visits GROUP BY ward HAVING SUM(days) / COUNT(*) > 0.5 ORDER BY ward",
    "SELECT ward, COUNT(*) n, SUM(days) s FROM visits GROUP BY ward HAVING n > 120 OR (s < 50 AND n <= 99) ORDER BY 1",
    "SELECT ward, COUNT(*) n FROM visits GROUP BY ward HAVING (n + 1) * 2 > 190 AND ((n < 99 OR n > 140)) ORDER BY 1",
    "SELECT ward, SUM(days) s FROM visits GROUP BY 1 HAVING COUNT(*) < 90 OR COUNT_IF(ill) > 60 ORDER BY 1",
    "SELECT ward, SUM(days) AS s FROM visits GROUP BY ward ORDER BY COUNT(*) DESC, ward",
    "SELECT ward, SUM(days) s FROM visits GROUP BY 1 HAVING AVG(days) < 9 ORDER BY COUNT(*) - SUM(age) DESC LIMIT 2",
    "SELECT SUM(days) AS s FROM visits ORDER BY COUNT(*) LIMIT 3",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY -2 * COUNT(*), ward LIMIT 3",
    "SELECT COALESCE(SUM(days) / NULLIF(COUNT(*) - 400, 0), -1) AS x, ABS(SUM(days) - 1000) AS y FROM visits",
    "SELECT SQRT(SUM(days) + 900) AS r, LN(COUNT(*)) AS l, LOG10(COUNT(*)) AS t, EXP(AVG(days)) AS e FROM visits",
    "SELECT POWER(SUM(days), 3) AS p, POW(COUNT(*), 2) AS q, SIGN(SUM(days) - 1000) AS s FROM visits",
    "SELECT ward, GREATEST(COUNT(*), 90) AS g, LEAST(SUM(days), COUNT(*), 5) AS l FROM visits GROUP BY ward ORDER BY 1",
    "SELECT CEIL(COUNT(*) / 7) AS c, FLOOR(COUNT(*) / 7) AS f, CAST(COUNT(*) / 7 AS DOUBLE) AS d FROM visits",
]


@pytest.mark.parametrize("text", COMPUTED)
def test_arithmetic_and_conditions_on_values_are_those_of_sql(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    compare(engines, text)


@pytest.mark.parametrize("sign", ["*", "/"])
def test_values_beyond_all_floats_are_shown_as_nothing(
    sign: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    asked = f" {sign} ".join(["COUNT(*)", *["1e59"] * 6])
    with recorded():
        answer = session.ask(f"SELECT {asked} AS x, EXP(COUNT(*) * 10) AS y FROM visits BUDGET 1 EPSILON REUSE NONE")
    assert answer.rows[0][0] in (None, 0.0)
    assert answer.rows[0][3] is None
    assert "x" in str(answer)


VIEWS = [
    "WITH a AS (SELECT * FROM visits WHERE age > 40) SELECT ward, COUNT(*) AS n FROM a GROUP BY ward ORDER BY ward",
    "WITH a AS (SELECT ward AS w, age FROM visits WHERE ill), b AS (SELECT w, age // 10 AS d FROM a WHERE age >= 0) "
    "SELECT d, COUNT(*) AS n FROM b WHERE w <> 'A' GROUP BY d ORDER BY d",
    "SELECT x.w, SUM(t) AS s FROM (SELECT ward w, days t FROM visits v WHERE v.age >= 50) AS x GROUP BY x.w ORDER BY s",
    "WITH a AS (SELECT days * 2 AS d, ward FROM visits WHERE ill) SELECT ward, SUM(d) s FROM a GROUP BY 1 ORDER BY 1",
    "SELECT COUNT(*) AS n FROM (SELECT * FROM (SELECT ward, age FROM visits WHERE ward <> 'A') WHERE age > 9) q",
    "WITH a AS (SELECT days AS D, ward FROM visits), b AS (SELECT * FROM a WHERE d > 0 OR ward = 'B') "
    "SELECT COUNT(*) FILTER (WHERE d < 3) AS n, SUM(d) AS s FROM b WHERE ward IS NOT NULL",
    "WITH a AS (SELECT ward AS w FROM visits) SELECT w, COUNT(*) n FROM a GROUP BY ALL HAVING n > 90 ORDER BY w DESC",
]


@pytest.mark.parametrize("text", VIEWS)
def test_subqueries_that_choose_rows_and_columns_are_those_of_sql(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    compare(engines, text)


def test_a_subquery_is_the_question_about_its_table(engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    session, _ = engines
    plain = "SELECT ward, COUNT(*) FROM visits WHERE age > 40 AND ill GROUP BY ward BUDGET 0.75 EPSILON"
    first = session.ask(plain, key="one")
    for text in (
        "WITH a AS (SELECT * FROM visits WHERE age > 40) SELECT ward, COUNT(*) FROM a WHERE ill GROUP BY ward",
        "SELECT ward, COUNT(*) FROM (SELECT ward, ill i FROM visits WHERE age > 40) WHERE i GROUP BY ward",
    ):
        again = session.ask(f"{text} BUDGET 0.75 EPSILON", key="one")
        assert again.replayed
        assert again.rows == first.rows
        assert session.explain(f"{text} BUDGET 0.75 EPSILON").price == 0


SUBQUERIES = {
    "SELECT COUNT(*) FROM (SELECT ward, age, COUNT(*) FROM t GROUP BY ward, age) ERROR 5": "over a subquery's groups",
    "WITH a AS (SELECT DISTINCT ward, age FROM t) SELECT COUNT(*) FROM a ERROR 5": "over a subquery's groups",
    "WITH a AS (SELECT ward FROM t LIMIT 3) SELECT COUNT(*) FROM a ERROR 5": "only choose rows and columns",
    "WITH a AS (SELECT ward FROM t) SELECT SUM(cost) FROM a ERROR 5": "'cost' is not a column of the subquery",
    "WITH a AS (SELECT cost // 2 FROM t) SELECT COUNT(*) FROM a ERROR 5": "with a name",
    "WITH a AS (SELECT * FROM t), a AS (SELECT * FROM t) SELECT COUNT(*) FROM a ERROR 5": "'a' twice",
    "WITH a(x) AS (SELECT ward FROM t) SELECT COUNT(*) FROM a ERROR 5": "with a name",
    "WITH a AS (SELECT ward, age AS ward FROM t) SELECT COUNT(*) FROM a ERROR 5": "two columns 'ward'",
    "WITH a AS (SELECT o.ward FROM t) SELECT COUNT(*) FROM a ERROR 5": "'o' is not a table",
    "WITH a AS (SELECT ward FROM a) SELECT b.ward, COUNT(*) FROM a GROUP BY ward ERROR 5": "'b' is not a table",
    "SELECT COUNT(*) FROM t WHERE age > (SELECT AVG(age) FROM t) ERROR 5": "Subqueries",
}


@pytest.mark.parametrize("text", SUBQUERIES)
def test_other_subqueries_are_refused(text: str) -> None:
    with pytest.raises(sq.SiloquentError, match=SUBQUERIES[text]):
        sq.parse(text)


def test_a_quotient_of_sums_has_an_interval_and_one_by_nothing_a_note(
    engines: tuple[Session, duckdb.DuckDBPyConnection],
) -> None:
    session, _ = engines
    text = (
        "SELECT SUM(days) / (COUNT(*) - 400) AS x, COUNT(*) / SUM(days) AS y, COUNT(*) AS n, "
        "SUM(days) / (COUNT(*) - 399) AS z FROM visits ERROR 50, 2"
    )
    with recorded():
        answer = session.ask(text + " REUSE NONE")
    assert answer.columns[:9] == ("x", "x_low", "x_high", "y", "y_low", "y_high", "n", "n_low", "n_high")
    x, x_low, x_high, y, y_low, y_high, n, _, _, *z = answer.rows[0]
    assert z[0] is not None
    assert z[1:] == [None, None]
    assert "z of the answer has no interval" in " ".join(answer.notes)
    assert (x, x_low, x_high) == (None, None, None)
    assert y_low < y < y_high
    assert n == 400
    assert "computed from these" in answer.promise
    assert str(answer)
    assert answer._repr_html_()
    assert answer.to_json()["shown"]


def test_measuring_twice_what_is_shown_otherwise_is_free(
    engines: tuple[Session, duckdb.DuckDBPyConnection],
) -> None:
    session, _ = engines
    tail = "BUDGET 0.5 EPSILON CONFIDENCE 0.987"
    first = session.ask(f"SELECT ward, COUNT(*) FROM visits GROUP BY ward {tail}")
    for text in (
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY ward DESC LIMIT 2",
        "SELECT w.ward AS place, COUNT(*) AS n FROM main.visits w GROUP BY 1 HAVING n > 3 ORDER BY n",
        "SELECT ward, 100 * COUNT(*) AS n FROM visits GROUP BY ward HAVING n < 10000",
    ):
        again = session.ask(f"{text} {tail}")
        assert (again.cost.amount, again.accuracy.label) == (0, "repeated"), text
        known = {row[0]: row[1] for row in first.rows}
        factor = 100 if "100 *" in text else 1
        assert all(row[1] == factor * known[row[0]] for row in again.rows)


EQUAL = [
    ("age > 30", "age >= 31"),
    ("NOT (age > 30.5)", "age < 31"),
    ("age > 30 AND days <= 1", "days < 2 AND age >= 31 AND age > 30"),
    ("age BETWEEN 11 AND 20", "NOT (age <= 10) AND age < 21"),
    ("ill OR age > 50", "age >= 51 OR ill"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
@pytest.mark.parametrize("values", ["COUNT(*)", "AVG(days), COUNT(*)"])
def test_conditions_on_the_same_declared_values_are_one_question(
    one: str, other: str, values: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, engine = engines
    tail = "BUDGET 0.25 EPSILON"
    first = session.ask(f"SELECT {values} FROM visits WHERE {one} {tail}")
    again = session.ask(f"SELECT {values} FROM visits WHERE {other} {tail}")
    assert (again.cost.amount, again.rows) == (0, first.rows)
    counts = [engine.execute(f"SELECT COUNT(*) FROM visits WHERE {where}").fetchall() for where in (one, other)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("other", ["age > 31", "age >= 30", "age < 31", "NOT (age >= 31)", "age > 30 OR ill"])
def test_conditions_on_other_values_are_other_questions(
    other: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    tail = "BUDGET 0.125 EPSILON"
    session.ask(f"SELECT COUNT(*) FROM visits WHERE age > 30 {tail} REUSE NONE")
    assert session.explain(f"SELECT COUNT(*) FROM visits WHERE {other} {tail}").label != "repeated"


def test_an_answer_under_its_key_is_computed_again_alike(
    engines: tuple[Session, duckdb.DuckDBPyConnection],
) -> None:
    session, _ = engines
    text = (
        "SELECT ward AS w, ROUND(100.0 * COUNT(*) FILTER (WHERE ill) / COUNT(*), 1) AS pct FROM visits GROUP BY w "
        "HAVING pct > 1 ORDER BY pct DESC NULLS LAST LIMIT 3 BUDGET 2 EPSILON"
    )
    explained = session.explain(text)
    one, other = session.ask(text, key="pct"), session.ask(text, key="pct")
    assert one == other
    assert other.replayed
    assert one.cost.amount <= explained.price


def _write(chance: random.Random) -> str:
    """Write a query with keys, aliases, order and limits, whose order leaves no ties."""
    keys = chance.sample(["ward", "ill", "days", "age % 3"], chance.randint(1, 2))
    aliases = [chance.choice(["", f"k{place}"]) if " " not in key else f"k{place}" for place, key in enumerate(keys)]
    named = [f"{key} AS {alias}" if alias else key for key, alias in zip(keys, aliases, strict=True)]
    tests = ["days > 0", "ill", "ward IN ('A', 'B')", "ward IS NULL OR days < 2", "NOT (days = 1)"]
    values = [
        "COUNT(*) AS n",
        chance.choice(
            [
                "SUM(age) AS s",
                "COUNT(days) AS s",
                f"COUNT(*) FILTER (WHERE {chance.choice(tests)}) AS s",
                f"{chance.randint(-9, 9)} * COUNT(*) FILTER (WHERE {chance.choice(tests)}) / COUNT(*) + 1 AS s",
                f"ROUND(SUM(age) / 7.0 - COUNT(*) * {chance.randint(1, 5)}) AS s",
                f"SUM(CASE WHEN {chance.choice(tests)} THEN 1 ELSE 0 END) AS s",
                f"SUM(CASE WHEN {chance.choice(tests)} THEN age ELSE 0 END) AS s",
            ]
        ),
    ][: chance.randint(1, 2)]
    by = [alias or key for key, alias in zip(keys, aliases, strict=True)]
    groups = chance.choice([", ".join(by), "ALL", ", ".join(str(place + 1) for place in range(len(keys)))])
    turn = ["", " ASC", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " DESC NULLS LAST"]
    order = [f"{name}{chance.choice(turn)}" for name in chance.sample(by, len(by))]
    value = chance.choice(["n", "COUNT(*)", str(len(keys) + 1)])
    first = [f"{value}{chance.choice(turn[:3])}"] if chance.random() < 0.5 else []
    limit = chance.choice(["", f" LIMIT {chance.randint(1, 4)}", f" LIMIT 2 OFFSET {chance.randint(1, 3)}"])
    return (
        f"SELECT {', '.join([*named, *values])} FROM visits WHERE age >= 0 GROUP BY {groups} "
        f"ORDER BY {', '.join([*first, *order])}{limit}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_queries_of_these_forms_are_those_of_sql(
    seed: int, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    compare(engines, _write(random.Random(seed)))
