"""The same question in other words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.spec import format_canonical, parse, parse_predicate
from siloquent.explore.spec.rewriting.name_resolution import correct_name, resolve_names
from siloquent.schema import Attribute, Domain, TableBudget, TableSchema

DOMAIN = Domain(
    (
        Attribute("ward", "category", values=("icu", "Age")),
        Attribute("age", "integer", lo=Decimal(0), hi=Decimal(120), grid=Decimal(1)),
    )
)
SCHEMA = TableSchema("visits", DOMAIN, TableBudget("pure", epsilon=Fraction(1)))
QUESTIONS = [
    "SELECT {ward}, COUNT(*), AVG({age}) FROM visits WHERE {ward} = 'Age' GROUP BY {ward} ERROR 5, 5 "
    "FOR AT LEAST 9 ROWS",
    "BIN visits ON SUM({age}) WHERE W = {{{age} + 1 > 3 AND {ward} IN ('icu', 'Age'), {ward} LIKE 'i%'}} ERROR 9",
    "BIN visits ON COUNT(*) WHERE W = PREFIX({age}, 0, 100, 10) AND {ward} = 'icu' ERROR 9",
    "BIN visits ON COUNT(*) WHERE W = CUBE({age}, {ward}) ERROR 9",
    "SELECT {ward} FROM visits GROUP BY {ward} HAVING SUM({age}) > 5 ERROR 9",
    "SELECT {ward}, QUANTILE({age}, 0.25) FROM visits GROUP BY {ward} HAVING COUNT(*) > 5 ERROR 9, 9",
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_case_of_attributes_makes_no_second_question(question: str) -> None:
    declared = parse(question.format(ward="ward", age="age"))
    other = resolve_names(parse(question.format(ward="WARD", age="Age")), SCHEMA)
    assert other == declared
    assert format_canonical(other) == format_canonical(declared)
    assert resolve_names(declared, SCHEMA) is declared


def test_names_that_nobody_declared_stay_for_whoever_refuses_them() -> None:
    query = parse("SELECT COUNT(*) FROM visits WHERE height > 3 ERROR 9")
    assert resolve_names(query, SCHEMA) == query


def test_a_value_is_put_right_and_attributes_of_that_name_are_not() -> None:
    query = parse("SELECT icu, COUNT(*) FROM visits WHERE ward = 'ICU' AND ward IN ('ICU', 'Age') GROUP BY icu ERROR 9")
    wrong = UnknownName("value of 'ward'", "ICU", DOMAIN["ward"].values)
    assert correct_name(query, wrong) == parse(
        "SELECT icu, COUNT(*) FROM visits WHERE ward = 'icu' AND ward IN ('icu', 'Age') GROUP BY icu ERROR 9"
    )


def test_an_attribute_is_put_right_and_values_of_that_name_are_not() -> None:
    wrong = UnknownName("attribute", "wrad", DOMAIN.names)
    assert correct_name(parse("SELECT COUNT(*) FROM visits WHERE wrad = 'wrad' ERROR 9"), wrong) == parse(
        "SELECT COUNT(*) FROM visits WHERE ward = 'wrad' ERROR 9"
    )


def test_what_nobody_can_guess_is_left_alone() -> None:
    query = parse("SELECT COUNT(*) FROM visits WHERE ward = 'surgery' ERROR 9")
    assert correct_name(query, UnknownName("value of 'ward'", "surgery", DOMAIN["ward"].values)) is None


SAME_CONDITIONS = {
    "day = CAST('2024-01-31' AS DATE)": "day = DATE '2024-01-31'",
    "day = '2024-01-31'::date": "day = DATE '2024-01-31'",
    "day = date('2024-01-31')": "day = DATE '2024-01-31'",
    "day < TIMESTAMP '2024-01-31 10:30:00'::DATE": "day < DATE '2024-01-31'",
    "at < CAST(DATE '2024-01-31' AS TIMESTAMP)": "at < TIMESTAMP '2024-01-31 00:00:00'",
    "at < TIMESTAMP '2024-01-31'": "at < TIMESTAMP '2024-01-31 00:00:00'",
    "age > CAST('4e1' AS INTEGER)": "age > 40",
    "age IN ('30'::INT, CAST(2.5 AS INTEGER), -1::BIGINT)": "age IN (30, 3, -1)",
    "age = -2.55::DECIMAL(4, 1)": "age = -2.6",
    "ward = 12::VARCHAR": "ward = '12'",
    "TRUE::INT = age": "age = 1",
    "1 = 1 AND age > 3": "TRUE AND age > 3",
    "'a' <> 'a' OR age > 3": "FALSE OR age > 3",
    "age ISNULL": "age IS NULL",
    "age NOTNULL": "age IS NOT NULL",
    "age IS DISTINCT FROM NULL": "age IS NOT NULL",
    "ward ILIKE 'I%'": "lower(ward) LIKE 'i%'",
    "ward NOT ILIKE '%U'": "lower(ward) NOT LIKE '%u'",
}


@pytest.mark.parametrize("condition", SAME_CONDITIONS)
def test_other_spellings_of_a_condition_make_the_same_question(condition: str) -> None:
    assert parse_predicate(condition) == parse_predicate(SAME_CONDITIONS[condition])


SAME_QUESTIONS = {
    "SELECT ALL ward, COUNT(*) FROM visits GROUP BY ward": "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    "SELECT COUNT(ALL age) FROM visits": "SELECT COUNT(age) FROM visits",
    "SELECT all, COUNT(*) FROM visits GROUP BY all": 'SELECT "all", COUNT(*) FROM visits GROUP BY "all"',
    "SELECT SUM(age) FILTER (age > 3) FROM visits": "SELECT SUM(age) FILTER (WHERE age > 3) FROM visits",
    "SELECT COUNT(*) FROM `project.clinic.visits`": "SELECT COUNT(*) FROM visits",
    "SELECT MEAN(age) FROM visits": "SELECT AVG(age) FROM visits",
    "SELECT QUANTILE_CONT(age, 0.2), APPROX_QUANTILE(age, 0.8) FROM visits": (
        "SELECT QUANTILE(age, 0.2), QUANTILE(age, 0.8) FROM visits"
    ),
    "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age) FROM visits": "SELECT QUANTILE(age, 0.9) FROM visits",
    "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) AS m FROM visits": "SELECT MEDIAN(age) AS m FROM visits",
    "SELECT kind, COUNT(*) FROM visits v, wards AS w WHERE age > 3 AND v.ward = w.ward GROUP BY kind": (
        "SELECT kind, COUNT(*) FROM visits JOIN wards USING (ward) WHERE age > 3 GROUP BY kind"
    ),
    "SELECT COUNT(*) FROM visits, wards WHERE visits.ward = wards.ward": (
        "SELECT COUNT(*) FROM visits JOIN wards USING (ward)"
    ),
}


@pytest.mark.parametrize("question", SAME_QUESTIONS)
def test_other_spellings_of_a_question_make_the_same_question(question: str) -> None:
    tail = "BUDGET 1 EPSILON"
    assert parse(f"{question} {tail}") == parse(f"{SAME_QUESTIONS[question]} {tail}")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("day = CAST('2024-02-30' AS DATE)", "Invalid date"),
        ("day = 5::DATE", "Invalid date"),
        ("age = 'old'::INTEGER", "not a INTEGER"),
        ("age = 1::DECIMAL(3, 999)", "at most 60"),
        ("age = CAST(age AS TEXT)", "Casts of attributes are to"),
        ("age IS 3", "Expected NULL or TRUE"),
        ("(age = 3" + " OR age = 4" * 64 + ") IS TRUE", "at most 64 tests"),
    ],
)
def test_constants_and_tests_that_make_no_sense_are_refused(condition: str, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        parse_predicate(condition)


def test_a_table_after_a_comma_needs_an_equality_of_one_name() -> None:
    for where in ("", " WHERE visits.ward = wards.name", " WHERE visits.ward = wards.ward OR age > 3"):
        with pytest.raises(RequestError, match="joined on one key"):
            parse(f"SELECT COUNT(*) FROM visits, wards{where} ERROR 5")


def test_a_text_is_the_number_that_it_spells_where_it_is_compared_with_one() -> None:
    asked = resolve_names(parse("SELECT COUNT(*) FROM visits WHERE age > '40' AND age IN ('1', '2') ERROR 9"), SCHEMA)
    assert asked == parse("SELECT COUNT(*) FROM visits WHERE age > 40 AND age IN (1, 2) ERROR 9")
    kept = parse("SELECT COUNT(*) FROM visits WHERE age > 'forty' AND ward = '40' ERROR 9")
    assert resolve_names(kept, SCHEMA) == kept
