"""A first query for a new table, and its price. The ledger is not opened: looking at a price opens no account."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from siloquent.errors import SiloquentError

if TYPE_CHECKING:
    from siloquent.schema import TableSchema
    from siloquent.schema.workspace import Workspace

ERRORS = (20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
AFFORDABLE = Fraction(1, 20)
MAX_GROUPS = 60


@dataclass(frozen=True, slots=True)
class FirstQuery:
    """A query in SQL, its price, and the part of the budget that it would take."""

    text: str
    symbol: str
    price: Fraction
    share: Fraction


def price_first_query(workspace: Workspace, schema: TableSchema) -> FirstQuery | None:
    """Return a query over the new table that costs at most a twentieth of its budget; None if none can be priced."""
    from siloquent.api import Session
    from siloquent.explore import Explanation
    from siloquent.ledger import MemoryLedger

    with closing(Session(workspace, MemoryLedger())) as session:
        for error in ERRORS:
            text = f"{compose_first_query(schema)} ERROR {error}"
            try:
                told = session.explain(text)
            except SiloquentError:
                continue
            if isinstance(told, Explanation) and told.price <= AFFORDABLE * told.left_before:
                return FirstQuery(text, told.symbol, told.price, told.price / told.left_before)
    return None


def compose_first_query(schema: TableSchema) -> str:
    """Return a count by the first attribute with few declared values; of all rows if there is none."""
    from siloquent.explore.spec.language.render import render_name

    groups = [
        attribute
        for attribute in schema.domain
        if (attribute.kind in ("category", "boolean") and attribute.size <= MAX_GROUPS)
        or 0 < len(attribute.edges) <= MAX_GROUPS
    ]
    groups += [attribute for attribute in schema.domain if attribute.is_code and attribute.size <= MAX_GROUPS]
    table = render_name(schema.name)
    if not groups:
        return f"SELECT COUNT(*) FROM {table}"
    key = render_name(groups[0].name)
    return f"SELECT {key}, COUNT(*) FROM {table} GROUP BY {key}"
