"""Exact counts of violations of declared constraints. No guarantee depends on a constraint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from sqlglot import exp

from siloquent.charts.text import number_of
from siloquent.data.check.report import TableFinding
from siloquent.data.engines.base import Engine
from siloquent.data.sql.indices import SourceColumn, build_float_literal, build_int_literal, quote_name, try_cast
from siloquent.data.units.contribution_bounding import select_as_read, select_bounded_rows
from siloquent.schema import (
    Attribute,
    AttributeRef,
    Comparison,
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    TableSchema,
    Unit,
)
from siloquent.schema.constraints import describe_constraint
from siloquent.schema.files.coercion import read_datetime
from siloquent.schema.public_tables.loaded import PublicTable

MAX_CANDIDATES = 10**9
MAX_PAIRED = 20_000
"""The number of rows whose pairs are examined where all rows would make more than ``MAX_CANDIDATES``."""
MAX_REFERENCED = 10**6
_OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_TEXTS = ("text", "integer", "boolean", "date")
"""Kinds whose text is the same in every engine, so that two tables can be compared by it."""

Others = Mapping[str, tuple[Engine, Sequence[SourceColumn]]]


class NotComparable(ValueError):
    """A comparison of values that have no common order; the message says which."""


def check_constraints(
    schema: TableSchema, columns: Sequence[SourceColumn], engine: Engine, others: Others
) -> Iterator[TableFinding]:
    """Return the violations of each declared constraint.

    Args:
        others: Engines and columns of tables that foreign keys may refer to, by table name.
    """
    checker = _ConstraintChecker(schema, columns, engine)
    for number, constraint in enumerate(schema.constraints, 1):
        subject = f"constraint {number} ({describe_constraint(constraint)})"
        try:
            yield from checker.check(constraint, subject, others)
        except NotComparable as wrong:
            yield TableFinding("not_checked", subject, 0, f"{wrong}.", "compare attributes with others of their type")


class _ConstraintChecker:
    """A counter of one table's violations; rows with a NULL in an attribute of a constraint never violate it."""

    def __init__(self, schema: TableSchema, columns: Sequence[SourceColumn], engine: Engine) -> None:
        self._domain, self._columns, self._engine = schema.domain, columns, engine
        self._public = {table.name: table for table in schema.public}

    def check(self, constraint: Constraint, subject: str, others: Others) -> Iterator[TableFinding]:
        if isinstance(constraint, ForeignKey):
            yield from self._check_foreign_key(constraint, subject, others)
            return
        if isinstance(constraint, DenialConstraint):
            count, what = self._count_denial(constraint)
        elif isinstance(constraint, Key):
            count = self._count_repeated(constraint)
            what = number_of(count, "combination that occurs", "combinations that occur") + " more than once"
        else:
            count = self._count_dependency(constraint)
            what = f"{number_of(count, 'combination', 'combinations')} with more than one {constraint.rhs}"
        if count and not isinstance(constraint, Key) and not constraint.hard:
            yield TableFinding("allowed", subject, count, f"{what}; the constraint is soft and allows that.")
        elif count:
            yield TableFinding("violated", subject, count, f"{what}.", _suggest_fix(constraint))

    def _find_column(self, attribute: str) -> SourceColumn:
        declared = self._domain[attribute]
        return next(column for column in self._columns if column.attribute is declared)

    def _select_rows(self, attributes: Sequence[str], alias: str, *, most: int | None = None) -> exp.Subquery:
        rows = select_as_read(list(dict.fromkeys(self._find_column(attribute) for attribute in attributes)))
        return (rows.limit(most) if most else rows).subquery(alias)

    def _count(self, query: exp.Query) -> int:
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(query.subquery("found"))
        return int(self._engine.aggregate(counted).column("n")[0].as_py())

    def _count_dependency(self, constraint: FunctionalDependency) -> int:
        lhs = [quote_name(self._find_column(attribute).read_name) for attribute in constraint.lhs]
        rhs = quote_name(self._find_column(constraint.rhs).read_name)
        query = exp.select(*(key.copy() for key in lhs)).from_(self._select_rows(constraint.attributes, "t1"))
        query = query.where(
            *(_build_not_null(value) for value in (*lhs, rhs)), *(self._compare(c) for c in constraint.when)
        )
        distinct = exp.Count(this=exp.Distinct(expressions=[rhs.copy()]))
        return self._count(query.group_by(*lhs).having(exp.GT(this=distinct, expression=build_int_literal(1))))

    def _count_repeated(self, constraint: Key) -> int:
        keys = [quote_name(self._find_column(attribute).read_name) for attribute in constraint.columns]
        query = exp.select(*(key.copy() for key in keys)).from_(self._select_rows(constraint.columns, "t1"))
        query = query.where(*(_build_not_null(key) for key in keys)).group_by(*keys)
        return self._count(query.having(exp.GT(this=exp.Count(this=exp.Star()), expression=build_int_literal(1))))

    def _count_denial(self, constraint: DenialConstraint) -> tuple[int, str]:
        compared = [self._compare(c) for c in constraint.comparisons]
        if not constraint.is_binary:
            query = exp.select("1").from_(self._select_rows(constraint.attributes, "t1")).where(*compared)
            count = self._count(query)
            return count, f"{number_of(count, 'row does', 'rows do')} what no row should"
        most = None if self._count_candidates(constraint) <= MAX_CANDIDATES else MAX_PAIRED
        pairs = exp.select("1").from_(self._select_rows(constraint.attributes, "t1", most=most))
        pairs = pairs.join(self._select_rows(constraint.attributes, "t2", most=most), on=exp.and_(*compared))
        # A row is not paired with itself: such pairs are counted separately and subtracted.
        alone = exp.select("1").from_(self._select_rows(constraint.attributes, "t1", most=most))
        alone = alone.where(*(self._compare(c, alone=True) for c in constraint.comparisons))
        among = f" among the first {most:,} rows" if most else ""
        count = self._count(pairs) - self._count(alone)
        return count, f"{number_of(count, 'pair of rows does', 'pairs of rows do')} what no two rows should{among}"

    def _count_candidates(self, constraint: DenialConstraint) -> int:
        """Return the number of row pairs that agree on the constraint's equalities, and so have to be compared."""
        same = [c.left.attribute for c in constraint.comparisons if c.op == "=" and _is_same_attribute(c)]
        keys = [quote_name(self._find_column(attribute).read_name) for attribute in dict.fromkeys(same)]
        counted = exp.alias_(exp.cast(exp.Count(this=exp.Star()), "DOUBLE"), "n")
        groups = exp.select(counted).from_(self._select_rows(same or constraint.attributes, "t1")).group_by(*keys)
        pairs = exp.func(
            "COALESCE", exp.Sum(this=exp.Mul(this=exp.column("n"), expression=exp.column("n"))), build_int_literal(0)
        )
        total = exp.select(exp.alias_(exp.cast(pairs, "BIGINT"), "pairs")).from_(groups.subquery("groups"))
        return int(self._engine.aggregate(total).column("pairs")[0].as_py())

    def _compare(self, comparison: Comparison, *, alone: bool = False) -> exp.Expr:
        """Return ``comparison`` over t1 and t2; with ``alone`` both are t1."""
        left = self._domain[comparison.left.attribute]
        if isinstance(comparison.right, AttributeRef):
            other = self._domain[comparison.right.attribute]
            if _get_family(left) != _get_family(other):
                raise NotComparable(f"{left.name} is {left.kind} and {other.name} is {other.kind}")
            right = self._build_value(comparison.right, alone)
        else:
            right = _build_constant(left, comparison.right)
        return _OPERATORS[comparison.op](this=self._build_value(comparison.left, alone), expression=right)

    def _build_value(self, place: AttributeRef, alone: bool) -> exp.Expr:
        return quote_name(self._find_column(place.attribute).read_name, "t1" if alone else f"t{place.tuple_variable}")

    def _check_foreign_key(self, constraint: ForeignKey, subject: str, others: Others) -> Iterator[TableFinding]:
        if constraint.table in self._public:
            if count := self._without_public(constraint.columns[0], self._public[constraint.table]):
                yield _refers_to_nothing(constraint.table, subject, count)
            return
        if constraint.table not in others:
            sentence = f"The table {constraint.table} is not available."
            yield TableFinding("not_checked", subject, 0, sentence, f"declare {constraint.table} in the same workspace")
            return
        engine, columns = others[constraint.table]
        by_name = {column.attribute.name: column for column in columns}
        mine = [self._find_column(attribute) for attribute in constraint.columns]
        theirs = [by_name[attribute] for attribute in constraint.referenced if attribute in by_name]
        if len(theirs) != len(mine) or any(column.kind not in _TEXTS for column in (*mine, *theirs)):
            raise NotComparable("only texts, integers, booleans and dates can be compared between tables")
        known = engine.aggregate(
            exp.select(_join_texts(theirs)).distinct().from_(_select_source(theirs)).limit(MAX_REFERENCED)
        )
        values = [value for value in known.column("key").to_pylist() if value is not None]
        self._engine.look_up("referenced", values)
        rows = exp.select(_join_texts(mine)).from_(_select_source(mine)).subquery("mine")
        missing = (
            exp.select("1")
            .from_(rows)
            .join(
                exp.to_table("referenced"),
                on=exp.EQ(this=quote_name("key", "mine"), expression=quote_name("value", "referenced")),
                join_type="LEFT",
            )
        )
        missing = missing.where(
            _build_not_null(quote_name("key", "mine")), exp.not_(_build_not_null(quote_name("value", "referenced")))
        )
        if count := self._count(missing):
            yield _refers_to_nothing(constraint.table, subject, count)

    def _without_public(self, key: str, public: PublicTable) -> int:
        """Count rows whose key, as questions read it, is not in ``public``; rows without a key refer to nothing."""
        column = self._find_column(key)
        met = np.append(public.known, True)  # the last is index -1: a row without a key that counts
        if column.attribute.null == "cell":
            met[column.attribute.size - 1] = True
        places = select_bounded_rows([column], Unit("row"), salt="", wanted=[column])
        return sum(int((~met[np.asarray(batch.column(0))]).sum()) for batch in self._engine.read_batches(places))


