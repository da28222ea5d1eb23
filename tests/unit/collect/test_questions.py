"""SQL over services: what is understood, and what is refused before anything is read."""

from __future__ import annotations

import numpy as np
import pytest

from siloquent.collect import ServiceColumn, parse_query, parse_spec
from siloquent.errors import RequestError, SiloquentError, SyntaxProblem
from unit.collect.shops import ORDERS, PROFILE, text

SPEC = parse_spec(text(PROFILE, ORDERS))
AGE, REGION, AMOUNT = (
    ServiceColumn("profile", "age"),
    ServiceColumn("profile", "region"),
    ServiceColumn("orders", "amount"),
)
AGES, REGIONS = np.arange(25), np.array(["a", "b", "c", "(other)", None], dtype=object)


def rows_in(sql: str) -> np.ndarray:
    """How often each combination of age and region is counted by the condition."""
    query = parse_query(f"SELECT COUNT(*) FROM profile WHERE {sql}", SPEC)
    found = np.zeros((25, 5), dtype=int)
    for box in query.where:
        age, region = box.masks.get(AGE, np.ones(25, bool)), box.masks.get(REGION, np.ones(5, bool))
        found += box.sign * np.outer(age, region).astype(int)
    return found


def truth(condition: object) -> np.ndarray:
    return np.broadcast_to(np.asarray(condition), (25, 5)).astype(int)


A, R = AGES[:, None], REGIONS[None, :]
KNOWN = np.array([[True, True, True, True, False]])  # NULL makes no comparison true
CONDITIONS = {
    "age BETWEEN 3 AND 7": (A >= 3) & (A <= 7),
    "age > 7 AND age <= 9": (A > 7) & (A <= 9),
    "7 < age": A > 7,
    "age <> 3": A != 3,
    "age = 3.5": A < 0,
    "region = 'b'": R == "b",
    "region <> 'b'": (R != "b") & KNOWN,
    "region IN ('a', 'c')": (R == "a") | (R == "c"),
    "NOT region IN ('a', 'c')": (R != "a") & (R != "c") & KNOWN,
    "region IS NULL": ~KNOWN,
    "region IS NOT NULL": KNOWN,
    "age < 5 OR region = 'a'": (A < 5) | (R == "a"),
    "NOT (age < 5 OR region = 'a')": (A >= 5) & (R != "a") & KNOWN,
    "NOT (age < 5 AND region = 'a')": (A >= 5) | ((R != "a") & KNOWN),
    "age < 5 OR age > 20 OR region = 'a' AND age = 10": (A < 5) | (A > 20) | ((R == "a") & (A == 10)),
    "(age < 5 OR region = 'b') AND (age > 2 OR region = 'c')": ((A < 5) | (R == "b")) & ((A > 2) | (R == "c")),
    "profile.age < 5": A < 5,
    "AGE < 5": A < 5,
}


@pytest.mark.parametrize(("sql", "wanted"), CONDITIONS.items(), ids=CONDITIONS)
def test_a_condition_counts_every_row_as_often_as_sql_does(sql: str, wanted: np.ndarray) -> None:
    assert (rows_in(sql) == truth(wanted)).all()


def test_aggregates_groups_and_joins_are_read() -> None:
    query = parse_query(
        "select region, count(*) as n, avg(amount), sum(amount) from orders join profile using (user) group by region",
        SPEC,
    )
    assert query.services == ("orders", "profile")
    assert [str(one) for one in query.aggregates] == ["count", "avg_amount", "sum_amount"]
    assert query.group_by == (REGION,)
    assert query.list_columns() == [AMOUNT, REGION]


REFUSED = {
    "SELECT 1": "FROM must name a service",
    "SELECT COUNT(*) FROM order": "reserved|Did you mean|SQL|Expected",
    "SELECT COUNT(*) FROM shops": "No service named 'shops'",
    "SELECT COUNT(*) FROM orders WHERE amuont > 3": "Did you mean 'amount'",
    "SELECT COUNT(*) FROM orders WHERE age > 3": "No attribute named 'age'",
    "SELECT COUNT(*) FROM orders JOIN profile ON orders.user = profile.user": "only be joined on their user",
    "SELECT COUNT(*) FROM orders LEFT JOIN profile USING (user)": "only be joined on their user",
    "SELECT COUNT(*) FROM orders JOIN profile USING (age)": "only be joined on their user",
    "SELECT COUNT(*) FROM orders JOIN orders USING (user)": "reveal how many rows a user has",
    "SELECT user, COUNT(*) FROM orders GROUP BY user": "cannot be selected or used in a condition",
    "SELECT COUNT(*) FROM orders WHERE user = 3": "cannot be selected or used in a condition",
    "SELECT COUNT(DISTINCT amount) FROM orders": "COUNT takes only",
    "SELECT MAX(amount) FROM orders": "not COUNT",
    "SELECT SUM(gift) FROM orders": "used in conditions, but not summed",
    "SELECT AVG(age) FROM profile": "used in conditions, but not summed",
    "SELECT COUNT(*) FROM orders WHERE amount BETWEEN 7 AND 3": "holds nothing",
    "SELECT COUNT(*) FROM orders WHERE amount LIKE '3%'": "not a supported condition",
    "SELECT COUNT(*) FROM orders WHERE amount = 'three'": "is not a value of 'amount'",
    "SELECT COUNT(*) FROM profile WHERE region > 'a'": "has no order",
    "SELECT COUNT(*) FROM profile WHERE region = 'z'": "No value of region",
    "SELECT COUNT(*) FROM profile WHERE age IS NULL": "no cell for NULL",
    "SELECT COUNT(*) FROM orders WHERE amount IN (SELECT amount FROM orders)": "not a supported condition",
    "SELECT COUNT(*) FROM orders LIMIT 3": "not support LIMIT",
    "SELECT COUNT(*) FROM orders HAVING COUNT(*) > 3": "not support HAVING",
    "SELECT region FROM profile": "not in GROUP BY|must select a COUNT",
    "SELECT COUNT(*) FROM (SELECT * FROM orders)": "FROM must name a service",
    "DROP TABLE orders": "single SELECT",
    "SELECT COUNT(*) FROM orders; SELECT 1": "single SELECT",
    "": "single SELECT|SQL",
    "SELECT COUNT(* FROM orders": "Expected|SQL",
}


@pytest.mark.parametrize(("sql", "said"), REFUSED.items(), ids=REFUSED)
def test_what_no_collection_answers_is_refused(sql: str, said: str) -> None:
    with pytest.raises(SiloquentError, match=said) as refused:
        parse_query(sql, SPEC)
    assert refused.value.exit_status == 2


def test_conditions_that_explode_are_refused() -> None:
    parts = " AND ".join(f"(age = {i} OR region = 'a' OR age > 20 AND region = 'b')" for i in range(9))
    with pytest.raises(RequestError, match="the limit is 64 after"):
        parse_query(f"SELECT COUNT(*) FROM profile WHERE {parts}", SPEC)


def test_deep_nesting_is_refused_and_not_followed() -> None:
    with pytest.raises(SyntaxProblem):
        parse_query(f"SELECT COUNT(*) FROM profile WHERE {'(' * 200}age = 1{')' * 200}", SPEC)
    with pytest.raises(SyntaxProblem, match="64 kB"):
        parse_query("SELECT " + "x" * 70_000, SPEC)
