"""A question keeps its meaning through text, and equal questions have equal digests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from siloquent.explore.spec import (
    Query,
    format_canonical,
    parse,
    parse_expression,
    parse_predicate,
    render,
    render_expression,
    render_predicate,
)
from siloquent.explore.spec.predicate import Expression, Predicate
from siloquent.explore.spec.rewriting.normal_form import normalize_predicate
from unit.explore.spec.questions import expressions, predicates, queries


@pytest.mark.slow
@given(query=queries())
def test_a_question_survives_being_written_down(query: Query) -> None:
    assert parse(render(query)) == query


@pytest.mark.slow
@given(query=queries())
def test_writing_it_down_twice_gives_one_text_and_one_digest(query: Query) -> None:
    again = parse(render(query))
    assert render(again) == render(query)
    assert format_canonical(again) == format_canonical(query)


@pytest.mark.slow
@given(query=queries())
def test_asking_for_the_price_has_the_digest_of_the_question(query: Query) -> None:
    assert format_canonical(replace(query, explain=True)) == format_canonical(replace(query, explain=False))


def list_measured(query: Query) -> str:
    """Return ``query`` without what no digest holds: reuse left to the table, a default's share, sample divisors."""
    reuse = "any" if query.reuse == "declared" else query.reuse
    return repr(replace(query, explain=False, reuse=reuse, default_share=None)).replace("sample=True", "sample=False")


@pytest.mark.slow
@given(one=queries(), other=queries())
def test_different_questions_have_different_digests(one: Query, other: Query) -> None:
    same = list_measured(one) == list_measured(other)
    assert (format_canonical(one) == format_canonical(other)) == same


@pytest.mark.slow
@given(query=queries())
def test_reuse_left_to_the_table_has_the_digest_of_earlier_ledgers(query: Query) -> None:
    one, other = (replace(query, reuse=reuse) for reuse in ("declared", "any"))
    assert format_canonical(one) == format_canonical(other)
    assert format_canonical(replace(query, reuse="none")) != format_canonical(one)


@given(predicate=predicates)
def test_a_condition_survives_being_written_down(predicate: Predicate) -> None:
    assert parse_predicate(render_predicate(predicate)) == normalize_predicate(predicate)


@given(expression=expressions)
def test_an_expression_survives_being_written_down(expression: Expression) -> None:
    assert parse_expression(render_expression(expression)) == expression


@pytest.mark.slow
@given(predicate=predicates)
def test_a_tidy_condition_stays_as_it_is(predicate: Predicate) -> None:
    assert normalize_predicate(normalize_predicate(predicate)) == normalize_predicate(predicate)
