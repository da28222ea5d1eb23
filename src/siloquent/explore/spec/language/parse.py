"""Parsing of text to a ``Query``, for SQL and BIN."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TypeVar

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.language.bin import read_bin
from siloquent.explore.spec.language.clauses import read_aggregate
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.refusals import WHY_NOT
from siloquent.explore.spec.language.render import attach_related
from siloquent.explore.spec.language.select.sources import read_views
from siloquent.explore.spec.language.select.statement import read_select
from siloquent.explore.spec.language.select.subqueries import read_groups
from siloquent.explore.spec.predicate import Expression, Predicate
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.rewriting.normal_form import MAX_DEPTH, normalize_expression, normalize_predicate

_Read = TypeVar("_Read")


def parse(text: str, *, linked: Collection[str] = ()) -> Query:
    """Parse the query ``text``, in SQL or BIN.

    Args:
        linked: As in ``parse_unstated``.
    Raises:
        SyntaxProblem: the syntax is invalid; ``position`` and ``expected`` say where and why.
        RequestError: the query is not supported; ``fix`` is an alternative.

    >>> parse("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200").kind
    'wcq'
    """
    if linked or len(text) > _SHORT:
        return _read_whole(text, _read_question, linked=linked)
    return _short(text)


def parse_unstated(text: str, *, linked: Collection[str] = ()) -> Query:
    """Parse ``text`` as ``parse`` does; its accuracy may be left out, and is then ``Unstated``.

    Args:
        linked: The tables that share a unit with others, and may be joined with them.
    """
    return _read_whole(text, _read_question, takes_unstated=True, linked=linked)


def parse_sql(text: str) -> Query:
    """Parse ``text`` as ``parse`` does, in SQL only."""
    return _read_whole(text, _read_sql)


def parse_bin(text: str) -> Query:
    """Parse ``text`` as ``parse`` does, in BIN only."""
    return _read_whole(text, lambda cursor: read_bin(cursor, explain=_read_explain(cursor)))


def parse_predicate(text: str) -> Predicate:
    """Parse a condition by itself, as after WHERE.

    >>> parse_predicate("30 < age")
    Compare(left=Column(name='age'), op='>', right=Value(value=30))
    """
    return normalize_predicate(_read_whole(text, lambda cursor: _read_unqualified(cursor, read_predicate)))


def parse_aggregate(text: str) -> Aggregate:
    """Parse an aggregate by itself, as among the items.

    >>> parse_aggregate("median(age)")
    Quantile(attribute='age', share=Decimal('0.5'))
    """
    return _read_whole(text, lambda cursor: _read_unqualified(cursor, read_aggregate))


def parse_expression(text: str) -> Expression:
    """Parse an expression by itself, as after GROUP BY."""
    expression = _read_whole(text, lambda cursor: _read_unqualified(cursor, read_expression))
    return normalize_expression(expression)


def _read_sql(cursor: Cursor) -> Query:
    explain = _read_explain(cursor)
    return attach_related(read_select(cursor, explain=explain, views=read_views(cursor, read_groups)), cursor.related)


def _read_question(cursor: Cursor) -> Query:
    explain = _read_explain(cursor)
    if cursor.is_at("SELECT", "WITH"):
        query = read_select(cursor, explain=explain, views=read_views(cursor, read_groups))
        return attach_related(query, cursor.related)
    if cursor.is_at("BIN"):
        return attach_related(read_bin(cursor, explain=explain), cursor.related)
    raise cursor.build_problem("SELECT", "BIN", *(() if explain else ("EXPLAIN PRIVACY",)))


def _read_explain(cursor: Cursor) -> bool:
    if not cursor.take("EXPLAIN"):
        return False
    cursor.expect("PRIVACY")
    return True


def _read_unqualified(cursor: Cursor, read: Callable[[Cursor], _Read]) -> _Read:
    found = read(cursor)
    if cursor.related:
        raise cursor.build_refusal(WHY_NOT["SELECT"])
    if cursor.qualifiers:
        raise SyntaxProblem("A table name is not allowed here", position=cursor.qualifiers[0].start)
    return found


def _read_whole(
    text: str, read: Callable[[Cursor], _Read], *, takes_unstated: bool = False, linked: Collection[str] = ()
) -> _Read:
    try:
        cursor = Cursor(text, takes_unstated=takes_unstated, linked=linked)
        found = read(cursor)
        cursor.finish()
    except RecursionError:
        # Only a caller that is itself hundreds of frames deep leaves too few for 64 parentheses.
        raise SyntaxProblem(f"The text is nested too deeply; the limit is {MAX_DEPTH} levels") from None
    return found


_SHORT = 2_000  # characters
_short = lru_cache(256)(lambda text: _read_whole(text, _read_question))  # a query is often repeated, and is immutable
