"""How often rows contradict a declared constraint. No guarantee rests on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from sqlglot import exp

from siloquent.data.bounding import as_read, bounded_rows
from siloquent.data.check.report import Finding
from siloquent.data.engines.base import Engine
from siloquent.data.places import Column, name, real, try_cast, whole
from siloquent.pictures.plain import number_of
from siloquent.schema import (
    Attribute,
    Comparison,
    Constraint,
    DenialConstraint,
    ForeignKey,
    FunctionalDependency,
    Key,
    Place,
    TableSchema,
    Unit,
)
from siloquent.schema.constraints import words
from siloquent.schema.public_table import PublicTable
from siloquent.schema.reading import read_moment

MOST_CANDIDATES = 10**9
MOST_PAIRED = 20_000
"""Rows of which pairs are looked at where all rows would make more than ``MOST_CANDIDATES``."""
MOST_REFERENCED = 10**6
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

Others = Mapping[str, tuple[Engine, Sequence[Column]]]


class NotComparable(ValueError):
    """A comparison of things that have no common order; the text says which."""


def constraint_findings(
    schema: TableSchema, columns: Sequence[Column], engine: Engine, others: Others
) -> Iterator[Finding]:
    """What contradicts each declared constraint.

    Args:
        others: Engines and columns of tables that foreign keys may refer to, by table name.
    """
    checker = _Checker(schema, columns, engine)
    for number, constraint in enumerate(schema.constraints, 1):
        subject = f"constraint {number} ({words(constraint)})"
        try:
            yield from checker.findings(constraint, subject, others)
        except NotComparable as wrong:
            yield Finding("not_checked", subject, 0, f"{wrong}.", "compare attributes with others of their type")


class _Checker:
    """Counts violations of one table's constraints; rows with a NULL in what a constraint reads never violate it."""

    def __init__(self, schema: TableSchema, columns: Sequence[Column], engine: Engine) -> None:
        self._domain, self._columns, self._engine = schema.domain, columns, engine
        self._public = {table.name: table for table in schema.public}

    def findings(self, constraint: Constraint, subject: str, others: Others) -> Iterator[Finding]:
        if isinstance(constraint, ForeignKey):
            yield from self._foreign(constraint, subject, others)
            return
        if isinstance(constraint, DenialConstraint):
            count, what = self._denial(constraint)
        elif isinstance(constraint, Key):
            count = self._repeated(constraint)
            what = number_of(count, "combination that occurs", "combinations that occur") + " more than once"
        else:
            count = self._dependency(constraint)
            what = f"{number_of(count, 'combination', 'combinations')} with more than one {constraint.rhs}"
        if count and not isinstance(constraint, Key) and not constraint.hard:
            yield Finding("allowed", subject, count, f"{what}; the constraint is soft and allows that.")
        elif count:
            yield Finding("violated", subject, count, f"{what}.", _fix(constraint))

    def _column(self, attribute: str) -> Column:
        declared = self._domain[attribute]
        return next(column for column in self._columns if column.attribute is declared)

    def _rows(self, attributes: Sequence[str], alias: str, *, most: int | None = None) -> exp.Subquery:
        rows = as_read(list(dict.fromkeys(self._column(attribute) for attribute in attributes)))
        return (rows.limit(most) if most else rows).subquery(alias)

    def _count(self, query: exp.Query) -> int:
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(query.subquery("found"))
        return int(self._engine.aggregate(counted).column("n")[0].as_py())

    def _dependency(self, constraint: FunctionalDependency) -> int:
        lhs = [name(self._column(attribute).read_name) for attribute in constraint.lhs]
        rhs = name(self._column(constraint.rhs).read_name)
        query = exp.select(*(key.copy() for key in lhs)).from_(self._rows(constraint.attributes, "t1"))
        query = query.where(*(_known(value) for value in (*lhs, rhs)), *(self._compared(c) for c in constraint.when))
        distinct = exp.Count(this=exp.Distinct(expressions=[rhs.copy()]))
        return self._count(query.group_by(*lhs).having(exp.GT(this=distinct, expression=whole(1))))

    def _repeated(self, constraint: Key) -> int:
        keys = [name(self._column(attribute).read_name) for attribute in constraint.columns]
        query = exp.select(*(key.copy() for key in keys)).from_(self._rows(constraint.columns, "t1"))
        query = query.where(*(_known(key) for key in keys)).group_by(*keys)
        return self._count(query.having(exp.GT(this=exp.Count(this=exp.Star()), expression=whole(1))))

    def _denial(self, constraint: DenialConstraint) -> tuple[int, str]:
        compared = [self._compared(c) for c in constraint.comparisons]
        if not constraint.is_binary:
            query = exp.select("1").from_(self._rows(constraint.attributes, "t1")).where(*compared)
            count = self._count(query)
            return count, f"{number_of(count, 'row does', 'rows do')} what no row should"
        most = None if self._candidates(constraint) <= MOST_CANDIDATES else MOST_PAIRED
        pairs = exp.select("1").from_(self._rows(constraint.attributes, "t1", most=most))
        pairs = pairs.join(self._rows(constraint.attributes, "t2", most=most), on=exp.and_(*compared))
        # A row may not stand against itself: such pairs are counted on their own and taken off.
        alone = exp.select("1").from_(self._rows(constraint.attributes, "t1", most=most))
        alone = alone.where(*(self._compared(c, alone=True) for c in constraint.comparisons))
        among = f" among the first {most:,} rows" if most else ""
        count = self._count(pairs) - self._count(alone)
        return count, f"{number_of(count, 'pair of rows does', 'pairs of rows do')} what no two rows should{among}"

    def _candidates(self, constraint: DenialConstraint) -> int:
        """How many pairs of rows agree where the constraint asks for it, and so have to be compared."""
        same = [c.left.attribute for c in constraint.comparisons if c.op == "=" and _same_attribute(c)]
        keys = [name(self._column(attribute).read_name) for attribute in dict.fromkeys(same)]
        counted = exp.alias_(exp.cast(exp.Count(this=exp.Star()), "DOUBLE"), "n")
        groups = exp.select(counted).from_(self._rows(same or constraint.attributes, "t1")).group_by(*keys)
        pairs = exp.func("COALESCE", exp.Sum(this=exp.Mul(this=exp.column("n"), expression=exp.column("n"))), whole(0))
        total = exp.select(exp.alias_(exp.cast(pairs, "BIGINT"), "pairs")).from_(groups.subquery("groups"))
        return int(self._engine.aggregate(total).column("pairs")[0].as_py())

    def _compared(self, comparison: Comparison, *, alone: bool = False) -> exp.Expr:
        """``comparison`` over t1 and t2; with ``alone`` both are t1."""
        left = self._domain[comparison.left.attribute]
        if isinstance(comparison.right, Place):
            other = self._domain[comparison.right.attribute]
            if _family(left) != _family(other):
                raise NotComparable(f"{left.name} is {left.kind} and {other.name} is {other.kind}")
            right = self._value(comparison.right, alone)
        else:
            right = _constant(left, comparison.right)
        return _OPERATORS[comparison.op](this=self._value(comparison.left, alone), expression=right)

    def _value(self, place: Place, alone: bool) -> exp.Expr:
        return name(self._column(place.attribute).read_name, "t1" if alone else f"t{place.tuple_variable}")

    def _foreign(self, constraint: ForeignKey, subject: str, others: Others) -> Iterator[Finding]:
        if constraint.table in self._public:
            if count := self._without_public(constraint.columns[0], self._public[constraint.table]):
                yield _refers_to_nothing(constraint.table, subject, count)
            return
        if constraint.table not in others:
            sentence = f"The table {constraint.table} is not at hand."
            yield Finding("not_checked", subject, 0, sentence, f"declare {constraint.table} in the same workspace")
            return
        engine, columns = others[constraint.table]
        by_name = {column.attribute.name: column for column in columns}
        mine = [self._column(attribute) for attribute in constraint.columns]
        theirs = [by_name[attribute] for attribute in constraint.referenced if attribute in by_name]
        if len(theirs) != len(mine) or any(column.kind not in _TEXTS for column in (*mine, *theirs)):
            raise NotComparable("only texts, whole numbers, booleans and dates can be compared between tables")
        known = engine.aggregate(
            exp.select(_joined_text(theirs)).distinct().from_(_source(theirs)).limit(MOST_REFERENCED)
        )
        values = [value for value in known.column("key").to_pylist() if value is not None]
        self._engine.look_up("referenced", values)
        rows = exp.select(_joined_text(mine)).from_(_source(mine)).subquery("mine")
        missing = (
            exp.select("1")
            .from_(rows)
            .join(
                exp.to_table("referenced"),
                on=exp.EQ(this=name("key", "mine"), expression=name("value", "referenced")),
                join_type="LEFT",
            )
        )
        missing = missing.where(_known(name("key", "mine")), exp.not_(_known(name("value", "referenced"))))
        if count := self._count(missing):
            yield _refers_to_nothing(constraint.table, subject, count)

    def _without_public(self, key: str, public: PublicTable) -> int:
        """Rows whose key ``public`` does not list, each key as questions read it; rows without one refer to nothing."""
        column = self._column(key)
        met = np.append(public.known, True)  # the last is place -1: a row without a key that counts
        if column.attribute.null == "cell":
            met[column.attribute.size - 1] = True
        places = bounded_rows([column], Unit("row"), salt="", wanted=[column])
        return sum(int((~met[np.asarray(batch.column(0))]).sum()) for batch in self._engine.batches(places))


