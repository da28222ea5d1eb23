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


WHOLE = """
format = 1                                                   # comments do not count
attribute = [
  { name = "patient", type = "id" },
  { name = "age", type = "integer", lo = 0, hi = 120, outside = "clamp", null = "drop", bins = { width = 50 } },
  { name = "weight", type = "real", lo = 0, hi = 300, grid = 0.1, outside = "drop", null = "drop", bins = { edges = [0, 50, 80.5, 300] } },
  { name = "ward", type = "category", values = ["A", "B", "C"], other = "cell", null = "cell" },
  { name = "smoker", type = "boolean", null = { value = false } },
  { name = "day", type = "date", lo = 2024-01-01, hi = 2024-12-31, grid = "day", outside = "drop", null = "drop" },
  { name = "at", type = "datetime", lo = 2024-01-01T00:00:00, hi = 2024-01-02, grid = "hour", outside = "clamp", null = "drop" },
  { name = "note", type = "text", max_bytes = 4000 },
]
derived = [{ name = "size", from = ["note"], function = "length", type = "integer", lo = 0, hi = 4000, outside = "clamp", null = "drop" }]
constraint = [
  { kind = "fd", lhs = ["ward"], rhs = "smoker", hard = false, weight = 2.5, when = "age >= 18" },
  { kind = "denial", not = "t1.age > t2.age and t1.weight < t2.weight", hard = true },
  { kind = "key", columns = ["patient", "day"] },
  { kind = "foreign_key", columns = ["ward"], references = "wards(ward)" },
]
[table]
name = "visits"
source = "parquet:data/visits.parquet"
adjacency = "replace-one"
version = 3
size_hint = 120000
unit = { kind = "user", column = "patient", max_rows = 8 }
[budget]
accountant = "zcdp"
epsilon = "1"
delta = "1e-6"
epoch = 2
analysts = { bo = "0.5", ana = "0.25" }
"""  # noqa: E501
