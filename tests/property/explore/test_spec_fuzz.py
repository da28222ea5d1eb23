"""No text breaks the reader: it gives a question or a refusal. The benchmark ``parse-fuzz-faults`` reads 100,000."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.explore.parse import HONEST, faults, fuzzed
from siloquent.errors import RequestError
from siloquent.explore.spec import parse, render


def test_three_thousand_fuzzed_texts_end_in_a_question_or_a_refusal() -> None:
    wrong, _ = faults(3_000)
    assert wrong == 0


def test_the_fuzzed_texts_are_of_both_kinds() -> None:
    rng = np.random.default_rng(7)
    read = 0
    for _ in range(500):
        try:
            parse(fuzzed(rng))
            read += 1
        except RequestError:
            pass
    assert 10 <= read <= 490


def test_what_is_fuzzed_begins_as_questions() -> None:
    for text in HONEST:
        assert parse(render(parse(text))) == parse(text)


@given(text=st.text(max_size=80))
def test_any_text_ends_in_a_question_or_a_refusal(text: str) -> None:
    with suppress(RequestError):
        asked = parse(text)
        assert parse(render(asked)) == asked
