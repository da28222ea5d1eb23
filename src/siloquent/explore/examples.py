"""Fixes that contain a query are planned before they are shown, using names from the analyst's own query.

A query is parsed without a declaration, so the parser's example may group by an id or use undeclared names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import AccuracyUnreachable, RequestError, SiloquentError, SyntaxProblem
from siloquent.explore.linked_joins import bind_joins, list_linked_tables
from siloquent.explore.mending.search import mend
from siloquent.explore.offers import offer_mended
from siloquent.explore.plan.steps import plan_query
from siloquent.explore.spec import parse, parse_unstated
from siloquent.explore.spec.language.render_conditions import render_name
from siloquent.explore.spec.promises import Unstated
from siloquent.explore.spec.rewriting.name_resolution import resolve_names
from siloquent.fixes import AskWith, Fix, build_fix, run
from siloquent.privacy import format_digits
from siloquent.session import compute_budget_limit

if TYPE_CHECKING:
    from siloquent.explore.spec import Query
    from siloquent.schema import Attribute, TableSchema
    from siloquent.session import WorkspaceSession

MAX_TEXT = 4_096
MAX_TABLES = 8
MAX_NAMES = 16
ERRORS = (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
MAX_ERROR, USEFUL, MAX_GROUPS = ERRORS[-1], 4, 60
"""Of a group of average size, or of a range, an error of use is at most this part."""
_ERROR = re.compile(r"ERROR [\d.]+(, [\d.]+)*")


def read_question(session: WorkspaceSession, text: str, *, may_see: Callable[[str], bool] = lambda _: True) -> Query:
    """Parse ``text``; a table that is declared in only one spelling may be written in another case.

    Args:
        may_see: Whether the analyst may learn that a table exists.
    Raises:
        RequestError: as for ``parse``, with an answerable query as its fix.
    """
    may_join = "," in text or "JOIN" in text.upper()
    linked = list_linked_tables(session, may_see) if may_join else []
    with reading(session, text, may_see=may_see):
        query = parse_unstated(text, linked=linked)
        if isinstance(query.promise, Unstated) and not _has_default(session, query.table, may_see):
            query = parse(text, linked=linked)  # refused, where the clause should stand
    query = bind_joins(session, query, may_see=may_see)
    names = [name for name in session.list_tables() if may_see(name)]
    meant = [name for name in names if name.casefold() == query.table.casefold()]
    return replace(query, table=meant[0]) if query.table not in names and len(meant) == 1 else query


def _has_default(session: WorkspaceSession, table: str, may_see: Callable[[str], bool]) -> bool:
    meant = [name for name in session.list_tables() if may_see(name) and name.casefold() == table.casefold()]
    return any(session.find_defaults(name) is not None for name in meant)


@contextmanager
def reading(session: WorkspaceSession, text: str, *, may_see: Callable[[str], bool] = lambda _: True) -> Iterator[None]:
    """Let parse errors of ``text`` suggest a query that this session can ask; finding one is free.

    Args:
        may_see: Whether the analyst may learn that a table exists.
    Raises:
        RequestError: as raised, with an answerable query as its fix.
    """
    try:
        yield
    except RequestError as refused:
        with suppress(SiloquentError):  # an invalid declaration is reported elsewhere
            refused.remedy = _find_working(session, text, refused, may_see) or refused.remedy
        raise


def _find_working(session: WorkspaceSession, text: str, refused: RequestError, may_see: Callable[[str], bool]) -> Fix:
    names = [name for name in session.list_tables() if may_see(name)]
    mentioned = [name for name in names if _is_in(name, text[:MAX_TEXT])]
    schemas = [session.schema(name) for name in (mentioned or names)[:MAX_TABLES]]
    if len(text) <= MAX_TEXT and (quoted := _with_quotes(text, schemas)):
        return build_fix(offer_mended(session, quoted, text))
    if mended := mend(text, schemas, wrong=refused):
        return build_fix(offer_mended(session, mended, text))
    example = find_example(schemas)
    return build_fix(AskWith(example)) if example else build_fix(run("tables"))


def find_example(schemas: Sequence[TableSchema]) -> str:
    """Return a question about one of the tables that can be asked; "" if there is none."""
    examples = (_make_askable(example, schemas) for schema in schemas for example in _iter_examples(schema))
    return next(filter(None, examples), "")


def list_sample_questions(schema: TableSchema) -> list[list[str]]:
    """Return a few questions of different kinds, each with errors that are of use, the smallest first."""
    table, rows = render_name(schema.name), schema.size_hint or MAX_ERROR * USEFUL
    keys = [one for one in schema.domain if _is_key(one) and one.size <= MAX_GROUPS]
    keys.sort(key=lambda one: one.kind not in ("category", "boolean"))
    asked = [(f"{name}, ", f" GROUP BY {name}", one.size) for one in keys[:1] if (name := render_name(one.name))]
    found = []
    for shown, grouped, groups in (*asked, ("", "", 1)):
        errors = [one for one in ERRORS if one * USEFUL * groups <= rows] or ERRORS[:1]
        found.append([f"SELECT {shown}COUNT(*) FROM {table}{grouped} ERROR {error}" for error in errors])
    number = next((one for one in schema.domain if one.is_numeric and one.lo != one.hi and not one.function), None)
    if number is not None and schema.size_hint:
        width = Fraction(number.hi) - Fraction(number.lo)  # type: ignore[arg-type]
        text = f"SELECT AVG({render_name(number.name)}) FROM {table} ERROR"
        found.append([f"{text} {format_digits(width / part, 1)}" for part in (100, 50, 20, 10, USEFUL)])
    return found


def _is_in(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _make_askable(question: str, schemas: Sequence[TableSchema]) -> str:
    """Return ``question``, with a wider error if the budget requires it, if it can be answered; else an empty text."""
    for _ in range(2):
        try:
            query = parse(question)
            schema = next((one for one in schemas if one.name == query.table), None)
            if schema is None:
                return ""
            plan_query(resolve_names(query, schema), schema, left=compute_budget_limit(schema.budget))
        except AccuracyUnreachable as dear:
            offered = dear.remedy.find(AskWith)
            question = "" if offered is None else _ERROR.sub(offered.change, question)
        except SiloquentError:
            return ""
        else:
            return question
    return ""


def _iter_examples(schema: TableSchema) -> Iterator[str]:
    """Yield queries of this table, groups before single numbers."""
    table = render_name(schema.name)
    for attribute in schema.domain:
        if _is_key(attribute):
            name = render_name(attribute.name)
            yield f"SELECT {name}, COUNT(*) FROM {table} GROUP BY {name} ERROR 200"
            break
    yield f"SELECT COUNT(*) FROM {table} ERROR 200"


def _is_key(attribute: Attribute) -> bool:
    return attribute.has_groups


def _with_quotes(text: str, schemas: Sequence[TableSchema]) -> str:
    """Return ``text`` with quotes around declared names that need them, if it is then valid; else an empty text."""
    names = {name for schema in schemas for name in (schema.name, *schema.domain.names) if render_name(name) != name}
    spaced = sorted((name for name in names if not name.isidentifier() and _is_in(name, text)), key=len, reverse=True)
    words = {name.upper(): name for name in names if name.isidentifier()}
    fixed = text
    for name in spaced[:MAX_NAMES]:
        pattern = rf"(?<![\w\"']){re.escape(name)}(?![\w\"'])"
        fixed = re.sub(pattern, render_name(name).replace("\\", r"\\"), fixed, flags=re.IGNORECASE)
    for _ in range(MAX_NAMES):
        try:
            parse(fixed)
            break
        except SyntaxProblem as wrong:
            word = re.match(r"\w+", fixed[wrong.position :])
            if word is None or word[0].upper() not in words:
                return ""
            quoted = render_name(words[word[0].upper()])
            fixed = fixed[: wrong.position] + quoted + fixed[wrong.position + len(word[0]) :]
        except RequestError:
            return ""
    return fixed if fixed != text and _make_askable(fixed, schemas) else ""
