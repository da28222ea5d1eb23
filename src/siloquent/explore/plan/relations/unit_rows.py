"""The rows of units that a query is about, without data: their columns' domains, and how each is computed.

A unit has one row whatever its rows are, so that plans for these rows hold with max_rows 1. Proof:
docs/explanation/per-person-subqueries.md.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.computed.inlining import add_summed
from siloquent.explore.plan.relations.related import relate_rows
from siloquent.explore.plan.row_tests import compile_test, require_few_pieces
from siloquent.explore.spec.aggregates import Count, Distinct, Extreme
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import render_aggregate, render_offer
from siloquent.explore.spec.numbers import MAX_DIGITS
from siloquent.explore.spec.per_unit import PerUnit, UnitValue
from siloquent.explore.spec.predicate import Column
from siloquent.explore.spec.promises import Accuracy
from siloquent.explore.spec.query import EVERY_ROW, GroupBy, Item, Query
from siloquent.explore.spec.rewriting.canonical import build_document
from siloquent.fixes import AskWith, FixLike
from siloquent.schema import Attribute, Domain, TableSchema
from siloquent.schema.attribute import MAX_FROM_ZERO, MAX_STEPS
from siloquent.schema.unit_rows import UnitColumn, UnitRows

_WITHIN = "a per-person subquery"


def extend_schema(query: Query, schema: TableSchema) -> TableSchema:
    """Return the schema of the rows that ``query`` is about, with the attributes that its aggregates compute.

    Raises:
        UnknownName, RequestError: a subquery or an expression does not fit the declaration.
    """
    return add_summed(query, relate_units(query, relate_rows(query, schema)))


def relate_units(query: Query, schema: TableSchema) -> TableSchema:
    """Return the schema of the rows that ``query`` is about: those of units if it asks for them, else ``schema``.

    Raises:
        UnknownName, RequestError: the subquery does not fit the declaration, or is not one of its units.
    """
    per_unit = query.per_unit
    if per_unit is None or schema.grouped is not None:
        return schema
    unit = _check_unit(query, per_unit, schema)
    columns = tuple(_build_column(one, schema) for one in per_unit.values)
    test = compile_test(per_unit.where, schema, _WITHIN)
    require_few_pieces([test, *(one.test for one in columns)])
    identity = _compute_identity(per_unit, columns, schema)
    domain = Domain((unit, *(one.attribute for one in columns)), relation=identity)
    return replace(
        schema,
        domain=domain,
        unit=replace(schema.unit, column=unit.name, max_rows=1),
        constraints=(),
        public=(),
        extended=schema.declared,
        grouped=UnitRows(identity, columns, test),
    )


def _check_unit(query: Query, per_unit: PerUnit, schema: TableSchema) -> Attribute:
    """Return the attribute that names the units."""
    found = schema.domain[per_unit.unit]
    if schema.unit.kind == "row":
        raise RequestError(
            f"Each row of {schema.name!r} is a person of its own, so aggregates of a subquery's groups cannot be asked "
            "by person.",
            fix=_suggest_inner(query, per_unit, found),
        )
    unit = schema.domain[schema.unit.column]
    if found is not unit and not _is_unit_of_joined(found, schema):
        raise RequestError(
            f"Aggregates of a subquery's groups can be asked only per person: {found.name!r} does not name the persons "
            f"of {schema.name!r}, {unit.name!r} does.",
            fix=_suggest_unit(query, per_unit, found, unit),
        )
    for aggregate in query.bounded:
        if isinstance(aggregate, Distinct) and aggregate.attribute.casefold() == unit.name.casefold():
            raise RequestError(
                f"The subquery has one row for each {unit.name}, so COUNT(*) counts them.", fix="COUNT(*)"
            )
    return unit


def _is_unit_of_joined(attribute: Attribute, schema: TableSchema) -> bool:
    """Return whether ``attribute`` is a joined table's column that names the units: rows are joined within a unit."""
    link = schema.link
    while link is not None and link.columns is not None:
        parent = link.parent
        names_own = parent.link is None or not parent.link.owns
        if names_own and attribute.name == parent.unit.column and attribute.name in link.columns:
            return True
        link = parent.link
    return False


