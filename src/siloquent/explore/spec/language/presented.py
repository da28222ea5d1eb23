"""The presentation of a query that is built in Python: its order, limit and computed values, as SQL has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from siloquent.errors import RequestError
from siloquent.explore.spec.aggregates import Aggregate
from siloquent.explore.spec.derived import Derived, Measured, ShownValue
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.language.derived import ValueReader
from siloquent.explore.spec.language.select.ordering import SelectList, parse_order
from siloquent.explore.spec.predicate import Expression
from siloquent.explore.spec.presentation import Presentation
from siloquent.explore.spec.query import Item, Top


def build_presentation(
    keys: Sequence[Expression],
    items: Sequence[Item],
    order: Sequence[str],
    computed: Mapping[str, str],
    limit: tuple[int | None, int],
    *,
    is_chosen: bool,
) -> tuple[Top | None, Presentation, list[Aggregate]]:
    """Return the free choice and the presentation, and the aggregates of ``items`` in the order in which SQL has them.

    Args:
        order: The keys of ORDER BY.
        computed: The values that are shown instead of ``items``, by their names.
        limit: The number of rows shown, None for all, and of those skipped before.
        is_chosen: Whether the query chooses groups already.
    Raises:
        RequestError: an aggregate is not among ``items``, or one of them is not shown.
    """
    aggregates = [item.aggregate for item in items]
    if not (order or computed or limit != (None, 0)):
        return None, Presentation(), aggregates
    values: list[Derived] = [Measured(place) for place in range(len(items))]
    names = [item.column for item in items]
    if computed:
        names, aggregates = list(computed), []
        values = [_parse_value(text, aggregates) for text in computed.values()]
        if set(aggregates) != {item.aggregate for item in items}:
            raise RequestError(
                "The values of showing must use exactly the aggregates of the query.",
                fix="also('COUNT(*)', rows=200) adds one",
            )
    selected = SelectList(keys, [""] * len(keys), values, names, aggregates, range(len(keys) + len(values)))
    number = len(aggregates)
    top, found = parse_order(", ".join(order), selected, *limit, is_chosen=is_chosen)
    if len(selected.measured) > number or selected.hidden:
        raise RequestError("Only aggregates of the query can sort it.", fix="also('COUNT(*)', rows=200)")
    shown = tuple(ShownValue(name, value) for name, value in zip(names, values, strict=True))
    return top, replace(found, shown=shown if computed else ()), aggregates


def _parse_value(text: str, aggregates: list[Aggregate]) -> Derived:
    """Parse an expression of aggregates, and add those that are new to ``aggregates``."""
    cursor = Cursor(text)
    value = ValueReader(cursor, aggregates).read()
    cursor.finish()
    return value
