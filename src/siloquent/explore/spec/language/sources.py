"""FROM: the table and a public table joined to it, with their aliases; and the tables before attributes' names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.refusals import CLAUSES, LIMITS, TAIL, WHY_NOT, quote_name
from siloquent.explore.spec.predicate import And, Column, Compare, Predicate
from siloquent.explore.spec.query import Join


@dataclass(frozen=True, slots=True)
class Source:
    """The table of a query, its join, and all names by which a text may refer to either.

    ``listed``: a table after a comma, which WHERE joins: ``FROM visits v, wards w WHERE v.ward = w.ward``.
    """

    table: str
    join: Join | None
    names: tuple[str, ...]
    listed: str = ""


def read_source(cursor: Cursor) -> Source:
    """Parse ``FROM visits v JOIN wards w USING (ward)``."""
    cursor.expect("FROM")
    table, names = _read_aliased_table(cursor)
    join = None
    if cursor.is_at("INNER") and cursor.following.word == "JOIN":
        cursor.advance()
    if cursor.take("JOIN"):
        other, aliases = _read_aliased_table(cursor)
        names = (*names, *aliases)
        join = Join(other, _read_join_key(cursor, table, other))
    listed = ""
    if join is None and cursor.take(","):
        listed, aliases = _read_aliased_table(cursor)
        names = (*names, *aliases)
    if cursor.is_at(",", "JOIN", "INNER"):
        raise cursor.build_refusal(WHY_NOT["JOIN"])
    return Source(table, join, names, listed)


def join_listed(cursor: Cursor, source: Source, where: Predicate | None) -> tuple[Join | None, Predicate | None]:
    """Return the join of ``source``, and ``where`` without the equality that joins its listed table."""
    if not source.listed:
        return source.join, where
    parts = list(where.parts) if isinstance(where, And) else [where]
    for place, part in enumerate(parts):
        is_equality = isinstance(part, Compare) and part.op == "=" and part.left == part.right
        if is_equality and isinstance(part, Compare) and isinstance(part.left, Column):
            rest = [one for one in (*parts[:place], *parts[place + 1 :]) if one is not None]
            return Join(source.listed, part.left.name), And(tuple(rest)) if rest else None
    raise cursor.build_refusal(WHY_NOT["JOIN"])


def read_table_name(cursor: Cursor) -> str:
    """Parse one table's name; of ``main.visits``, the last part."""
    if cursor.is_at("("):
        raise cursor.build_refusal(WHY_NOT["SELECT"])
    table = cursor.take_name("a table")
    while cursor.take("."):
        table = cursor.take_name("a table")
    return table.rpartition(".")[2] or table  # no declared name has a point: `project.shop.visits`


def check_qualifiers(cursor: Cursor, known: Iterable[str]) -> None:
    """Refuse ``other.age``: the name before the point must be a table of the query or its alias."""
    names = list(dict.fromkeys(known))
    folded = {name.casefold() for name in names}
    for token in cursor.qualifiers:
        if token.text.casefold() not in folded:
            raise SyntaxProblem(
                f"{token.text[:40]!r} is not a table of this query",
                position=token.start,
                expected=f"{' or '.join(map(repr, names))}, or no table name",
                fix="remove the prefix",
            )


def is_bare_alias(cursor: Cursor, *behind: str) -> bool:
    """Return whether a name here is an SQL alias of the preceding item, followed by one of ``behind``."""
    is_name = cursor.token.kind == "quoted" or (cursor.token.kind == "word" and cursor.token.word not in _WORDS)
    return is_name and (cursor.following.word in behind or cursor.following.kind == "end")


def _read_aliased_table(cursor: Cursor) -> tuple[str, tuple[str, ...]]:
    table = read_table_name(cursor)
    if cursor.take("AS") or is_bare_alias(cursor, ",", ";", "JOIN", "INNER", "USING", "ON", *_CLAUSES, *TAIL):
        return table, (table, cursor.take_name("an alias of a table"))
    return table, (table,)


_CLAUSES = (*(clause.split()[0] for clause in CLAUSES), *LIMITS)
_WORDS = frozenset((*_CLAUSES, *TAIL, *WHY_NOT, "ON", "AS", "JOIN"))


def _read_join_key(cursor: Cursor, table: str, other: str) -> str:
    """Parse ``USING (ward)``, or ``ON visits.ward = wards.ward`` with one name on both sides."""
    if cursor.is_at("ON"):
        return _read_equal_key(cursor, table, other)
    if not cursor.take("USING"):
        raise cursor.build_refusal(WHY_NOT["JOIN"])
    cursor.expect("(")
    key = cursor.take_name("an attribute")
    cursor.expect(")")
    return key


def _read_equal_key(cursor: Cursor, table: str, other: str) -> str:
    position = cursor.advance().start
    first = _read_side(cursor)
    same = cursor.take("=") and _read_side(cursor) == first
    if not same or not first or cursor.is_at("AND", "OR"):
        key = quote_name(first) if first else ".."
        raise RequestError(
            f"{WHY_NOT['JOIN'].reason.removesuffix('.')} ('ON' at character {position}).",
            fix=f"FROM {quote_name(table)} JOIN {quote_name(other)} USING ({key})",
        )
    return first


def _read_side(cursor: Cursor) -> str:
    return cursor.take_attribute() if cursor.token.kind in ("word", "quoted") else ""
