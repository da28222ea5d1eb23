"""Whatever the text: a clear refusal with a stable code, in little time, and nothing spent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec import parse
from unit.explore.spec.hostile import ASK, BIN, HOSTILE


def test_there_are_at_least_two_hundred_of_them() -> None:
    assert len(set(HOSTILE)) >= 200


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:40]))
def test_a_hostile_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(text)
    assert refused.value.code in ("syntax", "request_invalid")
    assert refused.value.spent == "nothing"
    assert len(str(refused.value)) < 1_000
    if isinstance(refused.value, SyntaxProblem):
        assert 0 <= refused.value.position <= max(len(text), 65_536)


@pytest.mark.parametrize(
    "text",
    [
        ASK.format("(" * 64 + "age > 3" + ")" * 64),
        ASK.format("age IN (" + ", ".join(["1"] * 20_000) + ")"),
        ASK.format(" AND ".join(["age > 3"] * 5_000)),
        ASK.format("ward = '" + "''" * 30_000 + "'"),
        ASK.format("age > 3 -- " + "x" * 60_000 + "\n"),
        ASK.format("age > 3 /* " + "*" * 60_000 + "*/"),
        BIN.format("{" + ", ".join(["age > 3"] * 6_000) + "}"),
        ASK.format("- " * 20_000 + "3 < age"),
    ],
    ids=["parentheses", "list", "conditions", "text", "line comment", "comment", "workload", "signs"],
)
def test_a_long_but_honest_question_is_read(text: str) -> None:
    assert parse(text).table == "t"


def test_a_caller_who_is_deep_in_the_stack_gets_an_error_of_ours() -> None:
    def deep(frames: int, call: Callable[[], object]) -> object:
        return call() if frames == 0 else deep(frames - 1, call)

    text = ASK.format("(" * 64 + "age > 650" + ")" * 64)
    with pytest.raises(SyntaxProblem, match="nested too deeply"):
        deep(650, lambda: parse(text))