def _suggest_inner(query: Query, per_unit: PerUnit, key: Attribute) -> FixLike:
    """Return the subquery as a question of its own, if it can be asked with the promise of the whole."""
    asked = [one.aggregate for one in per_unit.values] or [Count()]
    promise = query.promise
    if not key.is_countable or any(isinstance(one, Extreme) for one in asked) or len(set(asked)) < len(asked):
        return "ask the inner query by itself, and compute with the answer at no cost"
    if isinstance(promise, Accuracy):
        if not all(isinstance(one, Count) for one in asked):
            return "ask the inner query by itself, and compute with the answer at no cost"
        promise = replace(promise, more=(promise.bounds[0],) * (len(asked) - 1), at_least=None)
    names = [one.name for one in per_unit.values] or [""]
    first, *others = (Item(one, name) for one, name in zip(asked, names, strict=True))
    inner = Query(
        query.table,
        GroupBy((Column(key.name),)),
        promise,
        first.aggregate,
        where=per_unit.where,
        alias=first.alias,
        others=tuple(others),
    )
    return AskWith(render_offer(inner), "the inner query by itself")


def _suggest_unit(query: Query, per_unit: PerUnit, found: Attribute, unit: Attribute) -> FixLike:
    if not per_unit.values and query.aggregates == (Count(),) and query.workload == EVERY_ROW and query.where is None:
        asked = replace(query, per_unit=None, aggregate=Distinct(found.name), where=per_unit.where)
        return AskWith(render_offer(asked), f"COUNT(DISTINCT {quote_name(found.name)})")
    if any(one.name.casefold() == unit.name.casefold() for one in per_unit.values):
        return f"GROUP BY {quote_name(unit.name)} in the subquery"
    asked = replace(query, per_unit=replace(per_unit, unit=unit.name))
    return AskWith(render_offer(asked), f"GROUP BY {quote_name(unit.name)} in the subquery")


def _build_column(value: UnitValue, schema: TableSchema) -> UnitColumn:
    aggregate, rows = value.aggregate, schema.unit.max_rows
    test = compile_test(aggregate.test, schema, _WITHIN)
    if isinstance(aggregate, Count):
        return UnitColumn(_build_number(value.name, 0 if test is not None else 1, rows), "count", test=test)
    argument = schema.domain[aggregate.attribute]
    if isinstance(aggregate, Distinct):
        if not argument.is_countable:
            raise RequestError(
                f"Which values {argument.name!r} has is not declared, so they cannot be counted for each person.",
                fix="COUNT(*)",
            )
        return UnitColumn(_build_number(value.name, 0, min(rows, argument.steps)), "distinct", argument.name, test)
    if isinstance(aggregate, Extreme):
        return UnitColumn(
            _build_extreme(value, argument), "largest" if aggregate.largest else "least", argument.name, test
        )
    return UnitColumn(_build_total(value, argument, rows), "sum", argument.name, test)


def _build_number(name: str, lo: int, hi: int) -> Attribute:
    return Attribute(name, "integer", Decimal(lo), Decimal(hi), Decimal(1), outside="clamp")


def _build_extreme(value: UnitValue, argument: Attribute) -> Attribute:
    if not (argument.is_numeric or argument.is_temporal):
        what = render_aggregate(value.aggregate)
        raise RequestError(
            f"{what} takes a number or a date; {argument.name!r} is of type {argument.kind}.", fix="COUNT(*)"
        )
    return replace(
        argument, name=value.name, null="cell", null_value=None, labels=(), function="", argument="", outside="clamp"
    )


def _build_total(value: UnitValue, argument: Attribute, rows: int) -> Attribute:
    """Return the domain of a sum of at most ``rows`` numbers."""
    if not argument.is_numeric:
        raise RequestError(f"SUM takes a number; {argument.name!r} is of type {argument.kind}.", fix="COUNT(*)")
    assert isinstance(argument.lo, Decimal)
    assert isinstance(argument.hi, Decimal)
    with localcontext(prec=4 * MAX_DIGITS):
        lo, hi = rows * min(argument.lo, Decimal(0)), rows * max(argument.hi, Decimal(0))
    grid = Fraction(argument.grid or 1)
    steps = (Fraction(hi) - Fraction(lo)) / grid
    if steps >= MAX_STEPS or max(abs(Fraction(lo)), abs(Fraction(hi))) / grid > MAX_FROM_ZERO:
        raise RequestError(
            f"{render_aggregate(value.aggregate)} of {rows:,} rows has more than 2^40 possible values.",
            fix="declare a coarser grid, or a smaller max_rows",
        )
    return Attribute(value.name, argument.kind, lo, hi, argument.grid, outside="clamp", null="cell")


def _compute_identity(per_unit: PerUnit, columns: tuple[UnitColumn, ...], schema: TableSchema) -> str:
    """Compute a digest of the subquery and of the declarations that its values follow from."""
    read = [repr(attribute) for attribute in schema.domain]
    document = build_document(per_unit)
    # Attributes that follow from other tables have names only: what they mean is in the identity of the rows.
    relation = [schema.domain.relation] if schema.domain.relation else []
    facts = (document, [repr(one.attribute) for one in columns], read, schema.unit.code, *relation)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
