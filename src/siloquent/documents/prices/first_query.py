"""A first query for a new table, and its price. The ledger is not opened: looking at a price opens no account."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import SiloquentError

if TYPE_CHECKING:
    from siloquent.api import Session
    from siloquent.schema import TableSchema
    from siloquent.schema.workspace import Workspace

ERRORS = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SMALL_ERRORS = (2, 5, 10)
AFFORDABLE, DEARER = Fraction(1, 20), Fraction(1, 4)
USEFUL = (50, 10, 4)
"""Of a group of average size, an error is at most one of these parts: the first that can be had."""
MAX_GROUPS = 60


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """A query in SQL, its price, and the part of the budget that it would take."""

    text: str
    symbol: str
    price: Fraction
    share: Fraction

    def describe(self) -> str:
        """Return a sentence with its price, and how often the budget would pay it."""
        from siloquent.documents.ledger import format_significant

        percent, times = format_significant(self.share * 100, "up"), int(1 / self.share)
        price = f"{self.symbol} {format_significant(self.price, 'up')}"
        return f"A first query costs {percent} % of the budget ({price}); the budget pays for about {times:,} like it"

    def to_json(self) -> dict[str, str | float]:
        """Return the query as part of a document of kind ``siloquent/declaration/1``."""
        return {"query": self.text, "symbol": self.symbol, "price": str(self.price), "share": float(self.share)}


def price_first_query(workspace: Workspace, schema: TableSchema) -> FirstQuery | None:
    """Return a query over the new table whose error its rows do not drown in; None if none can be priced.

    Of the errors that cost a twentieth of the budget at most, the smallest is taken. If the table's public size says
    that groups of that size would be lost in it, more may be spent, and then all rows are counted instead.
    """
    from siloquent.api import Session
    from siloquent.ledger import MemoryLedger

    grouped, groups = _compose(schema)
    total = f"SELECT COUNT(*) FROM {_render(schema)}"
    size = schema.size_hint
    with closing(Session(workspace, MemoryLedger())) as session:
        known: dict[str, FirstQuery | None] = {}
        tried = [(part, *asked) for part in USEFUL for asked in ((grouped, groups), (total, 1))]
        for part, text, cells in tried:
            largest = None if size is None else Fraction(size, part * cells)
            for affordable in (AFFORDABLE, DEARER):
                for error in ERRORS if largest is None or largest >= ERRORS[0] else SMALL_ERRORS:
                    if largest is not None and error > largest:
                        break
                    asked = f"{text} ERROR {error}"
                    if asked not in known:
                        known[asked] = _price(session, asked)
                    found = known[asked]
                    if found is not None and found.share <= affordable:
                        return found
    return None


def _price(session: Session, text: str) -> FirstQuery | None:
    from siloquent.explore import Explanation

    try:
        told = session.explain(text)
    except SiloquentError:
        return None
    if not isinstance(told, Explanation):
        return None
    return FirstQuery(text, told.symbol, told.price, told.price / told.left_before)


def compose_first_query(schema: TableSchema) -> str:
    """Return a count by the first attribute with few declared values; of all rows if there is none."""
    return _compose(schema)[0]


def _render(schema: TableSchema) -> str:
    from siloquent.explore.spec.language.render_conditions import render_name

    return render_name(schema.name)


def _compose(schema: TableSchema) -> tuple[str, int]:
    """Return the query and its number of groups."""
    from siloquent.explore.spec.language.render_conditions import render_name

    groups = [
        attribute
        for attribute in schema.domain
        if (attribute.kind in ("category", "boolean") and attribute.size <= MAX_GROUPS)
        or 0 < len(attribute.edges) <= MAX_GROUPS
    ]
    groups += [attribute for attribute in schema.domain if attribute.is_code and attribute.size <= MAX_GROUPS]
    table = render_name(schema.name)
    if not groups:
        return f"SELECT COUNT(*) FROM {table}", 1
    key = render_name(groups[0].name)
    count = len(groups[0].edges) - 1 if groups[0].edges else groups[0].size
    return f"SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}", max(count, 1)
