"""The text behind digests: old ledgers hold its hashes, so it may never change."""

from __future__ import annotations

import pytest

from siloquent.explore.spec import format_canonical, parse

WRITTEN = {
    "SELECT ward, COUNT(*) FROM visits WHERE age > 30 GROUP BY ward ERROR 200": (
        '{"aggregate":{"is":"count"},"alias":"","explain":false,"having":null,"is":"query","optimistic":false,'
        '"promise":{"beta":"1/2000","error":"200","is":"accuracy","joint":false,"percent":false},"reuse":"any",'
        '"shows_values":true,"table":"visits","top":null,"where":{"is":"compare","left":{"is":"column","name":"age"},'
        '"op":">","right":{"is":"number","value":"30"}},"workload":{"is":"groupby","keys":[{"is":"column","name":"ward"}]}}'
    ),
    "BIN t ON SUM(cost) WHERE W = PREFIX(age, 0, 1, 0.10) ORDER BY SUM(cost) LIMIT 2 BUDGET 1 EPSILON DELTA 1e-6": (
        '{"aggregate":{"attribute":"cost","is":"sum"},"alias":"","explain":false,"having":null,"is":"query",'
        '"optimistic":false,"promise":{"amount":"1","beta":"1/2000","currency":"epsilon","delta":"0.000001","is":"spend",'
        '"joint":false},"reuse":"any","shows_values":false,"table":"t","top":{"is":"top","k":2,"largest":true},'
        '"where":null,"workload":{"attribute":"age","hi":"1","is":"ranges","lo":"0","shape":"prefix","width":"0.1"}}'
    ),
    "BIN t ON COUNT(*) WHERE W = {NOT a LIKE 'x%', b IS NULL OR abs(c - 1) IN (TRUE)} HAVING COUNT(*) > 5 ERROR 5": (
        '{"aggregate":{"is":"count"},"alias":"","explain":false,"having":{"is":"having","op":">","threshold":"5"},'
        '"is":"query","optimistic":false,"promise":{"beta":"1/2000","error":"5","is":"accuracy","joint":false,'
        '"percent":false},"reuse":"any","shows_values":false,"table":"t","top":null,"where":null,"workload":'
        '{"is":"predicates","parts":[{"is":"not","part":{"expression":{"is":"column","name":"a"},"is":"like",'
        '"pattern":"x%"}},{"is":"or","parts":[{"expression":{"is":"column","name":"b"},"is":"isnull"},{"expression":'
        '{"argument":{"is":"arithmetic","left":{"is":"column","name":"c"},"op":"-","right":{"is":"number","value":"1"}},'
        '"function":"abs","is":"call"},"is":"in","values":[{"is":"truth","value":"TRUE"}]}]}]}}'
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_question_has_the_text_that_it_always_had(text: str) -> None:
    assert format_canonical(parse(text)) == WRITTEN[text]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = TRUE"),
        ("a = '1'", "a = 1"),
        ("a = '2024-01-31'", "a = DATE '2024-01-31'"),
        ("a = DATE '2024-01-31'", "a = TIMESTAMP '2024-01-31 00:00:00'"),
        ("a IN (1)", "a IN (TRUE)"),
        ("a = 'x'", 'a = "x"'),
        ("a AND b", "b AND a"),
    ],
)
def test_constants_that_look_alike_have_texts_of_their_own(one: str, other: str) -> None:
    texts = {format_canonical(parse(f"SELECT COUNT(*) FROM t WHERE {where} ERROR 5")) for where in (one, other)}
    assert len(texts) == 2


def test_the_way_it_was_typed_does_not_matter() -> None:
    typed = ["30<age", "age>30.0", "(age > 3e1)", "30 < t.age", "age /* years */ > 30"]
    assert len({format_canonical(parse(f"SELECT COUNT(*) FROM t WHERE {where} ERROR 5")) for where in typed}) == 1