def _refers_to_nothing(table: str, subject: str, count: int) -> TableFinding:
    sentence = f"{number_of(count, 'row refers', 'rows refer')} to nothing in {table}."
    fix = f"add the missing rows to {table}, or remove the constraint"
    return TableFinding("violated", subject, count, sentence, fix)


def _suggest_fix(constraint: FunctionalDependency | DenialConstraint | Key) -> str:
    if isinstance(constraint, Key):
        return "remove the key, or correct the source"
    return "hard = false, weight = 1 in the constraint, or correct the source"


def _is_same_attribute(comparison: Comparison) -> bool:
    left, right = comparison.left, comparison.right
    same = isinstance(right, AttributeRef) and right.attribute == left.attribute
    return same and right.tuple_variable != left.tuple_variable  # type: ignore[union-attr]


def _build_not_null(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=value.copy(), expression=exp.Null()))


def _get_family(attribute: Attribute) -> str:
    return "number" if attribute.is_numeric else "moment" if attribute.is_temporal else attribute.kind


def _build_constant(attribute: Attribute, value: object) -> exp.Expr:
    """Return ``value`` as the type that ``attribute`` is read as."""
    if attribute.is_temporal and (moment := read_datetime(value)) is not None:
        return build_int_literal(moment)
    if attribute.is_numeric and not isinstance(value, (str, bool)):
        return build_float_literal(value)  # type: ignore[arg-type]
    if attribute.kind == "boolean" and isinstance(value, bool):
        return build_int_literal(int(value))
    if attribute.kind in ("category", "text", "id") and not isinstance(value, bool):
        return exp.Literal.string(str(value))
    raise NotComparable(f"{attribute.name} is {attribute.kind}, and {value!r} is not")


def _select_source(columns: Sequence[SourceColumn]) -> exp.Subquery:
    return select_as_read(columns, raw=True).subquery("as_read")


def _join_texts(columns: Sequence[SourceColumn]) -> exp.Expr:
    """Return one text for the values of several columns, NULL where one of them is."""
    texts = [try_cast(quote_name(column.raw_name), "VARCHAR") for column in columns]
    joined: exp.Expr = texts[0]
    for text in texts[1:]:
        joined = exp.func("CONCAT", joined, exp.func("CHR", build_int_literal(31)), text)
    known = exp.and_(*(_build_not_null(text) for text in texts))
    return exp.alias_(exp.Case().when(known, joined), "key", quoted=True)
