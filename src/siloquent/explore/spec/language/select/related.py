"""EXISTS and IN with a subquery: a condition on the rows of another table that belong to the same person."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import CLAUSES, LIMITS, WHY_NOT, Refusal
from siloquent.explore.spec.predicate import And, Column, Compare, CompareOp, Expression, Predicate
from siloquent.explore.spec.related import MAX_RELATED, Related, name_related
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns
from siloquent.explore.spec.rewriting.normal_form import FLIPPED

ReadPredicate = Callable[[Cursor], Predicate]
Compared = tuple[str, CompareOp, str]
_FORM = Refusal(
    "A subquery in a condition chooses rows of one table: EXISTS (SELECT * FROM table WHERE ...), or IN (SELECT column "
    "FROM table WHERE ...).",
    "write the condition with AND, OR and NOT over attributes",
)
_COMPARED = Refusal(
    "A subquery of EXISTS is tied to the query's rows by equal columns: those that name the person, or those of their "
    "link; one more column of the query may be compared with one of the subquery.",
    "compare other columns with constants",
)
_CLAUSES = (*(clause.split()[0] for clause in CLAUSES), *LIMITS, "ON", "JOIN")
_MANY = Refusal(f"A query has at most {MAX_RELATED} conditions with a subquery.", "leave some out")


def is_at_exists(cursor: Cursor) -> bool:
    """Return whether ``EXISTS (SELECT`` begins here."""
    return cursor.is_at("EXISTS") and cursor.following.word == "("


def read_exists(cursor: Cursor, read_predicate: ReadPredicate) -> Predicate:
    """Parse ``EXISTS (SELECT * FROM visits v WHERE v.patient = p.patient AND v.ward = 'icu')``."""
    cursor.expect("EXISTS")
    cursor.expect("(")
    return _read_subquery(cursor, read_predicate, None)


def read_listed(cursor: Cursor, expression: Expression, read_predicate: ReadPredicate) -> Predicate:
    """Parse ``SELECT patient FROM visits WHERE ...)`` behind ``patient IN (``."""
    if not isinstance(expression, Column):
        raise cursor.build_refusal(_FORM)
    return _read_subquery(cursor, read_predicate, expression.name)


def _read_subquery(cursor: Cursor, read_predicate: ReadPredicate, own: str | None) -> Predicate:
    if not cursor.is_at("SELECT") or len(cursor.related) >= MAX_RELATED or cursor.keeps_qualifiers:
        raise cursor.build_refusal(_MANY if len(cursor.related) >= MAX_RELATED else _FORM)
    cursor.enter_parenthesis()
    cursor.advance()
    cursor.take("DISTINCT")
    before = len(cursor.qualifiers)
    selected = "" if own is None else cursor.take_attribute()
    while own is None and not cursor.is_at("FROM", ")", "(", "SELECT") and cursor.token.kind != "end":
        cursor.advance()  # what EXISTS selects has no meaning
    if not cursor.is_at("FROM"):
        raise cursor.build_refusal(_FORM)
    cursor.advance()
    table, name = _read_table(cursor)
    parts = _read_where(cursor, read_predicate)
    if not cursor.is_at(")"):
        raise cursor.build_refusal(_FORM)
    pairs, compared, rest, outer = _tie(cursor, parts, {name.casefold()})
    # Names of the query's own tables are checked with its others; those of the subquery's are known here.
    cursor.qualifiers[before:] = [one for one in cursor.qualifiers[before:] if one.text.casefold() in outer]
    cursor.leave_parenthesis()
    on = (*([] if own is None else [(own, selected)]), *pairs)
    where = And(tuple(rest)) if len(rest) > 1 else next(iter(rest), None)
    asked = (table, on, where, compared)
    same = next((one for one in cursor.related if (one.table, one.on, one.where, one.compared) == asked), None)
    if same is None or same.listed != (own is not None):
        same = Related(name_related(len(cursor.related)), table, on, where, own is not None, compared)
        cursor.related.append(same)
    return same.test


def _read_table(cursor: Cursor) -> tuple[str, str]:
    """Parse a table, and return it with the name by which its rows are called: its alias hides its own."""
    table = cursor.take_name("a table")
    while cursor.take("."):
        table = cursor.take_name("a table")
    is_alias = cursor.token.kind == "word" and cursor.token.word not in ("WHERE", *WHY_NOT, *_CLAUSES)
    if cursor.take("AS") or cursor.token.kind == "quoted" or is_alias:
        return table, cursor.take_name("an alias of a table")
    return table, table


def _read_where(cursor: Cursor, read_predicate: ReadPredicate) -> Sequence[Predicate]:
    if not cursor.take("WHERE"):
        return ()
    cursor.keeps_qualifiers = True
    try:
        where = read_predicate(cursor)
    finally:
        cursor.keeps_qualifiers = False
    return where.parts if isinstance(where, And) else (where,)


def _tie(
    cursor: Cursor, parts: Sequence[Predicate], inner: set[str]
) -> tuple[list[tuple[str, str]], tuple[Compared, ...], list[Predicate], set[str]]:
    """Split conditions: pairs of columns that tie the subquery to the query's rows, comparisons of others, its own.

    Also returns the names before outer columns, in lower case.
    """
    pairs: list[tuple[str, str]] = []
    compared: list[Compared] = []
    rest: list[Predicate] = []
    outer: set[str] = set()
    for part in parts:
        seen: list[str] = []

        def note(column: Column, seen: list[str] = seen) -> Column:
            seen.append(column.name)
            return Column(column.name.rpartition(MARK)[2])

        bare = substitute_columns(part, note)
        befores = [name.rpartition(MARK)[0].casefold() for name in seen]
        if not any(before and before not in inner for before in befores):
            rest.append(bare)
            continue
        outer |= {before for before in befores if before not in inner}
        if not (
            isinstance(part, Compare)
            and isinstance(bare.left, Column)
            and isinstance(bare.right, Column)
            and any(before in inner or not before for before in befores)
        ):
            raise cursor.build_refusal(_COMPARED)
        left, right = bare.left.name, bare.right.name
        is_own_first = bool(befores[0]) and befores[0] not in inner
        if part.op == "=":
            pairs.append((left, right) if is_own_first else (right, left))
        else:
            compared.append((left, part.op, right) if is_own_first else (right, FLIPPED[part.op], left))
    if len(compared) > 1:
        raise cursor.build_refusal(_COMPARED)
    return pairs, tuple(compared), rest, outer - {""}
