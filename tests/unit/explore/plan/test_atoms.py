"""LIKE means what a regular expression would, without its cost; expressions cut and round as the language page says."""

from __future__ import annotations

import random
import re
import time
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.cells.predicate_evaluation import FALSE, TRUE, UNKNOWN, evaluate_atom, evaluate_expression
from siloquent.explore.plan.cells.predicates import compile_workload
from siloquent.explore.spec import parse, parse_expression, parse_predicate
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema
from unit.explore.plan.tables import planned

D = Decimal
DAY = Attribute("day", "date", lo=datetime(2024, 2, 28), hi=datetime(2024, 3, 2), grid=D(86_400))
NUMBER = Attribute("x", "integer", lo=D(-3), hi=D(3), grid=D(1))


def test_like_is_the_regular_expression_on_random_texts() -> None:
    draw = random.Random(5)
    texts = sorted({"".join(draw.choice("ab.\\") for _ in range(draw.randint(1, 6))) for _ in range(300)})
    attribute = Attribute("t", "category", values=tuple(texts))
    for _ in range(200):
        pattern = "".join(draw.choice("ab%_.\\") for _ in range(draw.randint(0, 6)))
        plain = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
        expected = [bool(re.fullmatch(plain, text, re.DOTALL)) for text in texts]
        quoted = pattern.replace("'", "''")
        assert (evaluate_atom(parse_predicate(f"t LIKE '{quoted}'"), attribute)[:-1] == TRUE).tolist() == expected, (
            pattern
        )


def test_a_hostile_pattern_takes_no_longer_than_a_plain_one() -> None:
    attribute = Attribute("t", "category", values=("a" * 2_000,))
    start = time.process_time()
    plain = evaluate_atom(parse_predicate("t LIKE 'a%'"), attribute)
    middle = time.process_time()
    hostile = evaluate_atom(parse_predicate(f"t LIKE '{'%a' * 60}%c'"), attribute)
    end = time.process_time()
    assert (plain[0], hostile[0]) == (TRUE, FALSE)
    assert end - middle < 1_000 * (middle - start) + 1  # backtracking would need more than the age of the world


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x // 2", [-1, -1, 0, 0, 0, 1, 1]),
        ("x % 2", [-1, 0, -1, 0, 1, 0, 1]),
        ("abs(x)", [3, 2, 1, 0, 1, 2, 3]),
        ("x * 2 + 1", [-5, -3, -1, 1, 3, 5, 7]),
    ],
)
def test_arithmetic_on_declared_values(text: str, expected: list[int]) -> None:
    values = evaluate_expression(parse_expression(text), NUMBER)
    assert values.data[:7].tolist() == expected
    assert values.known.tolist() == [True] * 7 + [False]


def test_division_by_zero_is_null() -> None:
    truth = evaluate_atom(parse_predicate("12 // x = 6"), NUMBER)
    assert truth.tolist() == [FALSE, FALSE, FALSE, UNKNOWN, FALSE, TRUE, FALSE, UNKNOWN]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year(day)", [2024] * 4),
        ("month(day)", [2, 2, 3, 3]),
        ("day(day)", [28, 29, 1, 2]),
        ("dayofweek(day)", [3, 4, 5, 6]),  # 2024-02-28 was a Wednesday; Sunday is 0
    ],
)
def test_parts_of_dates(text: str, expected: list[int]) -> None:
    assert evaluate_expression(parse_expression(text), DAY).data[:4].tolist() == expected


def test_dates_compare_with_texts_and_dates_alike() -> None:
    for constant in ("'2024-02-29'", "DATE '2024-02-29'"):
        assert evaluate_atom(parse_predicate(f"day > {constant}"), DAY).tolist() == [FALSE, FALSE, TRUE, TRUE, UNKNOWN]
    with pytest.raises(RequestError):
        evaluate_atom(parse_predicate("day > 'spring'"), DAY)


def test_rounding_goes_away_from_zero_at_a_half() -> None:
    half = Attribute("h", "real", lo=D("-2.5"), hi=D("2.5"), grid=D("0.5"))
    rounded = evaluate_expression(parse_expression("round(h)"), half).data[:11]
    assert rounded.tolist() == [-3, -2, -2, -1, -1, 0, 1, 1, 2, 2, 3]
    assert np.all(rounded == -rounded[::-1])


@pytest.mark.parametrize("condition", ["ward + 1 = 2", "1 - sex = 0", "day * 2 = 4"])
def test_only_numbers_are_computed_with(condition: str) -> None:
    with pytest.raises(RequestError, match="takes numbers, not"):
        planned(f"SELECT COUNT(*) FROM visits WHERE {condition} ERROR 5")


