"""SQL texts and the questions that they ask."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec import format_canonical, parse, parse_sql, render
from siloquent.explore.spec.aggregates import Count, Sum
from siloquent.explore.spec.predicate import And, Call, Column, Compare, Value
from siloquent.explore.spec.presentation import Presentation, SortKey
from siloquent.explore.spec.promises import Accuracy, Spend
from siloquent.explore.spec.query import GroupBy, Having, Predicates, Query, Top

EDUCATION = GroupBy((Column("education"),))


def test_groups_with_their_counts_are_a_wcq() -> None:
    asked = parse_sql("SELECT education, COUNT(*) FROM adult GROUP BY education ERROR 2 PERCENT CONFIDENCE 0.9995")
    promise = Accuracy(Decimal(2), Fraction(1, 2000), percent=True)
    assert asked == Query("adult", EDUCATION, promise)
    assert asked.kind == "wcq"


def test_groups_above_a_threshold_are_an_icq() -> None:
    asked = parse_sql("SELECT education FROM adult GROUP BY education HAVING COUNT(*) > 1000 ERROR 300")
    having = Having(">", Decimal(1000))
    assert asked == Query("adult", EDUCATION, Accuracy(Decimal(300)), having=having, shows_values=False)
    assert asked.kind == "icq"


def test_the_largest_groups_are_a_tcq() -> None:
    asked = parse_sql("SELECT education FROM adult GROUP BY education ORDER BY COUNT(*) DESC LIMIT 3 ERROR 300")
    assert asked == Query("adult", EDUCATION, Accuracy(Decimal(300)), top=Top(3), shows_values=False)
    assert asked.kind == "tcq"


@pytest.mark.parametrize("choice", ["HAVING COUNT(*) > 1000", "ORDER BY COUNT(*) DESC LIMIT 3"])
def test_with_the_count_among_the_items_choosing_is_free(choice: str) -> None:
    asked = parse_sql(f"SELECT education, COUNT(*) FROM adult GROUP BY education {choice} ERROR 300")
    assert asked.kind == "wcq"
    assert asked.having or asked.top


def test_order_by_alone_means_the_smallest_as_sql_says() -> None:
    asked = parse_sql("SELECT education FROM adult GROUP BY education ORDER BY COUNT(*) LIMIT 3 ERROR 300")
    assert asked.top == Top(3, largest=False)


def test_without_group_by_every_row_is_one_part() -> None:
    asked = parse_sql("SELECT COUNT(*) FROM adult WHERE age > 30 ERROR 5")
    assert asked.workload == Predicates((And(()),))
    assert asked.where == Compare(Column("age"), ">", Value(30))


def test_items_come_in_any_order_and_keys_may_be_expressions() -> None:
    asked = parse_sql("SELECT COUNT(*), ward, year(day) FROM visits GROUP BY year(day), ward ERROR 5")
    assert asked.workload == GroupBy((Call("year", Column("day")), Column("ward")))


def test_an_aggregate_may_be_named_and_chosen_by_its_name() -> None:
    asked = parse_sql("SELECT ward, SUM(cost) AS total FROM visits GROUP BY ward HAVING total >= -5 ERROR 5000")
    assert (asked.aggregate, asked.alias, asked.having) == (Sum("cost"), "total", Having(">=", Decimal(-5)))


def test_a_threshold_may_stand_first() -> None:
    asked = parse_sql("SELECT ward FROM visits GROUP BY ward HAVING 1e3 <= COUNT(*) ERROR 5")
    assert asked.having == Having(">=", Decimal(1000))
    assert asked.aggregate == Count()


@pytest.mark.parametrize(
    ("tail", "promise"),
    [
        ("ERROR 5", Accuracy(Decimal(5))),
        ("ERROR .5 ROWS", Accuracy(Decimal("0.5"))),
        ("ERROR 1e-3 PERCENT", Accuracy(Decimal("0.001"), percent=True)),
        ("ERROR 5 CONFIDENCE 0.99 JOINT", Accuracy(Decimal(5), Fraction(1, 100), joint=True)),
        ("CONFIDENCE 2/3 ERROR 5", Accuracy(Decimal(5), Fraction(1, 3))),
        ("BUDGET 0.01 EPSILON", Spend(Decimal("0.01"), "epsilon")),
        ("BUDGET 0.01 EPSILON DELTA 1e-6", Spend(Decimal("0.01"), "epsilon", Decimal("1e-6"))),
        ("BUDGET 2e-5 RHO CONFIDENCE .5", Spend(Decimal("0.00002"), "rho", beta=Fraction(1, 2))),
    ],
)
def test_the_tail_says_how_exact_or_how_dear(tail: str, promise: Accuracy | Spend) -> None:
    assert parse_sql(f"SELECT COUNT(*) FROM visits {tail}").promise == promise


def test_confidence_becomes_beta_exactly() -> None:
    asked = parse_sql("SELECT COUNT(*) FROM visits ERROR 5 CONFIDENCE 0.1")
    assert asked.promise.beta == Fraction(9, 10)  # in floats 1 - 0.1 is only near it


def test_reuse_and_preference_stand_in_any_order() -> None:
    one = parse_sql("SELECT COUNT(*) FROM visits ERROR 5 CONFIDENCE 0.9 REUSE NONE PREFER OPTIMISTIC")
    other = parse_sql("SELECT COUNT(*) FROM visits PREFER OPTIMISTIC REUSE NONE CONFIDENCE 0.9 ERROR 5;")
    assert one == other
    assert (one.reuse, one.optimistic) == ("none", True)


def test_explain_privacy_asks_for_the_price() -> None:
    assert parse("EXPLAIN PRIVACY SELECT COUNT(*) FROM visits ERROR 5").explain
    assert not parse("SELECT COUNT(*) FROM visits ERROR 5").explain


def test_words_have_no_case_and_names_do() -> None:
    asked = parse_sql('select count(*) from "Visits" where "Age" > 3 error 5')
    assert (asked.table, asked.where) == ("Visits", Compare(Column("Age"), ">", Value(3)))


def test_a_name_in_quotes_may_be_any_word() -> None:
    asked = parse_sql('SELECT "from", COUNT(*) FROM "select" GROUP BY "from" ERROR 5')
    assert (asked.table, asked.workload) == ("select", GroupBy((Column("from"),)))


def test_words_that_begin_no_clause_are_names_without_quotes() -> None:
    asked = parse_sql("SELECT day, COUNT(*) FROM bin WHERE count > 3 AND date LIKE 'A%' GROUP BY day ERROR 5")
    assert (asked.table, asked.workload) == ("bin", GroupBy((Column("day"),)))


def test_the_table_may_stand_before_its_attributes() -> None:
    plain = parse_sql("SELECT ward, SUM(cost) FROM visits WHERE age > 3 GROUP BY ward ERROR 5")
    asked = "SELECT visits.ward, SUM(visits.cost) FROM visits WHERE visits.age > 3 GROUP BY visits.ward ERROR 5"
    assert parse_sql(asked) == plain


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v.ward, SUM(v.cost) FROM visits v WHERE v.age > 3 GROUP BY v.ward ERROR 5",
        "SELECT V.ward, SUM(visits.cost) FROM db.main.visits AS v WHERE v.age > 3 GROUP BY 1 ERROR 5",
        "SELECT `ward`, SUM([cost]) FROM [visits] WHERE `age` > 3 GROUP BY ALL ERROR 5",
        "SELECT main.visits.ward, SUM(cost) FROM main.visits WHERE age > 3 GROUP BY ward ERROR 5",
        "SELECT DISTINCT ward, SUM(cost) FROM visits WHERE age > 3 GROUP BY ward ERROR 5",
        "SELECT ward AS ward, SUM(cost) FROM visits WHERE age > 3 GROUP BY ward ERROR 5",
    ],
)
def test_spellings_of_names_are_one_question(text: str) -> None:
    assert parse_sql(text) == parse_sql("SELECT ward, SUM(cost) FROM visits WHERE age > 3 GROUP BY ward ERROR 5")


def test_keys_are_named_sorted_and_limited() -> None:
    asked = parse_sql(
        "SELECT ward AS w, COUNT(*) n FROM visits GROUP BY w ORDER BY 2 DESC, w NULLS FIRST LIMIT 3 ERROR 5"
    )
    assert asked.presentation == Presentation(("w",), (SortKey(1, True), SortKey(0, False, True)), 3)
    assert (asked.alias, asked.workload, asked.top) == ("n", GroupBy((Column("ward"),)), None)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TOP 3 ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC ERROR 5",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 3 ERROR 5",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC FETCH NEXT 3 ROWS ONLY ERROR 5",
    ],
)
def test_the_largest_groups_are_one_question_however_they_are_limited(text: str) -> None:
    asked = parse_sql(text)
    assert asked == parse_sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 3 ERROR 5")
    assert (asked.top, asked.presentation) == (Top(3), None)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("COUNT(*) FILTER (WHERE age > 3)", "SELECT COUNT(*) FROM visits WHERE age > 3 ERROR 5"),
        ("COUNT_IF(age > 3)", "SELECT COUNT(*) FROM visits WHERE age > 3 ERROR 5"),
        ("SUM(CASE WHEN age > 3 THEN 1 ELSE 0 END)", "SELECT COUNT(*) FROM visits WHERE age > 3 ERROR 5"),
        ("COUNT(CASE WHEN age > 3 THEN 1 END)", "SELECT COUNT(*) FROM visits WHERE age > 3 ERROR 5"),
        ("SUM(CASE sex WHEN 'f' THEN 1 ELSE 0 END)", "SELECT COUNT(*) FROM visits WHERE sex = 'f' ERROR 5"),
        ("SUM(CASE WHEN age > 3 THEN cost ELSE 0 END)", "SELECT SUM(cost) FROM visits WHERE age > 3 ERROR 5"),
        ("SUM(v.cost) FILTER (WHERE v.age > 3)", "SELECT SUM(cost) FROM visits WHERE age > 3 ERROR 5"),
        ("COUNT(ward)", "SELECT COUNT(*) FROM visits WHERE ward IS NOT NULL ERROR 5"),
        ("COUNT(1)", "SELECT COUNT(*) FROM visits ERROR 5"),
        ("SUM(1)", "SELECT COUNT(*) FROM visits ERROR 5"),
    ],
)
def test_a_test_of_the_only_aggregate_is_a_condition(written: str, plain: str) -> None:
    asked = parse_sql(f"SELECT {written} FROM visits v ERROR 5")
    assert asked == parse_sql(plain)
    assert format_canonical(asked) == format_canonical(parse_sql(plain))


def test_aggregates_with_different_tests_keep_them() -> None:
    asked = parse_sql("SELECT COUNT(*), COUNT(ward), SUM(cost) FILTER (WHERE age > 3) FROM visits ERROR 5, 5, 50")
    assert [item.column for item in asked.items] == ["count", "count_ward", "sum_cost_if"]
    assert parse_sql(render(asked)) == asked


def test_the_order_of_one_row_changes_nothing() -> None:
    assert parse_sql("SELECT COUNT(*) FROM visits ORDER BY 1 LIMIT 1 ERROR 5") == parse_sql(
        "SELECT COUNT(*) FROM visits ERROR 5"
    )


def test_a_join_on_equal_names_is_one_with_using() -> None:
    one = "SELECT w.kind, COUNT(*) FROM visits v JOIN wards AS w ON v.ward = w.ward GROUP BY w.kind ERROR 5"
    assert parse_sql(one) == parse_sql(
        "SELECT kind, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY kind ERROR 5"
    )


def test_comments_and_line_breaks_are_space() -> None:
    text = "SELECT COUNT(*) -- how many\nFROM visits /* of\n them */ ERROR 5"
    assert parse_sql(text) == parse_sql("SELECT COUNT(*) FROM visits ERROR 5")


@pytest.mark.parametrize(
    ("text", "position", "expected", "fix"),
    [
        ("SELECT COUNT(*) FROM visits ERROR 5 CONFIDNCE 0.9", 36, "CONFIDENCE", "write CONFIDENCE"),
        ("SELECT COUNT(*) FORM visits ERROR 5", 16, "FROM", "write FROM"),
        ("SELCT COUNT(*) FROM visits ERROR 5", 0, "SELECT", "write SELECT"),
        ("SELECT COUNT(*) FROM visits WEHRE age > 3 ERROR 5", 28, "WHERE", "write WHERE"),
        ("SELECT COUNT(*) FROM visits ERROR 5 REUSE SIMULTANEUS", 42, "SIMULTANEOUS", "write SIMULTANEOUS"),
        ("SELECT COUNT(*) FROM visits ERROR five", 34, "a number", ""),
        ("SELECT COUNT(*) FROM WHERE age > 3 ERROR 5", 21, "the name of a table", 'write "WHERE" in double quotes'),
        ("SELECT COUNT(*) FROM visits WHERE age > ERROR 5", 40, "the name of an attribute", "double quotes"),
        ("SELECT ward, COUNT(*) FROM visits ERROR 5", 7, "GROUP BY", "GROUP BY ward"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY sex ERROR 5", 7, "", "GROUP BY sex"),
        ("SELECT COUNT(*) FROM visits", 27, "ERROR or BUDGET", "ERROR 200"),
        ("SELECT ward FROM visits GROUP BY ward ERROR 5", 38, "HAVING or ORDER BY", ""),
    ],
)
def test_an_unreadable_text_says_where_and_what_was_expected(text: str, position: int, expected: str, fix: str) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse(text)
    assert refused.value.position == position
    assert expected in refused.value.expected
    assert fix in refused.value.fix


def test_a_clause_in_the_wrong_place_is_told_the_order() -> None:
    with pytest.raises(SyntaxProblem, match="FROM, WHERE, GROUP BY, HAVING, ORDER BY"):
        parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward WHERE age > 3 ERROR 5")
