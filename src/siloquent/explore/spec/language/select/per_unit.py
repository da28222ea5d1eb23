"""Per-person subqueries, as parsed: their columns and conditions; aggregates of their rows are the query itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import Aggregate, name_column
from siloquent.explore.spec.derived import AnyOf, Derived, Function, Kept, Measured, Number, Operation
from siloquent.explore.spec.language.refusals import quote_name
from siloquent.explore.spec.language.select.views import GroupedView, join_conditions
from siloquent.explore.spec.per_unit import PerUnit, UnitAggregate, UnitValue, is_unit_aggregate
from siloquent.explore.spec.predicate import And, Arithmetic, Call, Column, Compare, Expression, Or, Predicate, Value
from siloquent.explore.spec.query import GroupBy
from siloquent.explore.spec.rewriting.name_resolution import substitute_columns

_KEY = (
    "Aggregates of a subquery's groups can be asked only if the subquery has one row for each person: grouped by the "
    "attribute that names the persons, and by no other key."
)
_VALUES = "The columns of a per-person subquery must be COUNT, SUM, MIN, MAX or COUNT(DISTINCT ...) of attributes."
_JOINED = "A per-person subquery takes one table."
_FUNCTIONS = ("round", "floor", "ceil", "abs", "sign", "coalesce", "nullif", "greatest", "least")


def build_per_unit(groups: GroupedView) -> tuple[PerUnit, Predicate | None]:
    """Build the subquery whose rows are those of ``groups``, and the condition on its columns that HAVING makes.

    Raises:
        RequestError: it is not one of one table's persons, or has columns that are not computed for each.
    """
    unit = find_unit_key(groups)
    if unit is None:
        raise RequestError(_KEY, fix="ask the inner query by itself, and compute with the answer at no cost")
    if groups.join is not None or (groups.view is not None and groups.view.source.join is not None):
        raise RequestError(_JOINED, fix="leave the join out")
    names = _name_values(groups)
    values = tuple(UnitValue(names[place], _require(one)) for place, one in enumerate(groups.measured))
    where = groups.where
    if groups.view is not None:
        view = groups.view
        values = tuple(replace(one, aggregate=_require(substitute_columns(one.aggregate, view.find))) for one in values)
        where = join_conditions(view.where, None if where is None else substitute_columns(where, view.find))
        found = view.find(unit)
        if not isinstance(found, Column):
            raise RequestError(_KEY, fix="GROUP BY the attribute itself")
        unit = found
    kept = [_keep(one, names) for one in groups.kept]
    return PerUnit(unit.name, values, where), And(tuple(kept)) if kept else None


def find_unit_key(groups: GroupedView) -> Column | None:
    """Find the only key of ``groups``, if it is an attribute."""
    workload = groups.workload
    if not isinstance(workload, GroupBy) or len(workload.keys) != 1 or workload.sets:
        return None
    (key,) = workload.keys
    return key if isinstance(key, Column) else None


def _require(aggregate: Aggregate) -> UnitAggregate:
    if not is_unit_aggregate(aggregate):
        raise RequestError(_VALUES, fix="compute averages and expressions of these columns in the outer query")
    return cast(UnitAggregate, aggregate)


def _name_values(groups: GroupedView) -> list[str]:
    """Name each aggregate: as the subquery does, or after itself if only HAVING has it."""
    named = {one.place: name for name, one in groups.values.items() if isinstance(one, Measured)}
    if any(not isinstance(one, Measured) for one in groups.values.values()):
        raise RequestError(_VALUES, fix="compute with these columns in the outer query")
    taken = {name.casefold() for name in named.values()}
    found = []
    for place, aggregate in enumerate(groups.measured):
        name = named.get(place) or name_column(aggregate)
        while place not in named and name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        found.append(name)
    return found


def _keep(kept: Kept, names: Sequence[str]) -> Predicate:
    """Return a condition of HAVING as one on columns."""
    if isinstance(kept, AnyOf):
        return Or(tuple(And(tuple(_keep(one, names) for one in part)) for part in kept.parts))
    return Compare(_convert(kept.left, names), kept.op, _convert(kept.right, names))


def _convert(value: Derived, names: Sequence[str]) -> Expression:
    if isinstance(value, Measured):
        return Column(names[value.place])
    if isinstance(value, Number):
        return Value(value.number)
    if isinstance(value, Operation):
        return Arithmetic(_convert(value.left, names), value.op, _convert(value.right, names))
    if isinstance(value, Function) and value.name in _FUNCTIONS:
        first, *more = (_convert(one, names) for one in value.arguments)
        places = [Value(value.decimals)] if value.name == "round" and value.decimals else []
        return Call(value.name, first, (*more, *places))
    raise RequestError(
        "HAVING of a per-person subquery can only compare its columns.",
        fix=f"WHERE in the outer query, of {', '.join(map(quote_name, names))}",
    )
