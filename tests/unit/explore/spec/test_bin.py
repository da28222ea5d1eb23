"""BIN texts and the questions that they ask."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec import parse, parse_bin, parse_predicate
from siloquent.explore.spec.aggregates import Sum
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import Cube, Having, Predicates, Query, Ranges, Top


def test_predicates_are_asked_in_their_order() -> None:
    men, women = "age > 50 AND sex = 'Male'", "age > 50 AND sex = 'Female'"
    asked = parse_bin(f"BIN adult ON COUNT(*) WHERE W = {{{men}, {women}}} ERROR 200 CONFIDENCE 0.99")
    workload = Predicates((parse_predicate(men), parse_predicate(women)))
    assert asked == Query("adult", workload, Accuracy(Decimal(200), Fraction(1, 100)))


def test_a_threshold_makes_it_an_icq() -> None:
    asked = parse_bin("BIN adult ON COUNT(*) WHERE W = PREFIX(capgain, 0, 5000, 50) HAVING COUNT(*) > 3256 ERROR 651")
    assert asked.workload == Ranges("prefix", "capgain", Decimal(0), Decimal(5000), Decimal(50))
    assert (asked.kind, asked.having) == ("icq", Having(">", Decimal(3256)))


def test_the_largest_come_without_saying_desc_as_the_paper_writes_it() -> None:
    asked = parse_bin("BIN adult ON SUM(capgain) WHERE W = CUBE(sex, race) ORDER BY SUM(capgain) LIMIT 3 ERROR 5")
    assert (asked.kind, asked.workload, asked.aggregate) == ("tcq", Cube(("sex", "race")), Sum("capgain"))
    assert asked.top == Top(3, largest=True)


def test_the_smallest_are_asked_for_with_asc() -> None:
    asked = parse_bin("BIN adult ON COUNT(*) WHERE W = CUBE(sex) ORDER BY COUNT(*) ASC LIMIT 1 ERROR 5")
    assert asked.top == Top(1, largest=False)


def test_bounds_may_be_negative_and_fine() -> None:
    asked = parse_bin("BIN t ON COUNT(*) WHERE W = HISTOGRAM(x, -1.5, +1e1, 2.5e-1) ERROR 5")
    assert asked.workload == Ranges("histogram", "x", Decimal("-1.5"), Decimal(10), Decimal("0.25"))


def test_a_predicate_behind_the_workload_joins_every_part() -> None:
    asked = parse_bin("BIN t ON COUNT(*) WHERE W = PREFIX(age, 0, 100, 10) AND ward = 'A' AND NOT smoker ERROR 5")
    assert asked.where == parse_predicate("ward = 'A' AND NOT smoker")


def test_an_or_behind_the_workload_needs_parentheses() -> None:
    frame = "BIN t ON COUNT(*) WHERE W = CUBE(ward) AND {} ERROR 5"
    with pytest.raises(SyntaxProblem, match="AND binds more tightly"):
        parse_bin(frame.format("age > 3 OR smoker"))
    assert parse_bin(frame.format("(age > 3 OR smoker)")).where == parse_predicate("age > 3 OR smoker")


def test_values_may_be_named() -> None:
    assert parse("BIN t ON COUNT(*) AS n WHERE W = CUBE(ward) ERROR 5").alias == "n"


def test_a_mistyped_shape_is_recognised() -> None:
    with pytest.raises(SyntaxProblem, match="Did you mean HISTOGRAM instead of 'HISTOGRM'"):
        parse("BIN t ON COUNT(*) WHERE W = HISTOGRM(age, 0, 100, 10) ERROR 5")


def test_another_aggregate_than_the_one_asked_for_is_refused() -> None:
    with pytest.raises(SyntaxProblem, match="by the aggregate after ON"):
        parse("BIN t ON COUNT(*) WHERE W = CUBE(ward) HAVING SUM(cost) > 5 ERROR 5")
