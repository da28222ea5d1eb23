"""The Python door ends in the same questions as the two text doors."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import RequestError
from siloquent.explore.spec import Question, count, distinct_of, format_canonical, parse, sum_of

SAME = {
    "SELECT COUNT(*) FROM adult ERROR 200": count("adult").within(rows=200),
    "SELECT sex, COUNT(*) FROM adult WHERE age > 30 GROUP BY sex ERROR 200 CONFIDENCE 0.999": count("adult")
    .by("sex")
    .where("age > 30")
    .within(rows=200, confidence="0.999"),
    "SELECT year(day), ward, COUNT(*) AS n FROM visits GROUP BY year(day), ward ERROR 2 PERCENT": count("visits")
    .by("year(day)", "ward")
    .named("n")
    .within(percent=2),
    "SELECT ward, SUM(cost) FROM visits GROUP BY ward ERROR 5000": sum_of("visits", "cost")
    .by("ward")
    .within(units=5000),
    "SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 1000 ERROR 5 CONFIDENCE 0.99 JOINT": count("visits")
    .by("ward")
    .having(over=1000)
    .within(rows=5, confidence=0.99, joint=True),
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) >= 1.5 ERROR 5": count("visits")
    .by("ward")
    .having(at_least=1.5, values=True)
    .within(rows=5),
    "SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 5": count("visits")
    .by("ward")
    .top(3)
    .within(rows=5),
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) LIMIT 3 ERROR 5": count("visits")
    .by("ward")
    .bottom(3, values=True)
    .within(rows=5),
    "BIN t ON COUNT(*) WHERE W = {age > 50, age <= 50 OR smoker} ERROR 5": count("t")
    .over(["age > 50", "age <= 50 OR smoker"])
    .within(rows=5),
    "BIN t ON COUNT(*) WHERE W = HISTOGRAM(cost, 0, 1, 0.1) AND age > 3 AND smoker BUDGET 0.01 EPSILON": count("t")
    .histogram("cost", 0, 1, 0.1)
    .where("age > 3")
    .where("smoker")
    .spend(epsilon="0.01"),
    "BIN t ON COUNT(*) WHERE W = PREFIX(cost, -5, 5, 1) BUDGET 2e-5 RHO REUSE NONE PREFER OPTIMISTIC": count("t")
    .prefix("cost", "-5", Decimal(5), 1)
    .spend(rho=2e-5)
    .reuse("none")
    .optimistic(),
    "BIN t ON COUNT(*) WHERE W = CUBE(a, b) BUDGET 1 EPSILON DELTA 0.000001": count("t")
    .cube("a", "b")
    .spend(epsilon=1, delta="1e-6"),
}


@pytest.mark.parametrize("text", SAME)
def test_both_doors_make_one_question_with_one_digest(text: str) -> None:
    built = SAME[text].query()
    assert built == parse(text)
    assert format_canonical(built) == format_canonical(parse(text))


def test_a_step_leaves_the_question_before_it_as_it_was() -> None:
    asked = count("visits").within(rows=5)
    asked.by("ward")
    assert asked == count("visits").within(rows=5)


def test_a_float_is_what_python_prints() -> None:
    assert count("t").within(rows=0.1, confidence=0.9).query().promise.beta == Fraction(1, 10)


def test_a_fraction_is_a_confidence() -> None:
    assert count("t").within(rows=5, confidence=Fraction(2, 3)).query().promise.beta == Fraction(1, 3)


WRONG = {
    "two error bounds": lambda: count("t").within(rows=5, percent=5),
    "no error bound": lambda: count("t").within(),
    "a count in units": lambda: count("t").within(units=5),
    "a sum in rows": lambda: sum_of("t", "cost").within(rows=5),
    "an error of zero": lambda: count("t").within(rows=0),
    "an error that is no number": lambda: count("t").within(rows="many"),
    "an infinite error": lambda: count("t").within(rows=float("inf")),
    "an error that is not a number": lambda: count("t").within(rows=float("nan")),
    "a truth for a number": lambda: count("t").within(rows=True),
    "an endless exponent": lambda: count("t").within(rows="1e999999999"),
    "a huge integer": lambda: count("t").within(rows=10**5_000),
    "a sure answer": lambda: count("t").within(rows=5, confidence=1),
    "two prices": lambda: count("t").spend(epsilon=1, rho=1),
    "no price": lambda: count("t").spend(),
    "a rho with delta": lambda: count("t").spend(rho=1, delta=0.1),
    "two workloads": lambda: count("t").by("a").by("b"),
    "two choices": lambda: count("t").by("a").top(3).having(over=5),
    "no threshold": lambda: count("t").by("a").having(),
    "half a group": lambda: count("t").by("a").top(1.5),  # type: ignore[arg-type]
    "no groups at all": lambda: count("t").by("a").top(0),
    "a condition that is none": lambda: count("t").where("age + "),
    "a key twice": lambda: count("t").by("a", "a"),
    "no key": lambda: count("t").by(),
    "an empty workload": lambda: count("t").over([]),
    "a table in front": lambda: count("t").by("t.a"),
    "values of a chosen BIN": lambda: count("t").cube("a").top(3, values=True).within(rows=5).query(),
    "a name for nothing": lambda: count("t").by("a").top(3).named("n").within(rows=5).query(),
    "a table without name": lambda: count("").within(rows=5).query(),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_step_is_refused_in_words(what: str) -> None:
    with pytest.raises(RequestError):
        WRONG[what]()


def test_a_question_is_a_plain_value() -> None:
    assert isinstance(count("t"), Question)
    assert hash(count("t").by("a")) == hash(count("t").by("a"))


def test_a_condition_that_is_no_text_is_refused_with_how_to_write_it() -> None:
    with pytest.raises(RequestError) as refused:
        count("visits").where(lambda row: row.age > 30)  # type: ignore[arg-type]
    assert refused.value.fix == '.where("age > 30")'


def test_order_limit_and_computed_values_are_those_of_sql() -> None:
    asked = count("visits").also("SUM(cost)", units=5000).by("ward").within(rows=200)
    text = "SELECT ward, COUNT(*), SUM(cost) FROM visits GROUP BY ward {} ERROR 200, 5000"
    assert asked.sorted("ward DESC").query() == parse(text.format("ORDER BY ward DESC"))
    found = asked.sorted("COUNT(*) DESC", "ward").limit(3, skip=1).query()
    assert found == parse(text.format("ORDER BY COUNT(*) DESC, ward LIMIT 3 OFFSET 1"))
    mean = "SELECT ward, SUM(cost) / COUNT(*) AS mean FROM visits GROUP BY ward ORDER BY mean LIMIT 3 ERROR 5000, 200"
    shown = asked.showing(mean="SUM(cost) / COUNT(*)")
    assert shown.sorted("mean").limit(3).query() == parse(mean)
    for refused in (asked.sorted("AVG(cost)"), asked.showing(n="COUNT(*)"), asked.showing(x="AVG(cost)")):
        with pytest.raises(RequestError, match="also"):
            refused.query()


def test_distinct_users_are_counted_in_some_groups() -> None:
    found = distinct_of("visits", "patient").by("ward").at_most(groups=2).within(units=9).query()
    assert found == parse(
        "SELECT ward, COUNT(DISTINCT patient) FROM visits GROUP BY ward ERROR 9 AT MOST 2 GROUPS EACH"
    )
