"""Questions that are put together by hand are checked and brought into the same form."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import RequestError
from siloquent.explore.spec import Query, parse
from siloquent.explore.spec.aggregates import Sum
from siloquent.explore.spec.predicate import And, Arithmetic, Call, Column, Compare, InList, Not, Or, Predicate, Value
from siloquent.explore.spec.promises import Accuracy, Spend
from siloquent.explore.spec.query import Cube, GroupBy, Having, Predicates, Ranges, Top

PROMISE = Accuracy(Decimal(5))
OLD = Compare(Column("age"), ">", Value(50))
WARD = GroupBy((Column("ward"),))


def test_a_constant_on_the_left_goes_to_the_right() -> None:
    assert Query("t", WARD, PROMISE, where=Compare(Value(50), "<", Column("age"))).where == OLD


@pytest.mark.parametrize("join", [And, Or])
def test_a_join_of_one_part_is_that_part(join: type[And] | type[Or]) -> None:
    assert Query("t", WARD, PROMISE, where=join((join((OLD,)),))).where == OLD


def test_whole_decimals_are_integers() -> None:
    assert Value(Decimal("5.0")) == Value(5)
    assert isinstance(Value(Decimal("5.0")).value, int)


def test_a_key_and_where_at_the_greatest_depth_may_be_copied() -> None:
    deep: Predicate = OLD
    for _ in range(63):
        deep = Not(deep)
    asked = Query("t", WARD, PROMISE, where=deep)
    assert Query("t", asked.workload, PROMISE, where=asked.where) == asked


def too_deep() -> Query:
    deep: Predicate = OLD
    for _ in range(64):
        deep = Not(deep)
    return Query("t", WARD, PROMISE, where=deep)


WRONG = {
    "nested too deep": too_deep,
    "no table": lambda: Query("", WARD, PROMISE),
    "a table with a line break": lambda: Query("a\nb", WARD, PROMISE),
    "a long name": lambda: Column("a" * 129),
    "nothing asked": lambda: Query("t", WARD, PROMISE, shows_values=False),
    "having and top": lambda: Query("t", WARD, PROMISE, having=Having(">", Decimal(5)), top=Top(3)),
    "a chosen cube with values": lambda: Query("t", Cube(("a",)), PROMISE, top=Top(3)),
    "a sum in percent": lambda: Query("t", WARD, Accuracy(Decimal(5), percent=True), aggregate=Sum("cost")),
    "an alias of nothing": lambda: Query("t", WARD, PROMISE, top=Top(3), shows_values=False, alias="n"),
    "no keys": lambda: GroupBy(()),
    "sixty-five keys": lambda: GroupBy(tuple(Column(f"a{i}") for i in range(65))),
    "a key without attribute": lambda: GroupBy((Value(3),)),
    "an unknown function": lambda: GroupBy((Call("cbrt", Column("a")),)),
    "no predicates": lambda: Predicates(()),
    "a comparison with NULL": lambda: Predicates((Compare(Column("a"), "=", Value(None)),)),
    "a comparison of constants": lambda: Predicates((Compare(Value(1), "=", Value(1)),)),
    "a sum of texts": lambda: Predicates((Compare(Arithmetic(Column("a"), "+", Value("b")), "=", Value(1)),)),
    "a list with NULL": lambda: InList(Column("a"), (None,)),
    "an empty list": lambda: InList(Column("a"), ()),
    "a mixed list": lambda: InList(Column("a"), (1, "a")),
    "a constant that is not a number": lambda: Value(Decimal("nan")),
    "an infinite constant": lambda: Value(Decimal("inf")),
    "a constant without end": lambda: Value(Decimal("1e999999")),
    "a float constant": lambda: Value(0.5),  # type: ignore[arg-type]
    "half a character": lambda: Value("\ud800"),
    "a moment with a zone": lambda: Value(datetime(2024, 1, 1, tzinfo=UTC)),
    "a threshold below": lambda: Having("<", Decimal(5)),  # type: ignore[arg-type]
    "an endless threshold": lambda: Having(">", Decimal("inf")),
    "no groups": lambda: Top(0),
    "too many groups": lambda: Top(100_001),
    "bins without end": lambda: Ranges("histogram", "a", Decimal(0), Decimal(1), Decimal("1e-9")),
    "bins of nothing": lambda: Ranges("prefix", "a", Decimal(1), Decimal(1), Decimal(1)),
    "an endless bound": lambda: Ranges("prefix", "a", Decimal("-inf"), Decimal(1), Decimal(1)),
    "a bound of too many digits": lambda: Ranges("prefix", "a", Decimal(0), Decimal(1), Decimal("0.1000000000001")),
    "an empty cube": lambda: Cube(()),
    "an error of zero": lambda: Accuracy(Decimal(0)),
    "an endless error": lambda: Accuracy(Decimal("nan")),
    "a sure answer": lambda: Accuracy(Decimal(5), beta=Fraction(0)),
    "an endless confidence": lambda: Accuracy(Decimal(5), beta=Fraction(1, 10**61)),
    "a price of zero": lambda: Spend(Decimal(0), "epsilon"),
    "a delta of one": lambda: Spend(Decimal(1), "epsilon", Decimal(1)),
    "a rho with delta": lambda: Spend(Decimal(1), "rho", Decimal("0.1")),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_value_that_exists_is_valid(what: str) -> None:
    with pytest.raises(RequestError):
        WRONG[what]()


def test_the_kind_follows_from_what_is_shown() -> None:
    kinds = {
        "SELECT ward, COUNT(*) FROM t GROUP BY ward ERROR 5": "wcq",
        "SELECT ward, COUNT(*) FROM t GROUP BY ward HAVING COUNT(*) > 5 ERROR 5": "wcq",
        "SELECT ward FROM t GROUP BY ward HAVING COUNT(*) > 5 ERROR 5": "icq",
        "SELECT ward FROM t GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 5 ERROR 5": "tcq",
    }
    assert {text: parse(text).kind for text in kinds} == kinds
