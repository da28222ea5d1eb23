"""Questions whose reading changed are other questions; all others keep the identity that older ledgers hold."""

from __future__ import annotations

import pytest

from siloquent.explore.plan.relations.public_joins import build_canonical_request
from siloquent.explore.plan.reuse.plans import list_question_digests
from siloquent.explore.plan.rules import EXACT, list_reading_rules
from siloquent.explore.spec import format_canonical, parse
from unit.explore.plan.tables import planned, table

COUNT = "SELECT COUNT(*) FROM visits WHERE {} ERROR 50"


@pytest.mark.parametrize(
    "condition",
    [
        "cost = 20.5",
        "abs(cost) <= 20.5",
        "round(cost) != 7",
        "age + 1 > 2.5",
        "age % 10 IN (1, 2)",
        "cost > 0.1234567890123456789",
        "abs(age) > 3 AND age < 7.5 AND ward = 'A'",
    ],
)
def test_questions_without_computed_fractions_are_what_they_were(condition: str) -> None:
    query = parse(COUNT.format(condition))
    assert list_reading_rules(query, table()) == ()
    assert build_canonical_request(query, table()) == (format_canonical(query),)


@pytest.mark.parametrize(
    "condition",
    [
        "age = 0.1 + 0.2",
        "cost - 1 > 3",
        "abs(age * 0.1) > 3",
        "ward = 'A' OR NOT -cost = 3",
        "age % 0.5 IN (0, 1)",
        "abs(cost) <= 0.1234567890123456789",
        "abs(age) IN (1, 9007199254740993)",
    ],
)
def test_computed_fractions_are_another_question(condition: str) -> None:
    query = parse(COUNT.format(condition))
    assert list_reading_rules(query, table()) == (EXACT,)
    assert build_canonical_request(query, table()) == (format_canonical(query), EXACT)


def test_a_key_that_computes_with_fractions_is_another_question() -> None:
    assert list_reading_rules(
        parse("SELECT age // 0.5, COUNT(*) FROM visits GROUP BY age // 0.5 ERROR 50"), table()
    ) == (EXACT,)


@pytest.mark.parametrize(
    ("text", "digest", "same"),
    [
        (
            COUNT.format("cost > 0.5 AND age + 1 > 2.5"),
            "a0a549c57413c8bc2824d68813f732aea1058484c587589377bdf7d263fd5b71",
            True,
        ),
        (
            "SELECT age // 10, COUNT(*) FROM visits WHERE abs(cost) <= 20.5 AND round(cost) != 7 "
            "GROUP BY age // 10 ERROR 50",
            "d10ff607642c189d0a014d950081c4ac921cba3bf8b60c325cd2b082700bbbe1",
            True,
        ),
        (COUNT.format("cost + 0.1 > 0.3"), "9b7fce71b8638161796b820dc84ba1186cc86d636e55862aa5a1e1c399adbc0f", False),
    ],
)
def test_repeats_are_known_by_the_digests_of_older_ledgers_only_where_the_reading_is_the_same(
    text: str, digest: str, same: bool
) -> None:
    assert (digest in list_question_digests(planned(text))) is same
