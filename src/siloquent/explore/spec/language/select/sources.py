"""FROM: the table, a public table joined to it, their aliases, and the tables before attributes' names.

A subquery or a query of WITH that chooses rows and columns of one table is inlined: the question is about the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

from siloquent.errors import RequestError, SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.expressions.conditions import read_expression, read_predicate
from siloquent.explore.spec.language.marks import MARK
from siloquent.explore.spec.language.refusals import (
    AGGREGATES,
    CLAUSES,
    LIMITS,
    OTHER_AGGREGATES,
    TAIL,
    WHY_NOT,
    Refusal,
    quote_name,
)
from siloquent.explore.spec.language.select.views import GroupedView, Source, View, join_conditions
from siloquent.explore.spec.language.tokens import Token
from siloquent.explore.spec.predicate import And, Column, Compare, Expression, JoinedColumn, Or, Predicate
from siloquent.explore.spec.query import Join
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns

_ONLY_ROWS = Refusal(
    "A subquery can only choose rows and columns of one table.",
    "ask the inner query by itself, with its own ERROR; or use SELECT * FROM visits WHERE ward IS NOT NULL as the "
    "subquery",
)
_ROW_COLUMNS = Refusal("A subquery returns attributes, and expressions of them with a name.", "age // 10 AS decade")


_ONLY_EQUAL = Refusal(
    "The ON of a join with a subquery, and of an outer join, compares columns of both tables by = only.",
    "put other conditions into the subquery's WHERE",
)
_SAME_COLUMN = Refusal("Two subqueries have columns of one name that are not the same.", "cost AS price")

Views = Mapping[str, View | GroupedView]
ReadGroups = Callable[[Cursor, Views], GroupedView]
NO_VIEWS: Views = MappingProxyType({})


def read_views(cursor: Cursor, read_groups: ReadGroups) -> Views:
    """Parse ``WITH a AS (SELECT ...), b AS (SELECT ... FROM a)``; each may use those before it."""
    found: dict[str, View | GroupedView] = {}
    while cursor.take("WITH" if not found else ","):
        start = cursor.token.start
        name = cursor.take_name("a query of WITH")
        if name in found:
            raise SyntaxProblem(f"WITH names {name[:40]!r} twice", position=start, fix="use another name")
        if cursor.is_at("("):
            raise cursor.build_refusal(_ROW_COLUMNS)
        cursor.expect("AS")
        found[name] = _read_query(cursor, found, read_groups)
    return found


def _read_query(cursor: Cursor, views: Views, read_groups: ReadGroups) -> View | GroupedView:
    """Parse a query in parentheses, of rows or of groups."""
    if cursor.is_at("(") and (cursor.holds_groups(AGGREGATES) or cursor.begins_distinct()):
        return read_groups(cursor, views)
    return _read_view(cursor, views, read_groups)


def _read_view(cursor: Cursor, views: Views, read_groups: ReadGroups) -> View:
    """Parse ``(SELECT a, b // 10 AS c FROM visits WHERE ...)``."""
    if not cursor.is_at("("):
        raise cursor.build_problem("(")
    cursor.advance()
    cursor.enter_parenthesis()
    if not cursor.is_at("SELECT"):
        _refuse_rows(cursor)
    cursor.advance()
    before, called = len(cursor.qualifiers), cursor.call_tables(views)
    columns, has_others = _read_columns(cursor)
    source = read_source(cursor, views, read_groups)
    if (source.listed and not source.joins) or source.groups is not None:
        _refuse_rows(cursor)
    _, on, where = read_where(cursor, source)
    if not cursor.is_at(")"):
        _refuse_rows(cursor)
    cursor.leave_parenthesis()
    cursor.called = called
    check_qualifiers(cursor.qualifiers[before:], source.names)
    del cursor.qualifiers[before:]
    if source.view is None:
        return View(source, where, columns, has_others, on)
    return _compose(source.view, View(replace(source, view=None), where, columns, has_others, on))


def _compose(inner: View, outer: View) -> View:
    """Return the view of a view as one of the table."""

    def find(value: Expression | Predicate) -> Any:
        return value if inner.columns is None else substitute_columns(value, inner.find)

    where = None if outer.where is None else find(outer.where)
    columns = None if outer.columns is None else {name: find(one) for name, one in outer.columns.items()}
    others = inner.columns if outer.has_others or columns is None else None
    found = columns if others is None else {**others, **(columns or {})}
    has_others = (
        inner.has_others if columns is None else outer.has_others and (inner.columns is None or inner.has_others)
    )
    source = replace(outer.source, joins=inner.source.joins, is_outer=outer.source.is_outer or inner.source.is_outer)
    return View(source, join_conditions(inner.where, where), found, has_others, outer.on)


def _refuse_rows(cursor: Cursor) -> NoReturn:
    raise cursor.build_refusal(_ONLY_ROWS)


def _read_columns(cursor: Cursor) -> tuple[dict[str, Expression] | None, bool]:
    """Parse the columns between SELECT and FROM, and whether all others are there; None and FALSE for ``*`` only."""
    if cursor.is_at("DISTINCT", "TOP") or cursor.has_in_item((*AGGREGATES, *OTHER_AGGREGATES)):
        _refuse_rows(cursor)
    has_others = bool(cursor.take("*"))
    if has_others and not cursor.take(","):
        return None, False
    found: dict[str, Expression] = {}
    while True:
        if cursor.has_in_item((*AGGREGATES, *OTHER_AGGREGATES)):
            _refuse_rows(cursor)
        start = cursor.token.start
        expression = read_expression(cursor)
        name = expression.name if isinstance(expression, Column) else ""
        if cursor.take("AS") or is_bare_alias(cursor, ",", "FROM"):
            name = cursor.take_name("a column of the subquery")
        if not name:
            raise cursor.build_refusal(_ROW_COLUMNS)
        if name.casefold() in map(str.casefold, found):
            raise SyntaxProblem(f"The subquery has two columns {name[:40]!r}", position=start, fix="use another name")
        found[name] = expression
        if not cursor.take(","):
            return found, has_others


def read_source(cursor: Cursor, views: Views, read_groups: ReadGroups) -> Source:
    """Parse ``FROM visits v JOIN wards w USING (ward)``."""
    cursor.expect("FROM")
    view, table, names = _read_first(cursor, views, read_groups)
    if isinstance(view, GroupedView):
        while cursor.take(","):
            other, _, more = _read_first(cursor, views, read_groups)
            if not isinstance(other, GroupedView):
                raise cursor.build_refusal(_ONLY_ROWS)
            view, names = view.merge(other), (*names, *more)
        if cursor.is_at("JOIN", "INNER"):
            raise cursor.build_refusal(WHY_NOT["JOIN"])
        return Source(view.table, view.join, names, groups=view)
    is_linked = table.casefold() in cursor.linked and (view is None or view.source.join is None)
    if is_linked and (cursor.is_at("LEFT") or _is_join_of_views(cursor, view, views)):
        return _join_views(cursor, view or View(Source(table, None, names), None, None), names, views, read_groups)
    return _join_tables(cursor, view, table, names)


def _is_join_of_views(cursor: Cursor, view: View | None, views: Views) -> bool:
    """Return whether a join begins here of which a side is a subquery or a query of WITH."""
    if not cursor.is_at(",", "JOIN", "INNER"):
        return False
    token = cursor.peek(2 if cursor.is_at("INNER") else 1)
    return view is not None or token.word == "(" or token.text in views


def _join_views(cursor: Cursor, view: View, names: tuple[str, ...], views: Views, read_groups: ReadGroups) -> Source:
    """Parse the joins of linked tables, of which some are subqueries or queries of WITH, or one is an outer join."""
    on: list[Predicate] = []
    is_outer = False
    while cursor.is_at(",", "JOIN", "INNER", "LEFT"):
        is_listed = bool(cursor.take(","))
        if not is_listed and cursor.take("LEFT"):
            cursor.take("OUTER")
            is_outer = True
        else:
            cursor.take("INNER")
        if not is_listed:
            cursor.expect("JOIN")
        other, table, more = _read_first(cursor, views, read_groups)
        is_rows = not isinstance(other, GroupedView) and (other is None or other.source.join is None)
        is_rows = is_rows and not view.source.is_outer and not (isinstance(other, View) and other.source.is_outer)
        if table.casefold() not in cursor.linked or not is_rows or (is_outer and (other or view.source.joins)):
            raise cursor.build_refusal(WHY_NOT["JOIN"])
        on += () if is_listed else _read_on(cursor)
        rows = other if isinstance(other, View) else View(Source(table, None, more), None, None)
        view, names = _merge_views(cursor, view, rows), (*names, *more)
    return Source(view.source.table, None, names, view=view, joins=view.source.joins, on=tuple(on), is_outer=is_outer)


def _merge_views(cursor: Cursor, view: View, other: View) -> View:
    """Return the rows of a join of two: the columns and the conditions of both."""
    joins = (*view.source.joins, other.source.table, *other.source.joins)
    columns = None
    if view.columns is not None or other.columns is not None:
        columns = {**(view.columns or {}), **(other.columns or {})}
        known = {name.casefold(): one for name, one in (view.columns or {}).items()}
        if any(known.get(name.casefold(), one) != one for name, one in (other.columns or {}).items()):
            raise cursor.build_refusal(_SAME_COLUMN)
    has_others = columns is not None and (
        view.has_others or other.has_others or view.columns is None or other.columns is None
    )
    where = join_conditions(view.where, other.where)
    return View(replace(view.source, joins=joins), where, columns, has_others, (*view.on, *other.on))


def _join_tables(cursor: Cursor, view: View | None, table: str, names: tuple[str, ...]) -> Source:
    if view is None and cursor.called:
        return _join_several(cursor, table, names)
    join = view.source.join if view is not None else None
    is_final = join is not None or (view is not None and view.source.is_outer)
    if is_final and cursor.is_at(",", "JOIN", "INNER"):
        raise cursor.build_refusal(WHY_NOT["JOIN"])
    if cursor.is_at("INNER") and cursor.following.word == "JOIN":
        cursor.advance()
    is_linked = view is None and table.casefold() in cursor.linked
    if cursor.take("JOIN"):
        other, aliases = _read_aliased_table(cursor)
        names = (*names, *aliases)
        if is_linked and other.casefold() in cursor.linked:
            return _join_linked(cursor, Source(table, None, names, joins=(other,), on=_read_on(cursor)))
        join = Join(other, _read_join_key(cursor, table, other))
    listed = ""
    if join is None and cursor.take(","):
        listed, aliases = _read_aliased_table(cursor)
        names = (*names, *aliases)
        if is_linked and listed.casefold() in cursor.linked:
            return _join_linked(cursor, Source(table, None, names, joins=(listed,)))
    if cursor.is_at(",", "JOIN", "INNER"):
        raise cursor.build_refusal(WHY_NOT["JOIN"])
    return Source(table, join, names, listed, view)


def _join_several(cursor: Cursor, table: str, names: tuple[str, ...]) -> Source:
    """Parse the joins of several tables of which some may be public: these are noted with their names in FROM."""
    listed = [(table, names[-1])]
    on: list[Predicate] = []
    while cursor.is_at(",", "JOIN", "INNER"):
        is_listed = bool(cursor.take(","))
        if not is_listed:
            cursor.take("INNER")
            cursor.expect("JOIN")
        other, aliases = _read_aliased_table(cursor)
        listed.append((other, aliases[-1]))
        names = (*names, *aliases)
        on += () if is_listed else _read_on(cursor)
    linked = [one for one, _ in listed if one.casefold() in cursor.linked]
    first = linked[0] if linked else table
    others = [
        one if one.casefold() in cursor.linked else f"{one}{MARK}{name}"
        for one, name in listed
        if one != first or one.casefold() not in cursor.linked
    ]
    return Source(first, None, names, joins=tuple(others), on=tuple(on))


def _join_linked(cursor: Cursor, source: Source) -> Source:
    """Parse further linked tables: ``, orders o`` or ``JOIN orders o ON ...`` or ``USING (...)``."""
    while cursor.is_at(",", "JOIN", "INNER"):
        is_listed = bool(cursor.take(","))
        if not is_listed:
            cursor.take("INNER")
            cursor.expect("JOIN")
        other, aliases = _read_aliased_table(cursor)
        if other.casefold() not in cursor.linked:
            raise cursor.build_refusal(WHY_NOT["JOIN"])
        on = () if is_listed else _read_on(cursor)
        source = replace(source, names=(*source.names, *aliases), joins=(*source.joins, other), on=(*source.on, *on))
    return source


def _read_on(cursor: Cursor) -> tuple[Predicate, ...]:
    """Parse ``ON`` with a condition, or ``USING (a, b)``."""
    if cursor.take("ON"):
        return (read_predicate(cursor),)
    cursor.expect("USING")
    cursor.expect("(")
    keys = [cursor.take_name("an attribute")]
    while cursor.take(","):
        keys.append(cursor.take_name("an attribute"))
    cursor.expect(")")
    return tuple(Compare(Column(key), "=", Column(key)) for key in keys)


def read_where(
    cursor: Cursor, source: Source
) -> tuple[Join | None, tuple[tuple[JoinedColumn, JoinedColumn], ...], Predicate | None]:
    """Parse WHERE; return the join of ``source``, the columns that its linked tables are joined on, and conditions.

    These columns name their tables, not the aliases of these.
    """
    where = read_predicate(cursor) if cursor.take("WHERE") else None
    if not source.joins:
        join, where = join_listed(cursor, source, where)
        return join, () if source.view is None else source.view.on, where
    if source.view is not None:
        return _split_joined(cursor, source, source.view, where)
    parts = [one for part in source.on for one in _list_conjuncts(part)]
    parts += () if where is None else _list_shared(where)
    pairs: list[tuple[JoinedColumn, JoinedColumn]] = []
    rest: list[Predicate] = []
    for one in parts:
        match one:
            case Compare(left=Column() as left, op="=", right=Column() as right):
                pairs.append((_name_table(cursor, left), _name_table(cursor, right)))
            case _:
                rest.append(one)
    return None, tuple(pairs), And(tuple(rest)) if len(rest) > 1 else next(iter(rest), None)


def _split_joined(
    cursor: Cursor, source: Source, view: View, where: Predicate | None
) -> tuple[Join | None, tuple[tuple[JoinedColumn, JoinedColumn], ...], Predicate | None]:
    """Do the same for the join of subqueries, whose columns may have other names than those of the tables."""
    pairs: list[tuple[JoinedColumn, JoinedColumn]] = []
    rest: list[Predicate] = []
    for one in (one for part in source.on for one in _list_conjuncts(part)):
        if not _is_equality(one):
            raise cursor.build_refusal(_ONLY_EQUAL)
        pairs.append(_name_pair(cursor, view, one))
    for one in () if where is None else _list_conjuncts(where):
        if _is_equality(one) and not source.is_outer:
            pairs.append(_name_pair(cursor, view, one))
        else:
            rest.append(one)
    return None, (*view.on, *pairs), And(tuple(rest)) if len(rest) > 1 else next(iter(rest), None)


def _is_equality(predicate: Predicate) -> bool:
    is_equal = isinstance(predicate, Compare) and predicate.op == "="
    return is_equal and isinstance(predicate.left, Column) and isinstance(predicate.right, Column)  # type: ignore[union-attr]


def _name_pair(cursor: Cursor, view: View, equality: Predicate) -> tuple[JoinedColumn, JoinedColumn]:
    assert isinstance(equality, Compare)
    left, right = (view.find(one) for one in (equality.left, equality.right) if isinstance(one, Column))
    if not (isinstance(left, Column) and isinstance(right, Column)):
        raise cursor.build_refusal(_ONLY_EQUAL)
    tables = [_name_table(cursor, one).table for one in (equality.left, equality.right) if isinstance(one, Column)]
    names = [one.name.rpartition(MARK)[2] for one in (left, right)]
    return JoinedColumn(names[0], tables[0]), JoinedColumn(names[1], tables[1])


def _name_table(cursor: Cursor, column: Column) -> JoinedColumn:
    named = next((table for known, table in reversed(cursor.tables) if known is column), "")
    return JoinedColumn(column.name, cursor.aliases.get(named.casefold(), named))


def _read_first(
    cursor: Cursor, views: Views, read_groups: ReadGroups
) -> tuple[View | GroupedView | None, str, tuple[str, ...]]:
    """Parse a table, a subquery or the name of a query of WITH, with its alias."""
    if cursor.is_at("("):
        view = _read_query(cursor, views, read_groups)
        names = _read_alias_of_view(cursor)
    else:
        table, names = _read_aliased_table(cursor)
        if table not in views:
            return None, table, names
        view = views[table]
    if isinstance(view, GroupedView):
        return view, view.table, names
    # Of a join's columns it is not known which table's they are.
    cursor.aliases |= dict.fromkeys(map(str.casefold, names), "" if view.source.joins else view.source.table)
    return view, view.source.table, names


def _read_alias_of_view(cursor: Cursor) -> tuple[str, ...]:
    if cursor.take("AS") or _is_at_alias(cursor):
        return (cursor.take_name("an alias of a subquery"),)
    return ()


def join_listed(cursor: Cursor, source: Source, where: Predicate | None) -> tuple[Join | None, Predicate | None]:
    """Return the join of ``source``, and ``where`` without the equality that joins its listed table."""
    if not source.listed:
        return source.join, where
    parts = list(where.parts) if isinstance(where, And) else [where]
    if isinstance(where, Or):
        parts = [*_find_shared(where), where]
    for place, part in enumerate(parts):
        is_equality = isinstance(part, Compare) and part.op == "=" and part.left == part.right
        if is_equality and isinstance(part, Compare) and isinstance(part.left, Column):
            rest = [one for one in (*parts[:place], *parts[place + 1 :]) if one is not None]
            if isinstance(where, Or):
                left = _drop_equality(where, part)
                rest = [] if left is None else [left]
            return Join(source.listed, part.left.name), And(tuple(rest)) if rest else None
    raise cursor.build_refusal(WHY_NOT["JOIN"])


def _list_conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def _find_shared(where: Or) -> list[Predicate]:
    """Return the conditions that stand in every branch of ``where``."""
    branches = [_list_conjuncts(part) for part in where.parts]
    return [one for one in branches[0] if all(one in others for others in branches[1:])]


def _list_shared(where: Predicate) -> tuple[Predicate, ...]:
    """Return the conjuncts of ``where``, with equalities of columns that stand in every branch of an OR before it."""
    found: list[Predicate] = []
    for part in _list_conjuncts(where):
        equalities = [one for one in _find_shared(part) if _is_equality(one)] if isinstance(part, Or) else []
        rest: Predicate | None = part
        for one in equalities:
            rest = None if rest is None else _drop_equality(rest, one)
        found += [*equalities, *([] if rest is None else [rest])]
    return tuple(found)


def _drop_equality(predicate: Predicate, equality: Predicate) -> Predicate | None:
    """Return ``predicate`` without ``equality``, which holds for all joined rows; None if nothing else is asked."""
    if isinstance(predicate, Or):
        branches = [_drop_equality(part, equality) for part in predicate.parts]
        left = tuple(one for one in branches if one is not None)
        return Or(left) if len(left) == len(branches) else None
    parts = tuple(part for part in _list_conjuncts(predicate) if part != equality)
    return And(parts) if len(parts) > 1 else next(iter(parts), None)


def read_table_name(cursor: Cursor) -> str:
    """Parse one table's name; of ``main.visits``, the last part."""
    if cursor.is_at("("):
        raise cursor.build_refusal(WHY_NOT["SELECT"])
    table = cursor.take_name("a table")
    while cursor.take("."):
        table = cursor.take_name("a table")
    return table.rpartition(".")[2] or table  # no declared name has a point: `project.shop.visits`


def check_qualifiers(qualifiers: Sequence[Token], known: Iterable[str]) -> None:
    """Refuse ``other.age``: the name before the point must be a table of the query or its alias."""
    names = list(dict.fromkeys(known))
    folded = {name.casefold() for name in names}
    for token in qualifiers:
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
    cursor.aliases[table.casefold()] = table
    if cursor.take("AS") or _is_at_alias(cursor):
        alias = cursor.take_name("an alias of a table")
        cursor.aliases[alias.casefold()] = table
        return table, (table, alias)
    return table, (table,)


_OTHER_JOINS = ("LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")


def _is_at_alias(cursor: Cursor) -> bool:
    return is_bare_alias(cursor, ",", ";", ")", "JOIN", "INNER", *_OTHER_JOINS, "USING", "ON", *_CLAUSES, *TAIL)


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
