"""Expressions of a row: exact values within derived bounds for every row, and DuckDB's answers for the same SQL."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import siloquent as sq
from property.explore.rows_of_sql import (
    SCHEMA,
    compute,
    decide,
    open_engines,
    write_condition,
    write_number,
)
from property.explore.samplers import recorded
from property.explore.test_sql_against_duckdb import compare
from siloquent.api import Session
from siloquent.errors import RequestError
from siloquent.explore.plan.computed.attributes import build_test_attribute, build_value_attribute
from siloquent.explore.plan.computed.narrowing import narrow_cells
from siloquent.explore.spec.language.parse import parse_expression, parse_predicate
from siloquent.explore.spec.rewriting.normal_form import list_attributes
from siloquent.schema import Attribute

DECLARED = sq.read_schema(SCHEMA)
DOMAIN = DECLARED.domain


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    with open_engines(tmp_path_factory.mktemp("rows") / "w") as both:
        yield both


QUESTIONS = [
    "SELECT ward, SUM(age * (1 - days)) AS s, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward",
    "SELECT AVG(age / 4 - days) AS s FROM visits",
    "SELECT VAR_POP(age - 2 * days) AS v FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE price < parts",
    "SELECT COUNT(*) AS n FROM visits WHERE NOT (price * 3 - parts <= 100 * age) OR ward = town",
    "SELECT COUNT(price + parts) AS n, COUNT(*) AS m FROM visits",
    "SELECT SUM(CASE WHEN ward = 'A' THEN 1 WHEN ill THEN 2 ELSE 0 END) AS s FROM visits",
    "SELECT SUM(CASE WHEN ward = 'A' THEN age WHEN price > parts THEN cut END) AS s FROM visits",
    "SELECT AVG(CASE WHEN price > parts THEN 1 ELSE 0 END) AS s FROM visits",
    "SELECT CASE WHEN age < 18 THEN 'young' WHEN age < 65 THEN 'adult' ELSE 'old' END AS g, COUNT(*) AS n FROM visits "
    "GROUP BY g ORDER BY g",
    "SELECT CASE WHEN age < 18 THEN 'young' WHEN price > parts THEN 'rich' END AS g, SUM(days) AS n FROM visits "
    "GROUP BY 1 ORDER BY n, g",
    "SELECT coalesce(ward, town) AS w, COUNT(*) AS n FROM visits GROUP BY w ORDER BY w",
    "SELECT cut, COUNT(*) AS n FROM visits GROUP BY cut HAVING n > 0 ORDER BY cut",
    "SELECT 1 - cut * 2 AS k, COUNT(*) AS n FROM visits GROUP BY k HAVING n > 0 ORDER BY k",
    "SELECT COUNT(*) FILTER (WHERE ward < town) AS p, COUNT(*) FILTER (WHERE IF(ill, age, days) > 3) AS q FROM visits",
    "SELECT SUM(nullif(age, 50)) AS s, COUNT(nullif(ward, town)) AS n FROM visits",
    "SELECT SUM(greatest(age, days, 30)) AS s, SUM(least(age, cut)) AS t FROM visits",
    "SELECT COUNT(*) AS n FROM visits "
    "WHERE (age > 3 OR price > 5 OR parts > 6 OR cut > 0) AND (parts > 9 OR cut < 0.7)",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_expressions_of_a_row_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text, tail="BUDGET 500 EPSILON")


FUNCTIONS = [
    "SELECT COUNT(*) FILTER (WHERE price / nullif(age, 0) > 1000) AS a, "
    "COUNT(*) FILTER (WHERE NOT (7 < parts / nullif(days, 0))) AS b, "
    "COUNT(*) FILTER (WHERE age / nullif(days, 0) = 2 OR age IS NULL) AS c FROM visits",
    "SELECT COUNT(*) FILTER (WHERE floor(cut * 3) = 1) AS a, COUNT(*) FILTER (WHERE ceil(cut + age) > 30) AS b "
    "FROM visits",
    "SELECT floor(cut * 2) AS f, COUNT(*) AS n FROM visits GROUP BY f HAVING n > 0 ORDER BY f",
    "SELECT SUM(round(age * cut, 1)) AS a, SUM(sign(days)) AS b, SUM(ceil(age / 4)) AS c FROM visits",
    "SELECT COUNT(*) FILTER (WHERE round(price, 1) > 1000.5) AS a, "
    "COUNT(*) FILTER (WHERE round(price, -3) = 2000) AS b FROM visits",
    "SELECT extract(year FROM came) AS y, quarter(came) AS q, COUNT(*) AS n FROM visits GROUP BY ALL HAVING n > 0 "
    "ORDER BY 1, 2",
    "SELECT date_part('month', seen) AS m, COUNT(*) AS n FROM visits GROUP BY m ORDER BY m",
    "SELECT extract(dow FROM came) AS d, SUM(days) AS n FROM visits GROUP BY d ORDER BY d",
    "SELECT date_trunc('month', came)::DATE AS m, COUNT(*) AS n FROM visits GROUP BY m HAVING n > 0 ORDER BY m",
    "SELECT date_trunc('quarter', seen) AS m, COUNT(*) AS n FROM visits GROUP BY m HAVING n > 0 ORDER BY m",
    "SELECT date_trunc('week', came)::DATE AS m, COUNT(*) AS n FROM visits GROUP BY m HAVING n > 0 ORDER BY m",
    "SELECT COUNT(*) FILTER (WHERE came + INTERVAL '1' MONTH > gone) AS a, COUNT(*) FILTER (WHERE "
    "came <= DATE '2024-05-31' - INTERVAL '3 months') AS b, COUNT(*) FILTER (WHERE came - INTERVAL 10 DAY < gone) AS c "
    "FROM visits",
    "SELECT SUM(gone - came) AS s, COUNT(*) FILTER (WHERE gone - came > age) AS n FROM visits",
    "SELECT COUNT(*) FILTER (WHERE came < CURRENT_DATE) AS a, COUNT(*) FILTER (WHERE hour(seen) >= 12) AS b, "
    "COUNT(*) FILTER (WHERE minute(seen) = 30 OR seen < came) AS c FROM visits",
    "SELECT COUNT(*) FILTER (WHERE (parts - parts = 0) = (age < price)) AS a, "
    "COUNT(*) FILTER (WHERE (parts % 7 = 1) = ill) AS b FROM visits",
    "SELECT upper(trim(note)) AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY k",
    "SELECT substring(note, 1, 2) AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY k",
    "SELECT COUNT(*) FILTER (WHERE substring(note, -2) = 'bC') AS a, "
    "COUNT(*) FILTER (WHERE length(trim(note)) = 2) AS b, "
    "COUNT(*) FILTER (WHERE ltrim(note) = 'Ab ') AS c, COUNT(*) FILTER (WHERE rtrim(note) LIKE ' A_') AS d FROM visits",
    "SELECT COUNT(*) FILTER (WHERE ward || town = 'ABerg') AS a, "
    "COUNT(*) FILTER (WHERE length(ward || note) > 3) AS b, "
    "COUNT(*) FILTER (WHERE upper(coalesce(ward, town)) LIKE 'B%') AS c FROM visits",
    "SELECT ward || '-' || town AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY k",
    "SELECT COUNT(*) FILTER (WHERE CAST(cut * 7 AS INTEGER) = 3) AS a, "
    "COUNT(*) FILTER (WHERE price::DECIMAL(12, 1) > 5.1) AS b, "
    "COUNT(*) FILTER (WHERE CAST(seen AS DATE) = DATE '2024-02-03') AS c FROM visits",
    "SELECT week(came) AS w, COUNT(*) AS n FROM visits GROUP BY w HAVING n > 0 ORDER BY w",
    "SELECT COUNT(*) FILTER (WHERE dayofyear(came) > 200) AS a, COUNT(*) FILTER (WHERE extract(week FROM gone) = 52) "
    "AS b, COUNT(*) FILTER (WHERE extract(doy FROM gone) <= 31) AS c FROM visits",
    "SELECT strftime(came, '%Y-%m') AS m, COUNT(*) AS n FROM visits GROUP BY m HAVING n > 0 ORDER BY m",
    "SELECT strftime(seen, '%d.%m. %H') AS m, COUNT(*) AS n FROM visits GROUP BY m HAVING n > 0 ORDER BY m",
    *(
        f"SELECT SUM(date_diff('{unit}', came, gone)) AS s, AVG(date_diff('{unit}', came, seen)) AS t FROM visits"
        for unit in ("year", "quarter", "month", "day")
    ),
    *(
        f"SELECT COUNT(*) FILTER (WHERE date_diff('{unit}', came, gone) > {less}) AS a, COUNT(*) FILTER (WHERE "
        f"date_diff('{unit}', came, seen) % 7 = 3) AS b FROM visits"
        for unit, less in (("hour", 500), ("minute", -40_000), ("second", 0))
    ),
    "SELECT COUNT(*) FILTER (WHERE seen - TIMESTAMP '2024-02-01 00:10:00' > INTERVAL 60 MINUTE) AS a, COUNT(*) FILTER "
    "(WHERE date_diff('month', came, DATE '2024-05-31') >= 7) AS b FROM visits",
    "SELECT concat(ward, '-', town) AS k, COUNT(*) AS n FROM visits GROUP BY k HAVING n > 0 ORDER BY k",
    "SELECT COUNT(*) FILTER (WHERE mod(age + days, 7) = 1) AS a, "
    "COUNT(*) FILTER (WHERE mod(age, nullif(days, 0)) = 1) AS b, "
    "SUM(power(days, 3)) AS c, COUNT(*) FILTER (WHERE pow(cut, 2) > 0.3) AS d FROM visits",
    "SELECT COUNT(*) FILTER (WHERE starts_with(note, 'A') OR ends_with(town, 'g')) AS a, "
    "COUNT(*) FILTER (WHERE NOT contains(lower(note), 'b')) AS b, COUNT(*) FILTER (WHERE char_length(town) > 1) AS c "
    "FROM visits",
    "SELECT age >= 65 AS old, COUNT(*) AS n FROM visits GROUP BY age >= 65 ORDER BY n",
    "SELECT price > parts AS k, ward IS NULL AS w, COUNT(*) AS n FROM visits GROUP BY 1, 2 HAVING n > 0 ORDER BY n",
    "SELECT age BETWEEN 18 AND 65 OR ill AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY n",
    "SELECT COUNT(*) FILTER (WHERE (age > 50) = ill) AS a, COUNT(*) FILTER (WHERE NOT ((price > parts) = (age < 9))) "
    "AS b FROM visits",
    "SELECT SUM(CAST(ill AS INTEGER)) AS s, AVG(ill::INT) AS t, SUM((age > days * 9)::INT) AS u FROM visits",
    "SELECT COUNT(DISTINCT age // 10) AS a, COUNT(DISTINCT age * days) AS b, COUNT(DISTINCT price > parts) AS c, "
    "COUNT(DISTINCT upper(ward)) AS d FROM visits",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n / 2 DESC, ward",
    "WITH t AS (SELECT *, age - 18 AS over FROM visits WHERE age >= 18), u AS (SELECT *, over * 2 AS two "
    "FROM t) SELECT SUM(over) AS a, SUM(two + age) AS b, SUM(days) AS c FROM u",
]


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_of_a_row_are_those_of_sql(text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    compare(engines, text, tail="BUDGET 500 EPSILON")


WIDE = [
    ("price * (1 - cut)", "TRUE"),
    ("price * cut", "cut BETWEEN 0.05 AND 0.15 AND age < 50"),
    ("CASE WHEN ward = 'A' THEN price WHEN ill THEN -price * 2 ELSE 0 END", "NOT (cut > 0.5)"),
    ("price * (1 - cut) * (1 + cut) + parts", "price < 1000"),
]


@pytest.mark.parametrize(("expression", "where"), WIDE)
def test_sums_of_wide_expressions_are_those_of_sql_up_to_one_unit(
    expression: str, where: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, engine = engines
    text = f"SELECT SUM({expression}) AS s, COUNT({expression}) AS n FROM visits WHERE {where}"
    with recorded():
        answer = session.ask(f"{text} BUDGET 500 EPSILON REUSE NONE")
    expected = engine.execute(text).fetchall()[0]
    cells = narrow_cells(parse_predicate(where), DOMAIN)
    bounds = build_value_attribute(parse_expression(expression), DOMAIN, cells)
    unit = max(abs(float(bounds.lo or 0)), abs(float(bounds.hi or 0))) / 2**11  # type: ignore[arg-type]
    row = dict(zip(answer.columns, answer.rows[0], strict=True))
    assert row["n"] == expected[1]
    assert abs(row["s"] - float(expected[0])) <= unit


@pytest.mark.parametrize("seed", range(6))
def test_random_conditions_are_those_of_sql(seed: int, engines: tuple[Session, duckdb.DuckDBPyConnection]) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        compare(engines, f"SELECT COUNT(*) AS n FROM visits WHERE {write_condition(chance, 2)}", "BUDGET 500 EPSILON")


REFUSED = [
    "SUM(price * price)",
    "AVG(price * parts * cut)",
    "SUM(age / 3)",
    "SUM(age / days)",
    "MEDIAN(price * price / 7)",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_would_not_be_exact_is_refused_with_a_question_that_is(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    with pytest.raises(RequestError) as refused:
        session.explain(f"SELECT {text} FROM visits BUDGET 0.01 EPSILON")
    assert any(word in refused.value.fix for word in ("round(", "WHERE days > 0"))
    assert session.explain(refused.value.fix).price


PLANNED = [
    "SELECT ward, SUM(price * (1 - cut)) AS s, AVG(age * days) AS a FROM visits WHERE upper(coalesce(ward, town)) LIKE "
    "'B%' OR price < parts GROUP BY ward BUDGET 5 EPSILON",
    "SELECT MEDIAN(age * days) AS m, VAR(age - days) AS v FROM visits WHERE age > days * 3 BUDGET 6 EPSILON",
]


@pytest.mark.parametrize("text", PLANNED)
def test_a_plan_travels_is_replayed_under_its_key_and_is_used_again(
    text: str, engines: tuple[Session, duckdb.DuckDBPyConnection]
) -> None:
    session, _ = engines
    sent = pickle.loads(pickle.dumps(session.prepare(text).portable))  # noqa: S301
    assert sent.course.schema == DECLARED
    first, again = session.ask(text, key=f"{len(text)}"), session.ask(text, key=f"{len(text)}")
    assert (first, again.replayed) == (again, True)
    assert session.ask(f"{text} REUSE ANY").cost.amount == 0
    other = text.replace("days * 3", "days * 2").replace("price < parts", "price <= parts")
    assert session.explain(f"{other} REUSE ANY").price


CELLS = st.integers(-3, 2**40)


def _read_row(chance: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Draw a row's cells, and the values that they stand for."""
    cells, values = {}, {}
    for attribute in DOMAIN:
        ends = [0, 1, attribute.steps - 1, attribute.size - 1, chance.randrange(attribute.size)]
        cell = chance.choice(ends)
        value = attribute.label(cell)
        cells[attribute.name] = cell
        values[attribute.name] = value
        if attribute.is_numeric and value is not None:
            values[attribute.name] = Fraction(attribute.lo) + cell * Fraction(attribute.grid or 1)  # type: ignore[arg-type]
    return cells, values


