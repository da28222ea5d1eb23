"""Declarations, neighbouring tables and questions, made at random from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema

DECLARATION = """
format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], other = "{other}", null = {null[0]} }},
  {{ name = "age", type = "integer", lo = 0, hi = 4, outside = "{outside[0]}", null = {null[1]}, bins = {bins} }},
  {{ name = "ill", type = "boolean", null = "{flag}" }},
  {{ name = "cost", type = "integer", lo = {lo}, hi = {hi}, outside = "{outside[1]}", null = "{plain}" }},
  {{ name = "dose", type = "real", lo = -1, hi = 3, grid = 0.5, outside = "{outside[2]}", null = "{plain}" }},
  {{ name = "day", type = "date", lo = 2024-01-01, hi = 2024-01-06, grid = "day", outside = "drop", null = "{flag}" }},
  {{ name = "note", type = "text", max_bytes = 60 }},
]
{rules}
[table]
name = "visits"
size_hint = {size}
adjacency = "{adjacency}"
unit = {unit}
[budget]
accountant = "{accountant}"
{budget}
"""
BUDGET = {"pure": 'epsilon = "100000"', "zcdp": 'rho = "1000000"\ndelta = "1e-6"\ndelta_events = "5e-7"'}
BOUNDS = [(-5, 5), (0, 6), (2, 6), (-9, -2), (-5, 0), (-100_000, 7), (0, 123_456), (-(2**38), 2**39)]
SETTINGS = [
    (accountant, adjacency, most)
    for accountant in ("pure", "zcdp")
    for adjacency in ("add-remove", "replace-one")
    for most in (0, 1, 2, 3)
]
COLUMNS = {
    "who": pa.string(),
    "ward": pa.string(),
    "age": pa.float64(),
    "ill": pa.bool_(),
    "cost": pa.float64(),
    "dose": pa.float64(),
    "day": pa.string(),
    "note": pa.string(),
}
Row = dict[str, Any]
NASTY = [float("nan"), float("inf"), -float("inf"), -0.0, 2.0**62, 1e308, -1e308, None]


def declared(
    chance: random.Random,
    accountant: str,
    adjacency: str,
    most: int,
    *,
    size: int = 40,
    rules: str = "",
    bounds: tuple[int, int] | None = None,
) -> tuple[TableSchema, tuple[int, int]]:
    """A declaration in one setting, and the bounds of ``cost``; ``most`` 0: the unit is a row."""
    bounds = bounds or chance.choice(BOUNDS)
    text = DECLARATION.format(
        other=chance.choice(["drop", "cell"]),
        null=[chance.choice(['"drop"', '"cell"', wanted]) for wanted in ('{ value = "B" }', "{ value = 2 }")],
        flag=chance.choice(["drop", "cell"]),
        plain=chance.choice(["drop", "cell"]),
        outside=[chance.choice(["drop", "clamp"]) for _ in range(3)],
        lo=bounds[0],
        hi=bounds[1],
        adjacency=adjacency,
        unit='{ kind = "row" }' if not most else f'{{ kind = "user", column = "who", max_rows = {most} }}',
        accountant=accountant,
        size=size,
        bins="{ width = 2 }",
        rules=rules,
        budget=BUDGET[accountant],
    )
    return parse_schema(text), bounds


def row(chance: random.Random, who: str | None, bounds: tuple[int, int]) -> Row:
    """Anything that a source may hold."""
    lo, hi = bounds
    return {
        "who": who,
        "ward": chance.choice(["A", "B", "C", "Z", "", None]),
        "age": chance.choice([-1, 0, 1, 2, 3, 4, 5, *NASTY]),
        "ill": chance.choice([True, False, None]),
        "cost": chance.choice([lo, hi, lo, hi, lo - 1, hi + 1, 0, *NASTY]),
        "dose": chance.choice([-1, 3, 0.5, 0.3, 7, *NASTY]),
        "day": chance.choice(["2024-01-01", "2024-01-06", "2025-01-01", "nonsense", None]),
        "note": chance.choice(["", "a b", "disk full", "x" * 90, None]),
    }


def unit(chance: random.Random, most: int, bounds: tuple[int, int]) -> list[Row]:
    """One unit: often as far out as it can be, in one place or in two, sometimes with more rows than count."""
    who, count = "p9", max(most, 1) + (chance.choice([0, 0, 2]) if most else 0)
    if chance.random() < 0.3:
        return [row(chance, chance.choice([who, None]) if not most else who, bounds) for _ in range(count)]
    ends = [
        {
            "who": who,
            "ward": chance.choice("ABC"),
            "age": chance.choice([0, 2, 4]),
            "ill": chance.random() < 0.5,
            "cost": chance.choice(bounds),
            "dose": chance.choice([-1, 3]),
            "day": chance.choice(["2024-01-01", "2024-01-06"]),
            "note": chance.choice(["disk full", "a b c"]),
        }
        for _ in range(2)
    ]
    return [ends[0]] * count if chance.random() < 0.7 else [chance.choice(ends) for _ in range(count)]


def neighbours(
    chance: random.Random, schema: TableSchema, bounds: tuple[int, int], others: int = 4
) -> tuple[pa.Table, pa.Table]:
    """Two tables that differ in one unit: there or not, or another in its place."""
    most = schema.unit.max_rows if schema.unit.kind == "user" else 0
    base = [row(chance, f"p{i}", bounds) for i in range(others) for _ in range(1 if not most else most + 1)]
    base += base[: chance.choice([0, 1])] if not most else []
    one = unit(chance, most, bounds)
    other = unit(chance, most, bounds) if schema.adjacency == "replace-one" else []
    sides = [[*base, *one], [*base, *other]]
    if chance.random() < 0.5:
        sides.reverse()
    for rows in sides:
        chance.shuffle(rows)
    return framed(sides[0]), framed(sides[1])


LOW: Row = {"ward": "A", "age": 0, "ill": True, "dose": -1, "day": "2024-01-01", "note": "disk full"}
HIGH: Row = {"ward": "C", "age": 4, "ill": False, "dose": 3, "day": "2024-01-06", "note": "a b c"}


def extremes(schema: TableSchema, bounds: tuple[int, int], *, alike: int = 30) -> tuple[pa.Table, pa.Table]:
    """Neighbours that differ as far as two units can: all rows of one at one end, all of the other at the other."""
    return apart(schema, {**HIGH, "cost": bounds[1]}, {**LOW, "cost": bounds[0]}, alike=alike)


def apart(
    schema: TableSchema, one: Row, other: Row | None, *, alike: int = 30, more: Sequence[Row] = ()
) -> tuple[pa.Table, pa.Table]:
    """Neighbours of which one has a unit with rows ``one``, the other with rows ``other``, or without it.

    Args:
        more: Rows of other units beside those that are alike in both.
    """
    # A third of the others between both ends: medians and thresholds then lie inside, where choices move both ways.
    lowest = {**LOW, "cost": schema.domain["cost"].lo}
    middle = {**lowest, "ward": "B", "age": 2, "dose": 1, "day": "2024-01-03"}
    highest = {**HIGH, "cost": schema.domain["cost"].hi}
    ends = (lowest, middle, highest)
    base = [{"who": f"p{i}", **ends[i % 3]} for i in range(alike)]
    base += [{"who": f"r{i}", **highest, **row} for i, row in enumerate(more)]
    is_there = other is not None and schema.adjacency == "replace-one"
    sides = [[{**HIGH, "cost": 0, **one}], [{**HIGH, "cost": 0, **(other or {})}] if is_there else []]
    first, second = ([{"who": "q", **row} for row in side] * schema.unit.max_rows for side in sides)
    return framed([*base, *first]), framed([*base, *second])


def framed(rows: list[Row]) -> pa.Table:
    """The rows as a table of the declared columns' widest types."""
    return pa.table({name: pa.array([_plain(one[name]) for one in rows], kind) for name, kind in COLUMNS.items()})


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


