"""Groups, totals and windows over released values are those of DuckDB, or refused with a question that is answered."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import duckdb
import pytest

import siloquent as sq
from property.explore.rows_of_sql import SCHEMA, open_engines
from property.explore.test_sql_against_duckdb import compare
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore.estimate.derived import Evaluator, Range
from siloquent.explore.spec import render
from siloquent.explore.spec.aggregates import Count
from siloquent.explore.spec.derived import Measured, OverGroups

DECLARED = sq.read_schema(SCHEMA)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    with open_engines(tmp_path_factory.mktemp("rows") / "w") as both:
        yield both


GROUPED = [
    "WITH t AS (SELECT ward, COUNT(*) AS n, SUM(days) AS d FROM visits GROUP BY ward) "
    "SELECT ward, d / n AS mean, n FROM t WHERE n > 20 AND (d > -500 OR n < 0) ORDER BY n DESC",
    "SELECT n * 2 AS twice FROM (SELECT COUNT(*) AS n, SUM(age) AS unused FROM visits) AS t",
    "SELECT w AS k, n FROM (SELECT ward AS w, COUNT(*) AS n FROM visits WHERE age > 30 GROUP BY w HAVING n > 5) t "
    "ORDER BY k",
    "WITH a AS (SELECT * FROM visits WHERE ill), b AS (SELECT town, AVG(age) AS m, COUNT(*) AS n FROM a GROUP BY town) "
    "SELECT b.town, ROUND(b.m, 2) AS m, GREATEST(n, 10) AS n FROM b WHERE NOT n <= 1 ORDER BY town",
    "WITH a AS (SELECT SUM(age) AS s FROM visits WHERE days > 0), b AS (SELECT COUNT(*) AS n FROM visits) "
    "SELECT s / n AS r, s FROM a, b",
    "WITH a AS (SELECT SUM(age) AS s FROM visits), b AS (SELECT COUNT(*) AS n, SUM(age) AS o FROM visits) "
    "SELECT s - o AS zero, n FROM a, b",
    "SELECT y, n FROM (SELECT year(came) AS y, COUNT(*) AS n FROM visits GROUP BY 1) WHERE n >= 1 ORDER BY y LIMIT 2",
]


@pytest.mark.parametrize("text", GROUPED)
def test_queries_over_groups_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text, tail="BUDGET 500 EPSILON")


WINDOWS = [
    "SELECT cut, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM visits WHERE cut > 0.5 "
    "GROUP BY cut HAVING n > 0 ORDER BY cut",
    "SELECT ward, SUM(age) AS s, RANK() OVER (ORDER BY SUM(age) DESC) AS place FROM visits GROUP BY ward "
    "ORDER BY place",
    "SELECT cut, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r, DENSE_RANK() OVER (ORDER BY COUNT(*) DESC) AS d, "
    "SUM(COUNT(*) * 2) OVER () AS t FROM visits GROUP BY cut HAVING n > 4 ORDER BY cut LIMIT 5",
    "SELECT town, ROUND(SUM(days) / SUM(SUM(days)) OVER (), 3) AS share FROM visits GROUP BY town ORDER BY town",
]


@pytest.mark.parametrize("text", WINDOWS)
def test_windows_over_groups_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text, tail="BUDGET 500 EPSILON")
    asked = sq.parse(f"{text} BUDGET 1 EPSILON")
    assert sq.parse(render(asked)) == asked


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ward, SUM(COUNT(*)) OVER (PARTITION BY ward) FROM visits GROUP BY ward",
        "SELECT ward, SUM(COUNT(*)) FROM visits GROUP BY ward",
        "SELECT ward, RANK() OVER (ORDER BY age) FROM visits",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING SUM(COUNT(*)) OVER () > 5",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING RANK() OVER (ORDER BY COUNT(*)) < 3",
    ],
)
def test_other_windows_are_refused_with_a_question_that_is_answered(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    with pytest.raises(RequestError) as refused:
        session.explain(f"{text} BUDGET 1 EPSILON")
    session.explain(refused.value.fix)


IN_WINDOWS = ("SUM(COUNT(*)) OVER ()", "RANK() OVER (ORDER BY COUNT(*) DESC)", "DENSE_RANK() OVER (ORDER BY COUNT(*))")


def test_windows_of_a_subquery_are_those_of_sql_or_refused(
    engines: tuple[Session, duckdb.DuckDBPyConnection],
) -> None:
    """Each window within and around a subquery, with and without conditions within and outside it."""
    session, _ = engines
    answered = 0
    for window, having, where, outer in product(
        IN_WINDOWS, ("", " HAVING COUNT(*) > 20"), ("", " WHERE n > 20", " WHERE w > 2"), ("w", "n / w AS r", "n")
    ):
        inner = f"SELECT ward, COUNT(*) AS n, {window} AS w FROM visits GROUP BY ward{having}"
        text = f"WITH t AS ({inner}) SELECT ward, {outer} FROM t{where} ORDER BY ward"
        try:
            session.explain(f"{text} BUDGET 500 EPSILON")
        except RequestError as refused:
            assert where, text
            session.explain(refused.fix)
            continue
        compare(engines, text, tail="BUDGET 500 EPSILON")
        answered += 1
    assert answered == 2 * 9 + 2 * 3  # without WHERE; or where a condition and no window is taken


@pytest.mark.parametrize("inner", IN_WINDOWS)
@pytest.mark.parametrize(
    "outer", ["SUM({}) OVER ()", "RANK() OVER (ORDER BY {})", "ROW_NUMBER() OVER (ORDER BY 1 + {})"]
)
def test_a_window_inside_another_is_refused_with_a_question_that_is_answered(
    inner: str, outer: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    with pytest.raises(RequestError) as refused:
        session.explain(f"SELECT ward, {outer.format(inner)} AS r FROM visits GROUP BY ward BUDGET 1 EPSILON")
    session.explain(refused.value.fix)


def test_the_interval_of_a_total_holds_the_sum_of_the_groups() -> None:
    value = Evaluator([Count()], DECLARED)
    rows = [[Range(Fraction(number), Fraction(number - 2), Fraction(number + 3))] for number in (5, 7, 1)]
    total = value.compute_window(OverGroups("sum", Measured(0)), rows, [0, 2])
    assert total[0] == total[1] == Range(Fraction(6), Fraction(2), Fraction(12))
    ranks = value.compute_window(OverGroups("rank", Measured(0), descending=True), rows, [0, 2])
    assert [one.value for one in ranks] == [1, None, 2]


SAME = {
    GROUPED[
        0
    ]: "SELECT ward, SUM(days) / COUNT(*) AS mean, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 20 "
    "AND (SUM(days) > -500 OR COUNT(*) < 0) ORDER BY n DESC",
    GROUPED[1]: "SELECT COUNT(*) * 2 AS twice FROM visits",
}


@pytest.mark.parametrize("text", SAME)
def test_a_query_over_groups_measures_what_it_uses(text: str) -> None:
    tail = "BUDGET 1 EPSILON"
    asked, plain = sq.parse(f"{text} {tail}"), sq.parse(f"{SAME[text]} {tail}")
    assert set(asked.aggregates) == set(plain.aggregates)
    assert sq.parse(render(asked)) == asked


OF_GROUPS = [
    "SELECT MAX(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
    "SELECT AVG(n) AS n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
    "SELECT ward, age FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t",
    "SELECT n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t WHERE ward = 'A'",
    "SELECT n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward LIMIT 1) t",
    "SELECT n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t JOIN wards USING (ward)",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) t WHERE n > 5",
    "SELECT n, COUNT(*) AS k FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t GROUP BY n",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM (SELECT COUNT(*) AS m FROM visits)) t",
    "WITH a AS (SELECT COUNT(*) AS n FROM visits), b AS (SELECT ward, COUNT(*) AS m FROM visits GROUP BY ward) "
    "SELECT n, m FROM a, b",
]


@pytest.mark.parametrize("text", OF_GROUPS)
def test_what_is_no_query_over_groups_is_refused_with_one_that_is_answered(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    with pytest.raises(RequestError) as refused:
        session.explain(f"{text} BUDGET 1 EPSILON")
    session.explain(refused.value.fix)


TOTALS = [
    "SELECT coalesce(ward, 'none') AS w, CASE WHEN age >= 50 THEN 'old' ELSE 'new' END AS old, COUNT(*) AS n, "
    "SUM(days) AS d FROM visits "
    "GROUP BY ROLLUP (w, old) HAVING n > 0 ORDER BY w, old",
    "SELECT coalesce(ward, 'none') AS w, coalesce(town, 'none') AS t, AVG(age) AS a FROM visits GROUP BY CUBE (1, 2) "
    "ORDER BY w, t",
    "SELECT coalesce(ward, 'none') AS w, coalesce(town, 'none') AS t, SUM(age) AS a FROM visits WHERE days > 0 "
    "GROUP BY GROUPING SETS ((w), (t), ()) ORDER BY w, t",
    "SELECT coalesce(ward, 'none') AS w, coalesce(town, 'none') AS t, coalesce(note, 'none') AS o, COUNT(*) AS n "
    "FROM visits GROUP BY w, ROLLUP (t, o) HAVING n > 3 ORDER BY 1, 2, 3",
    "SELECT coalesce(ward, 'none') AS w, coalesce(town, 'none') AS t, coalesce(note, 'none') AS o, COUNT(*) AS n "
    "FROM visits GROUP BY GROUPING SETS ((w, t), ROLLUP (o)) HAVING n > 3 ORDER BY 1, 2, 3",
]


@pytest.mark.parametrize("text", TOTALS[:4])
def test_totals_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text, tail="BUDGET 500 EPSILON")


@pytest.mark.parametrize("text", TOTALS[:4])
def test_totals_are_written_as_sets_of_keys(text: str) -> None:
    asked = sq.parse(f"{text} BUDGET 1 EPSILON")
    assert sq.parse(render(asked)) == asked


@pytest.mark.parametrize(("groups", "sets"), [("ROLLUP (1)", 2), ("CUBE (1, 2)", 4), ("GROUPING SETS ((1, 2), ())", 2)])
def test_a_row_counts_once_in_each_set_of_keys(
    groups: str, sets: int, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    keys = "coalesce(ward, 'none'), coalesce(town, 'none')" if "2" in groups else "coalesce(ward, 'none')"
    for aggregate, most in (("COUNT(*)", 1), ("SUM(days)", 4)):
        text = f"SELECT {keys}, {aggregate} FROM visits GROUP BY {groups} ERROR 50 REUSE NONE"
        plan = session.prepare(text).course.first.plans[0]
        moved = plan.compiled.sensitivity
        assert (moved.l1, moved.l2_squared, moved.linf) == (sets * most, sets * most**2, most)


NO_TOTALS = {
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward) BUDGET 1 EPSILON": "look like a total",
    "SELECT cut, MEDIAN(age) AS n FROM visits GROUP BY ROLLUP (cut) BUDGET 1 EPSILON": "overlap, so only",
    "SELECT days FROM visits GROUP BY CUBE (days) HAVING COUNT(*) > 5 BUDGET 1 EPSILON": "can only be chosen by",
    "SELECT days, COUNT(*) FROM visits GROUP BY CUBE (days, age, cut, price, parts, came, gone) BUDGET 1 EPSILON": "64",
}


@pytest.mark.parametrize("text", NO_TOTALS)
def test_totals_that_cannot_be_told_apart_are_refused(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    with pytest.raises(RequestError, match=NO_TOTALS[text]) as refused:
        session.explain(text)
    session.explain(refused.value.fix)
