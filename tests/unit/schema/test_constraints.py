"""Constraints are read as comparisons, or refused at the character that does not fit."""

from __future__ import annotations

from decimal import Decimal

import pytest

from siloquent.errors import SchemaError
from siloquent.schema import AttributeRef, Comparison, DenialConstraint, FunctionalDependency, Key, parse_comparisons
from siloquent.schema.constraints import describe_constraint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t1.age > t2.age", Comparison(AttributeRef(1, "age"), ">", AttributeRef(2, "age"))),
        ("age >= 18", Comparison(AttributeRef(1, "age"), ">=", Decimal(18))),
        ("18 <= age", Comparison(AttributeRef(1, "age"), ">=", Decimal(18))),
        ("-1.5 < t2.w", Comparison(AttributeRef(2, "w"), ">", Decimal("-1.5"))),
        ("ward <> 'it''s'", Comparison(AttributeRef(1, "ward"), "!=", "it's")),
        ("T1.ward == 'A'", Comparison(AttributeRef(1, "ward"), "=", "A")),
        ("smoker = TRUE", Comparison(AttributeRef(1, "smoker"), "=", True)),
        ("t2.\"two words\" = ''", Comparison(AttributeRef(2, "two words"), "=", "")),
        ('"and" = 1', Comparison(AttributeRef(1, "and"), "=", Decimal(1))),
    ],
)
def test_a_comparison_is_read_from_either_side(text: str, expected: Comparison) -> None:
    assert parse_comparisons(text, default_row=1) == (expected,)


@pytest.mark.parametrize(
    "text",
    ['t1."say hi" <= t2."say hi"', "t1.ward != 'it''s'", "t1.smoker = true", "t1.age > 100000"],
)
def test_a_comparison_is_said_as_it_can_be_read_again(text: str) -> None:
    (found,) = parse_comparisons(text)
    assert str(found) == text
    assert text in describe_constraint(DenialConstraint((found,)))


def test_names_with_blanks_are_quoted_in_every_constraint() -> None:
    assert (
        describe_constraint(FunctionalDependency(("day of stay", "ward"), "say hi"))
        == '"day of stay", ward -> "say hi"'
    )
    assert describe_constraint(Key(("day of stay",))) == 'key "day of stay"'


def test_comparisons_are_joined_by_and() -> None:
    found = parse_comparisons("t1.a > t2.a AND t1.b < 80 and t2.c = 'and'")
    assert [str(c) for c in found] == ["t1.a > t2.a", "t1.b < 80", "t2.c = 'and'"]
    assert [c.attributes for c in found] == [("a", "a"), ("b",), ("c",)]


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("", 0, "an attribute"),
        ("   ", 3, "an attribute"),
        ("t1.a", 4, "one of ="),
        ("t1.a >", 6, "an attribute or constant"),
        ("t1.a > > 2", 6, "an attribute or constant"),
        ("t1.a > 2 or t1.b < 3", 8, "'and' between comparisons"),
        ("t1.a > 2 and", 12, "an attribute"),
        ("t1.a ; 2", 4, "an attribute, a comparison or a constant"),
        ("1 < 2", 0, "an attribute on one side"),
        ("a > 2", 0, "t1.a or t2.a"),
        ("t1.a = 'open", 6, "an attribute, a comparison or a constant"),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_stands(text: str, at: int, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_comparisons(text)
    assert f"at character {at}: expected {expected}" in str(caught.value)


def test_long_and_many_comparisons_are_refused() -> None:
    with pytest.raises(SchemaError, match="at most 8 comparisons, not 9"):
        parse_comparisons(" and ".join(["a = 1"] * 9), default_row=1)
    with pytest.raises(SchemaError, match=r"at most 10,000 characters"):
        parse_comparisons("a" * 10_001, default_row=1)


def test_a_third_row_is_no_row() -> None:
    with pytest.raises(SchemaError):
        parse_comparisons("t3.a = 1")


@pytest.mark.parametrize(
    ("text", "binary"), [("a > 1", False), ("t1.a > t1.b", False), ("t1.a = t2.a", True), ("t2.a = 1", True)]
)
def test_a_constraint_on_two_rows_is_known(text: str, binary: bool) -> None:
    constraint = DenialConstraint(parse_comparisons(text, default_row=1))
    assert constraint.is_binary is binary
    assert constraint.attributes[0] == "a"