def _evaluate(attribute: Attribute, rows: list[dict[str, int]]) -> list[int]:
    assert attribute.computed is not None
    batch = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return attribute.computed.compute_cells(batch).tolist()  # type: ignore[no-any-return]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_values_are_exact_and_within_the_bounds_that_where_leaves(seed: int) -> None:
    chance = random.Random(seed)
    expression, where = parse_expression(write_number(chance, 3)), parse_predicate(write_condition(chance, 2))
    if not list_attributes(expression):
        return
    try:
        attribute = build_value_attribute(expression, DOMAIN, narrow_cells(where, DOMAIN))
    except RequestError:  # too many values to be summed: the test below has its fix
        return
    test = build_test_attribute(where, DOMAIN)
    drawn = [_read_row(chance) for _ in range(40)]
    truths = _evaluate(test, [cells for cells, _ in drawn])
    found = _evaluate(attribute, [cells for cells, _ in drawn])
    for (_, values), truth, cell in zip(drawn, truths, found, strict=True):
        assert truth == {True: 1, False: 0, None: 2}[decide(where, values)]
        if truth == 1:
            exact = compute(expression, values)
            lo, grid = Fraction(attribute.lo), Fraction(attribute.grid or 1)  # type: ignore[arg-type]
            shown = attribute.size - 1 if exact is None else (exact - lo) / grid
            assert cell == shown


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.lists(st.fixed_dictionaries(dict.fromkeys(DOMAIN.names, CELLS)), min_size=1, max_size=8),
)
def test_no_row_whatever_its_cells_leaves_the_bounds(seed: int, rows: list[dict[str, int]]) -> None:
    chance = random.Random(seed)
    expression = parse_expression(write_number(chance, 3))
    if not list_attributes(expression):
        return
    try:
        where = parse_predicate("days = 1 AND age BETWEEN 20 AND 30 AND price < 5 AND cut > 0.5 AND parts > 7")
        attributes = [build_value_attribute(expression, DOMAIN, narrow_cells(where, DOMAIN))]
    except RequestError:
        attributes = []
    attributes.append(build_test_attribute(parse_predicate(write_condition(chance, 2)), DOMAIN))
    for attribute in attributes:
        assert all(-1 <= cell < attribute.size for cell in _evaluate(attribute, rows))
