"""The page about the language shows questions that can be asked, and leaves nothing out."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.doc_blocks import blocks
from siloquent.explore.spec import parse, render
from siloquent.explore.spec.builder import Question
from siloquent.explore.spec.language.expressions.choices import CHOOSING
from siloquent.explore.spec.language.refusals import RESERVED, TAIL
from siloquent.explore.spec.predicate import FUNCTIONS

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "reference" / "language.md").read_text("utf-8")
QUESTIONS = [line for block in blocks(PAGE) if block.language == "sql" for line in block.text.splitlines()]


def test_it_shows_questions() -> None:
    assert len(QUESTIONS) >= 15


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_on_the_page_can_be_asked(text: str) -> None:
    assert parse(render(parse(text))) == parse(text)


def test_every_word_function_and_step_is_on_the_page() -> None:
    steps = [name for name in vars(Question) if not name.startswith("_") and callable(getattr(Question, name))]
    assert len(steps) > 10
    words = {*RESERVED, *TAIL, *FUNCTIONS, *CHOOSING, *(f".{step}(" for step in steps)}
    assert sorted(word for word in words if word not in PAGE) == []
