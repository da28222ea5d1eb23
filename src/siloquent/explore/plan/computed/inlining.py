"""Queries with computed columns in place of expressions that no cell-by-cell evaluation answers. No data."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.explore.plan.computed.arithmetic import MayBeZero
from siloquent.explore.plan.computed.attributes import (
    TooFine,
    build_test_attribute,
    build_value_attribute,
    round_to_fit,
)
from siloquent.explore.plan.computed.narrowing import narrow_cells
from siloquent.explore.plan.computed.plainness import is_cellwise, is_plain
from siloquent.explore.plan.relations.public_joins import build_through, find_joined, inline_join
from siloquent.explore.spec.aggregates import Aggregate, Count
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.render import render, render_offer
from siloquent.explore.spec.language.render_conditions import render_expression, render_predicate
from siloquent.explore.spec.predicate import And, Column, Compare, Expression, Not, Or, Predicate, Value
from siloquent.explore.spec.query import GroupBy, Predicates, Query, SomeGroups
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns
from siloquent.explore.spec.rewriting.normal_form import iter_expressions, list_attributes, normalize_predicate
from siloquent.fixes import AskWith, Fix, build_fix
from siloquent.schema import Attribute, TableSchema


def add_summed(query: Query, schema: TableSchema) -> TableSchema:
    """Return ``schema`` with a computed attribute for each expression inside an aggregate of ``query``.

    Their bounds are those of the rows that pass WHERE.

    Raises:
        UnknownName, RequestError: an expression cannot be planned.
    """
    found = {one.name: one for one in schema.domain.computed}
    before = len(found)
    for aggregate in query.bounded:
        if not isinstance(aggregate, Count) and aggregate.computed is not None and aggregate.attribute not in found:
            through = build_through(find_joined(query, schema), schema)
            attribute = _build_summed(query, aggregate, substitute_columns(aggregate.computed, through), schema)
            _require_new(attribute, schema)
            found[attribute.name] = attribute
    if len(found) == before:
        return schema
    domain = replace(schema.domain, computed=tuple(found.values()))
    return replace(schema, domain=domain, extended=schema.declared)


def _build_summed(query: Query, aggregate: Aggregate, expression: Expression, schema: TableSchema) -> Attribute:
    cells = narrow_cells(inline_join(query, schema).where, schema.domain)
    try:
        return build_value_attribute(expression, schema.domain, cells)
    except MayBeZero as refused:
        refused.remedy = _suggest_without_zero(query, aggregate, refused, expression, schema)
        raise
    except TooFine as refused:
        assert not isinstance(aggregate, Count)
        rounded = round_to_fit(expression, schema.domain, cells)
        asked = replace_aggregate(query, aggregate, replace(aggregate, computed=rounded))
        refused.remedy = build_fix(AskWith(render(asked), render_expression(rounded)))
        raise


def _suggest_without_zero(
    query: Query, aggregate: Aggregate, refused: MayBeZero, expression: Expression, schema: TableSchema
) -> Fix:
    """Suggest ``query`` of rows whose divisor is above 0, or counts in place of the quotient."""
    assert refused.divisor is not None
    test = Compare(refused.divisor, ">", Value(0))
    with suppress(RequestError):
        where = normalize_predicate(test if query.where is None else And((query.where, test)))
        asked = replace(query, where=where)
        build_value_attribute(expression, schema.domain, narrow_cells(inline_join(asked, schema).where, schema.domain))
        return build_fix(AskWith(render_offer(asked), render_predicate(test)))
    return build_fix(AskWith(render_offer(replace_aggregate(query, aggregate, Count())), "COUNT(*)"))


def replace_aggregate(query: Query, wrong: Aggregate, right: Aggregate) -> Query:
    """Return ``query`` with ``right`` in place of ``wrong``, wherever it stands."""
    items = tuple(replace(one, aggregate=right) if one.aggregate == wrong else one for one in query.others)
    asked = replace(query, aggregate=right if query.aggregate == wrong else query.aggregate, others=items)
    for name in ("having", "top"):
        choice = getattr(asked, name)
        if choice is not None and choice.of == wrong:
            asked = replace(asked, **{name: replace(choice, of=right)})
    return asked


def _require_new(attribute: Attribute, schema: TableSchema) -> None:
    """Refuse an expression whose text is the name of an attribute."""
    known = {name.casefold() for name in schema.domain.names}
    if attribute.name.casefold() in known:
        raise RequestError(
            f"{attribute.name!r} is an expression and the name of an attribute.",
            fix=f"{quote_name(attribute.name)} for the attribute; ROUND({attribute.name}, 6) for the expression",
        )


class _Inliner:
    """The computed attributes of one query, by name."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.found: dict[str, Attribute] = {}

    def inline_expression(self, expression: Expression) -> Expression:
        if is_plain(expression):
            return expression
        return self._add(build_value_attribute(expression, self.schema.domain, {}))

    def inline_test(self, predicate: Predicate, *, negated: bool = False) -> Predicate:
        if isinstance(predicate, Not):
            return Not(self.inline_test(predicate.part, negated=not negated))
        if isinstance(predicate, (And, Or)):
            return type(predicate)(tuple(self.inline_test(part, negated=negated) for part in predicate.parts))
        return predicate if is_cellwise(predicate, self.schema.domain) else self.add_test(predicate, negated=negated)

    def add_test(self, predicate: Predicate, *, negated: bool = False) -> Predicate:
        """Return a test of one computed column with three cells."""
        built = build_test_attribute(predicate, self.schema.domain, negated=negated)
        return Compare(self._add(built), "=", Value(True))

    def _add(self, attribute: Attribute) -> Column:
        _require_new(attribute, self.schema)
        self.found.setdefault(attribute.name, attribute)
        return Column(attribute.name)

    def extend(self) -> TableSchema:
        domain = self.schema.domain
        computed = (*domain.computed, *(one for name, one in self.found.items() if not _knows(domain.computed, name)))
        if not self.found:
            return self.schema
        return replace(self.schema, domain=replace(domain, computed=computed), extended=self.schema.declared)


