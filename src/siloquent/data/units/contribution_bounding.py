"""The rows that count, as indices: every row of a row table, at most ``max_rows`` of each user of a user table.

Which rows of a user count is a function of that user's own rows and of a salt, so another user's presence does not
change it. Proof and measurements: docs/explanation/contribution-bounding.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from siloquent.data.engines.base import IN_PART, SOURCE
from siloquent.data.engines.parts import STREAMED
from siloquent.data.sql.formats import is_rewritten, select_rewritten
from siloquent.data.sql.indices import SourceColumn, index_column, quote_name, read_column, try_cast
from siloquent.schema import Unit

_USER = "u"
_RANK = "r"
_HELD, _MANY = "held", "many"
"""The rows of users, and the users of whom not all rows count."""
NOTHING = exp.alias_(exp.Literal.number(0), "nothing")
"""A query of rows may have no columns."""
HASHED = ("text", "integer", "boolean")
"""Kinds whose text is the same in every engine."""


def select_bounded_rows(
    columns: Sequence[SourceColumn],
    unit: Unit,
    *,
    salt: str,
    wanted: Sequence[SourceColumn],
    joined: Collection[str] = (),
) -> exp.Query:
    """Return the rows that count, with ``wanted`` columns: indices (``index_name``), else as read (``read_name``).

    Args:
        columns: All columns of the table: together they decide which rows of a user count.
        salt: Hex text, fixed for the epoch.
        joined: The attributes joined from other tables: they only break ties, so that a join chooses the same rows.
    """
    shown = [_select_column(column) for column in wanted] or [NOTHING.copy()]
    if unit.kind == "row":
        return exp.select(*shown).from_(select_indexed(wanted).subquery("placed"))
    placed = select_indexed(columns, user=next(c for c in columns if c.attribute.name == unit.column))
    known = (
        exp.not_(exp.Is(this=quote_name(_USER), expression=exp.Null())),
        exp.Anonymous(this=IN_PART, expressions=[quote_name(_USER)]),
    )
    rank = exp.alias_(_rank(columns, salt, joined), _RANK, quoted=True)
    most = exp.LTE(this=quote_name(_RANK), expression=exp.Literal.number(unit.max_rows))
    held = exp.select(*map(_select_column, columns), quote_name(_USER)).from_(placed.subquery("placed")).where(*known)
    found = _rank_only_many(held, shown, rank, most)
    found.meta[STREAMED] = _rank_all(held, shown, rank, most)
    return found


def _rank_all(rows: exp.Select, shown: Sequence[exp.Expr], rank: exp.Expr, most: exp.LTE) -> exp.Query:
    """Return the rows of at most that rank, with ``shown`` columns: an engine holds those alone."""
    ranked = exp.select("*", rank).from_(rows.subquery("held"))
    return exp.select(*shown).from_(ranked.subquery("ranked")).where(most)


def _rank_only_many(rows: exp.Select, shown: Sequence[exp.Expr], rank: exp.Expr, most: exp.LTE) -> exp.Query:
    """Return the same rows, but rank only those of users who have more than count: ranking takes most of the time."""
    more = exp.GT(this=exp.Count(this=exp.Star()), expression=most.expression.copy())
    user = quote_name(_USER)
    many = exp.select(user).from_(exp.to_table(_HELD)).group_by(user).having(more)
    is_many = exp.In(this=user, query=exp.select(user).from_(exp.to_table(_MANY)).subquery())
    few = exp.select(*shown).from_(exp.to_table(_HELD)).where(exp.not_(is_many))
    ranked = exp.select("*", rank).from_(exp.to_table(_HELD)).where(is_many.copy())
    first = exp.select(*(one.copy() for one in shown)).from_(ranked.subquery("ranked")).where(most)
    return few.union(first, distinct=False).with_(_HELD, as_=rows).with_(_MANY, as_=many)


def _select_column(column: SourceColumn) -> exp.Expr:
    """Return a wanted column, indices in the smallest type that holds them, so that kept rows take less memory."""
    if not column.attribute.is_countable:
        return quote_name(column.read_name)
    size = column.attribute.size
    kind = "SMALLINT" if size < 2**15 else "INTEGER" if size < 2**31 else "BIGINT"
    return exp.alias_(exp.cast(quote_name(column.index_name), kind), column.index_name, quoted=True)


def select_as_read(columns: Sequence[SourceColumn], *, raw: bool = False) -> exp.Select:
    """Return all rows of the source with ``columns`` as read (``read_name``); with ``raw`` also as stored."""
    shown: list[exp.Expr] = [exp.alias_(read_column(c), c.read_name, quoted=True) for c in columns] or [NOTHING.copy()]
    if raw:
        shown += [exp.alias_(quote_name(c.source), c.raw_name, quoted=True) for c in columns]
    if not any(is_rewritten(column) for column in columns):
        return exp.select(*shown).from_(exp.to_table(SOURCE))
    if raw:
        shown[len(columns) :] = [quote_name(column.raw_name) for column in columns]
    return exp.select(*shown).from_(select_rewritten(columns, raw=raw).subquery("rewritten"))


def join_lookups(rows: exp.Select, columns: Sequence[SourceColumn], *shown: exp.Expr) -> exp.Select:
    """Select ``shown`` from ``rows``, joined with long category lists so that ``index_column`` applies."""
    query = exp.select(*shown, copy=False).from_(rows.subquery("as_read", copy=False), copy=False)
    for column in columns:
        if column.lookup:
            same = exp.EQ(this=quote_name(column.read_name), expression=quote_name("value", column.lookup))
            query = query.join(exp.to_table(column.lookup), on=same, join_type="LEFT", copy=False)
    return query


def select_indexed(columns: Sequence[SourceColumn], *, user: SourceColumn | None = None) -> exp.Select:
    """Return ``columns`` as read, with their indices where they are countable; with ``user``, that column as ``u``."""
    shown: list[exp.Expr] = [
        exp.alias_(index_column(c), c.index_name, quoted=True, copy=False)
        if c.attribute.is_countable
        else quote_name(c.read_name)
        for c in columns
    ] or [NOTHING.copy()]
    if user is not None:
        shown.append(exp.alias_(quote_name(user.read_name), _USER, quoted=True))
    return join_lookups(select_as_read(columns), columns, *shown)


def _rank(columns: Sequence[SourceColumn], salt: str, joined: Collection[str] = ()) -> exp.Window:
    """Return 1, 2, ... within a user, in an order that depends only on that user's rows and the salt.

    The hash makes the choice as good as random; the further keys make the order total up to identical rows, in case two
    hashes are equal.
    """
    places = [quote_name(c.index_name) for c in columns if c.attribute.is_countable]
    others = [c for c in columns if not c.attribute.is_countable]
    digests = [_hash_column(c) for c in others if c.kind in HASHED]
    own = [c for c in columns if c.attribute.name not in joined]
    hashed = [
        *(quote_name(c.index_name) for c in own if c.attribute.is_countable),
        *(_hash_column(c) for c in own if not c.attribute.is_countable and c.kind in HASHED),
    ]
    raw = [quote_name(c.read_name) for c in others if c.kind not in HASHED]
    parts = [exp.Literal.string(salt), *(exp.cast(p, "VARCHAR") if isinstance(p, exp.Column) else p for p in hashed)]
    text = exp.func("CONCAT_WS", exp.func("CHR", exp.Literal.number(31)), *parts, dialect="duckdb")
    keys = [exp.MD5(this=text), *places, *digests, *raw]
    return exp.Window(
        this=exp.RowNumber(),
        partition_by=[quote_name(_USER)],
        order=exp.Order(expressions=[exp.Ordered(this=key, nulls_first=False) for key in keys]),
    )


def _hash_column(column: SourceColumn) -> exp.Expr:
    """Return a text of fixed length for a text or id; NULL becomes the empty text, which is not a digest."""
    text = try_cast(quote_name(column.read_name), "VARCHAR")
    return exp.func("COALESCE", exp.MD5(this=text), exp.Literal.string(""))