PREDICATES = [
    "ward = 'A'",
    "ward != 'B'",
    "ward IN ('A', 'C')",
    "age > 1",
    "age <= 3",
    "age % 2 = 0",
    "age BETWEEN 1 AND 3",
    "NOT (age > 1)",
    "ill",
    "ward = 'A' OR age > 2",
    "age = 2 AND ill",
    "day >= DATE '2024-01-03'",
    "dose > 0.5",
]
KEYS = ["ward", "age", "ill", "ward, ill", "ward, age", "age % 3", "day"]
NUMBERS = [
    *(f"{kind}({name})" for kind in ("MEDIAN", "AVG", "VAR") for name in ("age", "dose")),
    "COUNT(*), AVG(dose)",
    "AVG(age), AVG(dose), SUM(cost)",
    "SUM(dose), VAR(dose)",
    "AVG(cost), MEDIAN(age)",
    "COUNT(DISTINCT ward), COUNT(DISTINCT age)",
    "COUNT(DISTINCT who)",
]
WORKLOADS = ["PREFIX(age, 0, 5, 1)", "HISTOGRAM(age, 0, 5, 2)", "CUBE(ward, ill)", "{age <= 0, age <= 1, age <= 2}"]


def question(chance: random.Random, bounds: tuple[int, int]) -> tuple[str, int]:
    """A question of any kind, and how many ids it shows where it ranks."""
    largest = max(map(abs, bounds))
    aggregate, error = chance.choice(
        [("COUNT(*)", chance.choice([1, 3, 30, 300])), ("SUM(cost)", 40 * largest), ("SUM(dose)", 100)]
    )
    where = f" WHERE {chance.choice(PREDICATES)}" if chance.random() < 0.3 else ""
    keys = chance.choice(KEYS)
    grouped = f"FROM visits{where} GROUP BY {keys}"
    end, kind = chance.choice(["", "", " REUSE NONE", " REUSE ANY"]), chance.randrange(11)
    k = chance.choice([1, 1, 2])
    ways = chance.choice(["DESC", "ASC"])
    numbers = chance.choice(NUMBERS)
    bin_of = f"BIN visits ON {aggregate} WHERE W = "
    listed = "{" + ", ".join(chance.sample(PREDICATES, chance.randint(2, 6))) + "}"
    return [
        (f"SELECT {aggregate} FROM visits{where} ERROR {error}{end}", 1),
        (f"SELECT {keys}, {aggregate} {grouped} ERROR {error}{end}", 1),
        (f"{bin_of}{chance.choice(WORKLOADS)} ERROR {error}{end}", 1),
        (f"{bin_of}{listed} ERROR {error}{end}", 1),
        (f"{bin_of}{listed} HAVING {aggregate} > 2 ERROR {error}{chance.choice(['', ' PREFER OPTIMISTIC'])}", 1),
        (f"{bin_of}{chance.choice(WORKLOADS)} HAVING {aggregate} > 2 ERROR {error}", 1),
        (f"{bin_of}{listed} ORDER BY {aggregate} {ways} LIMIT {k} ERROR {error}", min(k, listed.count(",") + 1)),
        (f"SELECT {keys} {grouped} ORDER BY {aggregate} {ways} LIMIT {k} ERROR {error}", k),
        (
            chance.choice([f"SELECT {numbers} FROM visits{where}", f"SELECT {keys}, {numbers} {grouped}"])
            + " BUDGET 30 EPSILON",
            1,
        ),
        (f"SELECT QUANTILE(age, 0.9) FROM visits{where} ERROR 15", 1),
        (f"SELECT ward, MEDIAN(age), COUNT(*) FROM visits{where} GROUP BY ward HAVING COUNT(*) > 2 ERROR 20, 30", 1),
    ][kind]