def _knows(attributes: tuple[Attribute, ...], name: str) -> bool:
    return any(attribute.name == name for attribute in attributes)


def inline_computed(query: Query, schema: TableSchema) -> tuple[Query, TableSchema]:
    """Return ``query`` with computed columns for its conditions and keys that need them, and the schema that has them.

    Raises:
        UnknownName, RequestError: an expression cannot be planned.
    """
    inliner = _Inliner(schema)
    where = None if query.where is None else inliner.inline_test(query.where)
    workload = query.workload
    if isinstance(workload, Predicates):
        workload = Predicates(tuple(map(inliner.inline_test, workload.parts)))
    elif isinstance(workload, SomeGroups):
        workload = replace(workload, all_groups=_inline_keys(workload.all_groups, inliner))
    elif isinstance(workload, GroupBy):
        workload = _inline_keys(workload, inliner)
    if not inliner.found:
        return query, schema
    return replace(query, where=where, workload=workload), inliner.extend()


def _inline_keys(workload: GroupBy, inliner: _Inliner) -> GroupBy:
    return replace(workload, keys=tuple(map(inliner.inline_expression, workload.keys)))


def inline_condition(query: Query, schema: TableSchema) -> tuple[Query, TableSchema] | None:
    """Return ``query`` with its whole WHERE as one computed column; None if it has none.

    For conditions on more cells than can be counted one by one.

    Raises:
        UnknownName, RequestError: as for ``inline_computed``.
    """
    if query.where is None or not any(map(list_attributes, iter_expressions(query.where))):
        return None
    inliner = _Inliner(schema)
    where = inliner.add_test(query.where)
    bare, extended = inline_computed(replace(query, where=None), inliner.extend())
    return replace(bare, where=where), extended
