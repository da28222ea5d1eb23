"""The items between SELECT and FROM: keys and values, and the names of the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from siloquent.explore.spec.aggregates import Aggregate, name_column
from siloquent.explore.spec.derived import Derived, Function, Measured, OverGroups, ShownValue
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.derived import ValueReader
from siloquent.explore.spec.language.expressions.conditions import read_expression
from siloquent.explore.spec.language.refusals import AGGREGATES, OTHER_AGGREGATES
from siloquent.explore.spec.language.select.ordering import SelectList
from siloquent.explore.spec.language.select.sources import is_bare_alias
from siloquent.explore.spec.predicate import Column, Expression
from siloquent.explore.spec.query import GroupBy, Item, Workload
from siloquent.fixes import AskWith

EXAMPLE = AskWith("SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200")


@dataclass(frozen=True, slots=True)
class SelectedKey:
    """A key in the SELECT list."""

    start: int
    expression: Expression
    alias: str


@dataclass(frozen=True, slots=True)
class SelectedValue:
    """A value in the SELECT list."""

    value: Derived
    alias: str


@dataclass(slots=True)
class SelectItems:
    """The items between SELECT and FROM, in order; ``measured``: the aggregates in them, each once."""

    written: list[SelectedKey | SelectedValue] = field(default_factory=list)
    measured: list[Aggregate] = field(default_factory=list)

    @property
    def keys(self) -> list[SelectedKey]:
        return [one for one in self.written if isinstance(one, SelectedKey)]

    @property
    def values(self) -> list[SelectedValue]:
        return [one for one in self.written if isinstance(one, SelectedValue)]


def read_items(cursor: Cursor) -> SelectItems:
    """Parse the items, as far as FROM."""
    items = SelectItems()
    while True:
        if cursor.is_at("*", "DISTINCT"):
            raise cursor.build_problem()
        if cursor.has_in_item((*AGGREGATES, *OTHER_AGGREGATES)):
            value = ValueReader(cursor, items.measured).read()
            items.written.append(SelectedValue(value, _read_item_alias(cursor)))
        else:
            start = cursor.token.start
            expression = read_expression(cursor)
            items.written.append(SelectedKey(start, expression, _read_item_alias(cursor)))
        if not cursor.take(","):
            return items


def _read_item_alias(cursor: Cursor) -> str:
    """Parse ``AS name`` or a name alone; empty without it."""
    if cursor.take("AS") or is_bare_alias(cursor, ",", "FROM"):
        return cursor.take_name("a column of the answer")
    return ""


def list_columns(items: SelectItems, workload: Workload) -> SelectList:
    """List the columns that the rest of the query may name."""
    keys = workload.keys if isinstance(workload, GroupBy) else ()
    names = {key.expression: key.alias for key in items.keys}
    given = [names.get(key, "") for key in keys]
    # A key that is given the name it has anyway is not renamed.
    renamed = [
        "" if isinstance(key, Column) and key.name == name else name for key, name in zip(keys, given, strict=True)
    ]
    values = items.values
    positions = [
        keys.index(one.expression) if isinstance(one, SelectedKey) else len(keys) + number
        for one, number in zip(items.written, _count_values(items), strict=True)
        if isinstance(one, SelectedValue) or one.expression in keys
    ]
    return SelectList(
        keys, renamed, [one.value for one in values], [one.alias for one in values], items.measured, positions
    )


def _count_values(items: SelectItems) -> list[int]:
    """Count the values before each item."""
    before, found = 0, []
    for one in items.written:
        found.append(before)
        before += isinstance(one, SelectedValue)
    return found


def name_values(items: SelectItems, hidden: Sequence[Derived]) -> tuple[ShownValue, ...]:
    """Name each value: as written, or after its aggregate or function, with a number where that name is taken."""
    taken: set[str] = set()  # two equal names that are written are refused, and not changed
    shown = []
    for one in items.values:
        name = one.alias or _take_name(_get_default_name(one.value, items.measured), taken)
        shown.append(ShownValue(name, one.value))
    taken |= {one.name for one in shown}
    return (
        *shown,
        *(ShownValue(_take_name(_get_default_name(value, items.measured), taken), value) for value in hidden),
    )


def _get_default_name(value: Derived, measured: Sequence[Aggregate]) -> str:
    if isinstance(value, Measured):
        return name_column(measured[value.place])
    return value.name if isinstance(value, (Function, OverGroups)) else "value"


def _take_name(name: str, taken: set[str]) -> str:
    """Return ``name``, with a number if it is among ``taken``; and add it to them."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def name_measured(items: SelectItems, shown: Sequence[ShownValue]) -> list[Item]:
    """Build the measured items; each has the name under which it is shown first, if it is."""
    plain = [Measured(place) for place in range(len(items.measured))]
    is_plain = [one.value for one in items.values] == plain
    names = {one.value: one.name for one in reversed(shown) if isinstance(one.value, Measured)}
    written = {one.value: one.alias for one in items.values}
    taken = {*names.values()}
    found = []
    for aggregate, value in zip(items.measured, plain, strict=True):
        default = name_column(aggregate)
        name = names[value] if value in names else _take_name(default, taken)
        # A name that is written is kept as it is: it belongs to the question's digest.
        found.append(Item(aggregate, (written[value] if is_plain else "") or ("" if name == default else name)))
    return found
