"""Sources of a query: a table, and the rows or the groups that a subquery or a query of WITH chooses.

A query over the columns of groups computes with released values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import cast

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import (
    AnyOf,
    Derived,
    Function,
    Kept,
    Measured,
    Number,
    Operation,
    OverGroups,
    ShownCondition,
)
from siloquent.explore.spec.language.expressions.tested import add_test
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.per_unit import PerUnit
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    CompareOp,
    Expression,
    JoinedColumn,
    Not,
    Or,
    Predicate,
    Value,
)
from siloquent.explore.spec.query import Join, Query, Workload
from siloquent.explore.spec.related import is_related
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns

_OPPOSITE: dict[CompareOp, CompareOp] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "=": "!=", "!=": "="}
_FUNCTIONS = ("round", "floor", "ceil", "abs", "sign", "coalesce", "nullif", "greatest", "least")


def adopt(value: Derived, measured: Sequence[Aggregate], into: list[Aggregate]) -> Derived:
    """Return ``value`` over the aggregates ``into``, to which those of ``measured`` that it takes are added."""
    if isinstance(value, Measured):
        aggregate = measured[value.place]
        if aggregate not in into:
            into.append(aggregate)
        return Measured(into.index(aggregate))
    if isinstance(value, Operation):
        return replace(value, left=adopt(value.left, measured, into), right=adopt(value.right, measured, into))
    if isinstance(value, OverGroups):
        return replace(value, value=adopt(value.value, measured, into))
    if isinstance(value, Function):
        return replace(value, arguments=tuple(adopt(one, measured, into) for one in value.arguments))
    return value


def adopt_kept(kept: Kept, measured: Sequence[Aggregate], into: list[Aggregate]) -> Kept:
    """Return conditions over the aggregates ``into``, as ``adopt`` does."""
    if isinstance(kept, AnyOf):
        return AnyOf(tuple(tuple(adopt_kept(one, measured, into) for one in part) for part in kept.parts))
    return replace(kept, left=adopt(kept.left, measured, into), right=adopt(kept.right, measured, into))


def _add(aggregate: Aggregate, test: Predicate | None) -> Aggregate:
    return aggregate if test is None else add_test(aggregate, test)


@dataclass(frozen=True, slots=True)
class GroupedView:
    """Groups of rows with their aggregates: ``keys`` and ``values`` by the names of their columns.

    ``measured``: the aggregates, each once; ``kept``: the conditions of HAVING on them. ``view``: the rows, if a
    subquery chooses them. ``joins``: linked tables that are joined, and ``on`` the columns that are said to be equal.
    ``is_outer``: as of ``Source``.
    """

    table: str
    view: View | None
    join: Join | None
    where: Predicate | None
    workload: Workload
    keys: Mapping[str, Expression]
    values: Mapping[str, Derived]
    measured: tuple[Aggregate, ...]
    kept: tuple[Kept, ...] = ()
    joins: tuple[str, ...] = ()
    on: tuple[tuple[JoinedColumn, JoinedColumn], ...] = ()
    is_outer: bool = False

    def merge(self, other: GroupedView) -> GroupedView:
        """Return the columns of both, which are one row each, of the same table.

        Raises:
            RequestError: they are not, or share a name.
        """
        own, others = ((one.table, one.view, one.join, one.joins, one.on, one.is_outer) for one in (self, other))
        same = own == others
        shared = {name.casefold() for name in self.names} & {name.casefold() for name in other.names}
        if not same or self.keys or other.keys or self.kept or other.kept or shared:
            raise RequestError(
                "Two queries can be combined only if each returns one row of aggregates of the same table.",
                fix="write one query with the aggregates of both",
            )
        measured = list(self.measured)
        where, tests = (self.where, (None, None)) if self.where == other.where else (None, (self.where, other.where))
        measured = [_add(one, tests[0]) for one in measured]
        values = dict(self.values)
        for name, value in other.values.items():
            values[name] = adopt(value, [_add(one, tests[1]) for one in other.measured], measured)
        return replace(self, where=where, values=values, measured=tuple(measured))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.keys, *self.values)

    def find_key(self, expression: Expression) -> str | None:
        """Find the name of the key that ``expression`` names; None if it names none."""
        if not isinstance(expression, Column):
            return None
        return next((name for name in self.keys if name.casefold() == expression.name.casefold()), None)

    def convert(self, expression: Expression) -> Derived:
        """Return an expression of the columns as one of released values.

        Raises:
            RequestError: it has another column, or is not one of released values.
        """
        if isinstance(expression, Column):
            return self._find_value(expression.name)
        if isinstance(expression, Value) and isinstance(expression.value, (int, Decimal)):
            return Number(Decimal(expression.value))
        if isinstance(expression, Arithmetic) and expression.op in ("+", "-", "*", "/"):
            return Operation(self.convert(expression.left), expression.op, self.convert(expression.right))
        if isinstance(expression, Call) and expression.function in _FUNCTIONS:
            return self._convert_call(expression)
        raise self._build_refusal(
            "A query over groups computes with their columns by + - * / and functions of numbers."
        )

    def _convert_call(self, call: Call) -> Derived:
        name = call.function
        if name == "round":
            places = [one.value for one in call.more if isinstance(one, Value)]
            return Function("round", (self.convert(call.argument),), int(cast(int, places[0])) if places else 0)
        arguments = tuple(self.convert(one) for one in (call.argument, *call.more))
        return Function(name, arguments)  # type: ignore[arg-type]

    def _find_value(self, name: str) -> Derived:
        for known, value in self.values.items():
            if known.casefold() == name.casefold():
                return value
        raise self._build_refusal(f"{name[:40]!r} is not a column of the subquery.")

    def keep(self, predicate: Predicate) -> list[Kept]:
        """Return a condition on the columns as conditions on released values, joined by AND.

        Raises:
            RequestError: as for ``convert``; or it is not made of comparisons.
        """
        if isinstance(predicate, And):
            return [kept for part in predicate.parts for kept in self.keep(part)]
        if isinstance(predicate, Or) and predicate.parts:
            return [AnyOf(tuple(tuple(self.keep(part)) for part in predicate.parts))]
        if isinstance(predicate, Not) and isinstance(predicate.part, Compare):
            part = predicate.part
            return self.keep(Compare(part.left, _OPPOSITE[part.op], part.right))
        if isinstance(predicate, Compare):
            return [ShownCondition(self.convert(predicate.left), predicate.op, self.convert(predicate.right))]
        raise self._build_refusal("Groups are chosen by comparisons of their values, joined by AND and OR.")

    def _build_refusal(self, why: str) -> RequestError:
        named = ", ".join(self.names)
        return RequestError(why, fix=f"use the columns {named}, or put conditions on rows into the subquery's WHERE")


@dataclass(frozen=True, slots=True)
class Source:
    """The table of a query, its join, and all names by which a text may refer to either.

    ``listed``: a table after a comma, which WHERE joins: ``FROM visits v, wards w WHERE v.ward = w.ward``.
    ``view``: the rows and columns of the table that a subquery or a query of WITH chooses; ``groups``: its groups.
    ``joins``: linked tables that are joined, and ``on`` the conditions after ON and USING.
    ``per_unit``: its rows, one for each unit. ``is_outer``: the table's rows are there without a row to join, too.
    """

    table: str
    join: Join | None
    names: tuple[str, ...]
    listed: str = ""
    view: View | None = None
    groups: GroupedView | None = None
    joins: tuple[str, ...] = ()
    on: tuple[Predicate, ...] = ()
    per_unit: PerUnit | None = None
    is_outer: bool = False

    @property
    def keeps_unmatched(self) -> bool:
        """Whether it is an outer join, or a subquery that is one."""
        return self.is_outer or (self.view is not None and self.view.source.is_outer)


@dataclass(frozen=True, slots=True)
class View:
    """Rows of one table: those of ``where``, with all columns, or with ``columns``: expressions by their names.

    ``has_others``: all columns of the table are there besides. ``on``: the columns in which its source's linked tables
    are equal.
    """

    source: Source
    where: Predicate | None
    columns: Mapping[str, Expression] | None
    has_others: bool = False
    on: tuple[tuple[JoinedColumn, JoinedColumn], ...] = ()

    def find(self, column: Column) -> Expression:
        """Find the expression of a column, whatever the case it is written in."""
        if self.columns is None:
            return column
        folded = {name.casefold(): expression for name, expression in self.columns.items()}
        if column.name.casefold() not in folded and (self.has_others or is_related(column.name)):
            return column
        if column.name.casefold() not in folded:
            raise RequestError(
                f"{column.name[:40]!r} is not a column of the subquery.",
                fix=f"use one of {', '.join(map(quote_name, self.columns))}, or add it to the subquery",
            )
        return folded[column.name.casefold()]

    def rename_keys(self, keys: Sequence[Expression], names: Sequence[str]) -> list[str]:
        """Return the names of keys: as given, or that of the subquery's column."""
        pairs = zip(keys, names, strict=True)
        return [
            key.name if not name and isinstance(key, Column) and self.find(key) != key else name for key, name in pairs
        ]

    def inline(self, query: Query) -> Query:
        """Return ``query`` about the table itself."""
        found = substitute_columns(query, self.find) if self.columns is not None else query
        return found if self.where is None else replace(found, where=join_conditions(self.where, found.where))


def join_conditions(inner: Predicate | None, outer: Predicate | None) -> Predicate | None:
    """Join two conditions by AND; None if there is none."""
    found = [one for one in (inner, outer) if one is not None]
    parts = [part for one in found for part in (one.parts if isinstance(one, And) else (one,))]
    return (parts[0] if len(parts) == 1 else And(tuple(parts))) if parts else None