def _refers_to_nothing(table: str, subject: str, count: int) -> Finding:
    sentence = f"{number_of(count, 'row refers', 'rows refer')} to nothing in {table}."
    fix = f"add what is missing to {table}, or leave the constraint out"
    return Finding("violated", subject, count, sentence, fix)


def _fix(constraint: FunctionalDependency | DenialConstraint | Key) -> str:
    if isinstance(constraint, Key):
        return "leave the key out, or mend the source"
    return "hard = false, weight = 1 in the constraint, or mend the source"


def _same_attribute(comparison: Comparison) -> bool:
    left, right = comparison.left, comparison.right
    same = isinstance(right, Place) and right.attribute == left.attribute
    return same and right.tuple_variable != left.tuple_variable  # type: ignore[union-attr]


def _known(value: exp.Expr) -> exp.Expr:
    return exp.not_(exp.Is(this=value.copy(), expression=exp.Null()))


def _family(attribute: Attribute) -> str:
    return "number" if attribute.is_numeric else "moment" if attribute.is_temporal else attribute.kind


def _constant(attribute: Attribute, value: object) -> exp.Expr:
    """``value`` as what ``attribute`` is read as."""
    if attribute.is_temporal and (moment := read_moment(value)) is not None:
        return whole(moment)
    if attribute.is_numeric and not isinstance(value, (str, bool)):
        return real(value)  # type: ignore[arg-type]
    if attribute.kind == "boolean" and isinstance(value, bool):
        return whole(int(value))
    if attribute.kind in ("category", "text", "id") and not isinstance(value, bool):
        return exp.Literal.string(str(value))
    raise NotComparable(f"{attribute.name} is {attribute.kind}, and {value!r} is not")


def _source(columns: Sequence[Column]) -> exp.Subquery:
    return as_read(columns, raw=True).subquery("as_read")


def _joined_text(columns: Sequence[Column]) -> exp.Expr:
    """One text for the values of several columns, NULL where one of them is."""
    texts = [try_cast(name(column.raw_name), "VARCHAR") for column in columns]
    joined: exp.Expr = texts[0]
    for text in texts[1:]:
        joined = exp.func("CONCAT", joined, exp.func("CHR", whole(31)), text)
    known = exp.and_(*(_known(text) for text in texts))
    return exp.alias_(exp.Case().when(known, joined), "key", quoted=True)