@pytest.mark.parametrize(
    ("test", "fix"),
    [
        ("flag = 1", "TRUE"),
        ("0 = flag", "FALSE"),
        ("flag = 'False'", "FALSE"),
        ("flag = 'perhaps'", "TRUE or FALSE"),
        ("plz = 1067", "'01067'"),
        ("plz = 99", "'04109'"),
        ("lower(plz) = 99", "'99'"),
        ("plz = TRUE", "'04109'"),
        ("n = '2.5'", "2.5"),
        ("n = 'x'", "4.5"),
        ("n = TRUE", "4.5"),
        ("day = 2024", "DATE '2024-03-01'"),
        ("day LIKE '2024-01%'", "year(day) = 2024 AND month(day) = 3"),
        ("n LIKE '3%'", "n >= 4.5"),
        ("flag LIKE 'T%'", "flag"),
    ],
)
def test_a_constant_of_another_kind_is_refused_with_the_constant_that_was_meant(test: str, fix: str) -> None:
    grid = {"lo": Decimal(0), "hi": Decimal(9), "grid": Decimal("0.5")}
    domain = (
        Attribute("flag", "boolean"),
        Attribute("plz", "category", values=("01067", "04109")),
        Attribute("n", "real", **grid),
        DAY,
    )
    schema = TableSchema("visits", Domain(domain), TableBudget("pure", epsilon=Fraction(1)))
    with pytest.raises(RequestError) as refused:
        compile_workload(parse(f"SELECT COUNT(*) FROM visits WHERE {test} ERROR 5"), schema)
    assert refused.value.fix == fix


CONSTANTS = ("'x'", "7", "TRUE", "DATE '1999-01-01'", "'1999-13-01'")


@st.composite
def attributes_of_a_kind(draw: st.DrawFn) -> Attribute:
    """An attribute of any kind that a condition may test, with bounds of any size."""
    kind = draw(st.sampled_from(("boolean", "category", "integer", "real", "date", "datetime")))
    if kind == "boolean":
        return Attribute("a", kind)
    if kind == "category":
        values = draw(
            st.lists(st.text(st.characters(codec="ascii", exclude_categories=("C",)), min_size=1), min_size=1)
        )
        return Attribute("a", kind, values=tuple(dict.fromkeys(values)))
    if kind in ("integer", "real"):
        grid = D(1) if kind == "integer" else draw(st.sampled_from((D("0.5"), D("0.01"), D("0.25"), D(10))))
        lo = grid * draw(st.integers(-(10**6), 10**6))
        return Attribute("a", kind, lo=lo, hi=lo + grid * draw(st.integers(1, 10**7)), grid=grid)
    grid = D(86_400) if kind == "date" else draw(st.sampled_from((D(1), D(3_600))))
    lo = datetime(1900, 1, 1) + timedelta(days=draw(st.integers(0, 60_000)))
    return Attribute("a", kind, lo=lo, hi=lo + int(grid) * timedelta(seconds=draw(st.integers(1, 10**4))), grid=grid)


@settings(max_examples=60, deadline=None)
@given(attributes_of_a_kind(), st.sampled_from(CONSTANTS), st.sampled_from(("=", "!=", "LIKE")))
def test_the_constant_that_is_offered_can_be_pasted(attribute: Attribute, constant: str, test: str) -> None:
    schema = TableSchema("visits", Domain((attribute,)), TableBudget("pure", epsilon=Fraction(1)))
    question = "SELECT COUNT(*) FROM visits WHERE {} ERROR 5"
    constant = "'x%'" if test == "LIKE" else constant
    try:
        compile_workload(parse(question.format(f"a {test} {constant}")), schema)
    except UnknownName:
        return  # lists the declared values
    except RequestError as refused:
        fix = refused.fix.removesuffix(" or FALSE")
    else:
        return
    pasted = fix if test == "LIKE" else f"a {test} {fix}"
    compile_workload(parse(question.format(pasted)), schema)


@pytest.mark.parametrize(
    ("lo", "hi", "grid", "groups"),
    [(1, 3, "0.01", 3), (0, 119, "1", 12), (0, 200, "0.001", 21), (0, 1, "0.01", 11), (0, 10**9, "1", 11)],
)
def test_the_width_that_is_offered_for_groups_of_a_number_makes_some(lo: int, hi: int, grid: str, groups: int) -> None:
    number = Attribute("n", "real", lo=Decimal(lo), hi=Decimal(hi), grid=Decimal(grid))
    schema = TableSchema("visits", Domain((number,)), TableBudget("pure", epsilon=Fraction(1)))
    with pytest.raises(RequestError) as refused:
        compile_workload(parse("SELECT n, COUNT(*) FROM visits GROUP BY n ERROR 5"), schema)
    key = refused.value.fix.removeprefix("GROUP BY ").partition(",")[0]
    asked = compile_workload(parse(f"SELECT {key}, COUNT(*) FROM visits GROUP BY {key} ERROR 5"), schema)
    assert len(asked.labels) == groups
