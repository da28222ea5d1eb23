"""Per-person subqueries: one row for each unit, with numbers computed from all its rows."""

from __future__ import annotations

from dataclasses import dataclass

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import Aggregate, Count, Distinct, Extreme, Sum
from siloquent.explore.spec.predicate import Predicate, check_name
from siloquent.explore.spec.rewriting.normal_form import normalize_predicate

MAX_VALUES = 16
UnitAggregate = Count | Distinct | Sum | Extreme
"""The aggregates of a unit's own rows; nothing is released of them."""


@dataclass(frozen=True, slots=True)
class UnitValue:
    """One number of each unit, and the name of its column."""

    name: str
    aggregate: UnitAggregate

    def __post_init__(self) -> None:
        check_name(self.name, "column")


@dataclass(frozen=True, slots=True)
class PerUnit:
    """``SELECT unit, COUNT(*) AS n FROM visits WHERE ... GROUP BY unit``: a row for each unit with rows that pass.

    ``unit``: the attribute that names the units.
    """

    unit: str
    values: tuple[UnitValue, ...] = ()
    where: Predicate | None = None

    def __post_init__(self) -> None:
        check_name(self.unit, "attribute")
        if self.where is not None:
            object.__setattr__(self, "where", normalize_predicate(self.where))
        if len(self.values) > MAX_VALUES:
            raise RequestError(f"A per-person subquery has at most {MAX_VALUES} columns.", fix="ask fewer")
        names = [one.name.casefold() for one in self.values]
        twice = next(
            (one for one in (self.unit, *self.names) if [*names, self.unit.casefold()].count(one.casefold()) > 1), ""
        )
        if twice:
            raise RequestError(f"The subquery has two columns {twice[:40]!r}.", fix="use another name after AS")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, without the unit's own."""
        return tuple(one.name for one in self.values)

    def find(self, name: str) -> UnitValue | None:
        """Find a column by its name, whatever the case it is written in."""
        return next((one for one in self.values if one.name.casefold() == name.casefold()), None)


def is_unit_aggregate(aggregate: Aggregate) -> bool:
    """Return whether ``aggregate`` can be computed for each unit: of an attribute, not of an expression."""
    return isinstance(aggregate, (Count, Distinct, Sum, Extreme)) and getattr(aggregate, "computed", None) is None
