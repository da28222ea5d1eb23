"""A table file with a place for what a test is about."""

from __future__ import annotations

from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema

AGE = '{ name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop" }'
BUDGET = 'accountant = "pure"\nepsilon = "1"'


def table_file(
    attributes: str = AGE,
    *,
    table: str = 'name = "visits"\nadjacency = "add-remove"\nunit = { kind = "row" }',
    budget: str = BUDGET,
    more: str = "",
) -> str:
    """The text of a table file; ``more`` comes before [table]."""
    return f"format = 1\nattribute = [{attributes}]\n{more}\n[table]\n{table}\n[budget]\n{budget}\n"


def schema(attributes: str = AGE, *, more: str = "", table: str = "", budget: str = BUDGET) -> TableSchema:
    """The table that such a file declares."""
    return parse_schema(
        table_file(attributes, more=more, budget=budget, **({"table": table} if table else {}))  # type: ignore[arg-type]
    )
