"""Queries and answers: three interfaces (SQL, BIN, Python) to one frozen ``Query``, and the ``Answer``."""

from siloquent.explore.spec.answers.answer import Answer, AnswerAccuracy, AnswerCost, AnswerReceipt
from siloquent.explore.spec.builder import (
    Question,
    average_of,
    count,
    deviation_of,
    distinct_of,
    median_of,
    quantile_of,
    sum_of,
    variance_of,
)
from siloquent.explore.spec.language.parse import (
    parse,
    parse_aggregate,
    parse_bin,
    parse_expression,
    parse_predicate,
    parse_sql,
    parse_unstated,
)
from siloquent.explore.spec.language.render import render
from siloquent.explore.spec.language.render_conditions import render_constant, render_expression, render_predicate
from siloquent.explore.spec.query import Query
from siloquent.explore.spec.rewriting.canonical import format_canonical

__all__ = [
    "Answer",
    "AnswerAccuracy",
    "AnswerCost",
    "AnswerReceipt",
    "Query",
    "Question",
    "average_of",
    "count",
    "deviation_of",
    "distinct_of",
    "format_canonical",
    "median_of",
    "parse",
    "parse_aggregate",
    "parse_bin",
    "parse_expression",
    "parse_predicate",
    "parse_sql",
    "parse_unstated",
    "quantile_of",
    "render",
    "render_constant",
    "render_expression",
    "render_predicate",
    "sum_of",
    "variance_of",
]
