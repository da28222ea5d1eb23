"""The same question in other words."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import UnknownName
from siloquent.explore.spec import format_canonical, parse
from siloquent.explore.spec.name_resolution import correct_name, resolve_names
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
