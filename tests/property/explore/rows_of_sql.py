"""Random expressions and conditions of a row, their values in exact arithmetic, and a table with wide domains."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import siloquent as sq
from siloquent.api import Session
from siloquent.explore.spec.predicate import (
    And,
    Arithmetic,
    Call,
    Case,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Value,
)

SCHEMA = """
format = 1
attribute = [
  { name = "ward", type = "category", values = ["A", "C", "B"], null = "cell" },
  { name = "town", type = "category", values = ["C", "A", "Berg"], null = "cell" },
  { name = "ill", type = "boolean", null = "cell" },
  { name = "price", type = "real", lo = 0, hi = 110000, grid = 0.01, outside = "clamp", null = "cell" },
  { name = "cut", type = "real", lo = -0.5, hi = 1, grid = 0.05, outside = "clamp", null = "cell" },
  { name = "age", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "cell" },
  { name = "days", type = "integer", lo = -3, hi = 4, outside = "clamp", null = "cell" },
  { name = "parts", type = "integer", lo = -2000000, hi = 2000000, outside = "clamp", null = "cell" },
  { name = "came", type = "date", lo = 2023-01-01, hi = 2024-12-31, outside = "clamp", null = "cell" },
  { name = "gone", type = "date", lo = 2023-01-01, hi = 2025-12-31, outside = "clamp", null = "cell" },
  {name = "seen", type = "datetime", lo = 2024-01-01, hi = 2024-03-31, grid = "minute", outside = "clamp", null="cell"},
  { name = "note", type = "category", values = ["ab", " Ab ", "bC", "", "AbcdE"], null = "cell" },
]
[table]
name = "visits"
adjacency = "add-remove"
size_hint = 300
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1000000"
"""
ROWS = 300


def build_rows(chance: random.Random) -> pa.Table:
    """Build rows that fit their declaration, with NULLs, bounds and zeros."""

    def draw(choose: Callable[[], Any]) -> list[Any]:
        return [None if chance.random() < 0.1 else choose() for _ in range(ROWS)]

    cents = pa.decimal128(12, 2)
    return pa.table(
        {
            "ward": draw(lambda: chance.choice("AAABC")),
            "town": draw(lambda: chance.choice(["A", "C", "Berg"])),
            "ill": draw(lambda: chance.random() < 0.4),
            "price": pa.array(
                draw(lambda: Decimal(chance.choice([0, 11_000_000, chance.randint(0, 11_000_000)])).scaleb(-2)), cents
            ),
            "cut": pa.array(draw(lambda: Decimal(chance.randint(-10, 20)) / 20), cents),
            "age": draw(lambda: chance.randint(0, 99)),
            "days": draw(lambda: chance.randint(-3, 4)),
            "parts": draw(lambda: chance.choice([0, -2_000_000, 2_000_000, chance.randint(-2_000_000, 2_000_000)])),
            "came": draw(lambda: date(2023, 1, 1) + timedelta(chance.randint(0, 730))),
            "gone": draw(lambda: date(2023, 1, 1) + timedelta(chance.randint(0, 1090))),
            "seen": draw(lambda: datetime(2024, 1, 1) + timedelta(minutes=chance.randint(0, 129_000))),
            "note": draw(lambda: chance.choice(["ab", " Ab ", "bC", "", "AbcdE"])),
        }
    )


NUMBERS = ("price", "cut", "age", "days", "parts")


def write_number(chance: random.Random, depth: int) -> str:
    """Write an expression of numbers that DuckDB computes exactly, too."""
    if depth == 0:
        return chance.choice([*NUMBERS, "age", "days", str(chance.randint(-4, 9)), f"{chance.randint(-90, 90) / 10}"])
    below = [write_number(chance, depth - 1) for _ in range(2)]
    test = write_condition(chance, depth - 1)
    return chance.choice(
        [
            f"({below[0]} {chance.choice('+-')} {below[1]})",
            f"({below[0]} {chance.choice('+-')} {below[1]})",
            f"({write_number(chance, 0)} * {below[1]})",
            f"CASE WHEN {test} THEN {below[0]} ELSE {below[1]} END",
            f"CASE WHEN {test} THEN {below[0]} WHEN days > 0 THEN {write_number(chance, 0)} END",
            f"coalesce({below[0]}, {below[1]})",
            f"greatest({below[0]}, {below[1]}, 0)",
            f"least({below[0]}, {below[1]})",
            f"nullif({below[0]}, {write_number(chance, 0)})",
            f"abs({below[0]})",
        ]
    )


def write_condition(chance: random.Random, depth: int) -> str:
    """Write a condition on several attributes."""
    op = chance.choice(["<", "<=", "=", "<>", ">", ">="])
    number = write_number(chance, max(depth, 0))
    tests = [
        f"{number} - {chance.choice(NUMBERS)} {op} {write_number(chance, max(depth, 0))}",
        f"{write_number(chance, 0)} {op} {write_number(chance, 0)} + age",
        f"coalesce({number}, {chance.choice(NUMBERS)}) IS NULL OR age > {chance.randint(0, 99)}",
        f"({number} + age) IN (3, 40.5, {chance.randint(0, 99)})",
        f"ward {op} town",
        "coalesce(ward, town) LIKE '%er_'",
        f"CASE WHEN ill THEN ward ELSE town END {chance.choice(['=', '<>'])} '{chance.choice('ABC')}'",
        "ill",
        f"days >= {chance.randint(-3, 4)}",
        f"ward = '{chance.choice('ABC')}'",
    ]
    if depth <= 0:
        return chance.choice(tests)
    one, other = write_condition(chance, depth - 1), write_condition(chance, depth - 1)
    joined = [f"({one}) {chance.choice(['AND', 'OR'])} ({other})", f"NOT ({one})"]
    return chance.choice([*tests, *joined])


COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compute(expression: Expression, row: Mapping[str, Any]) -> Any:
    """Compute an expression in exact arithmetic; None for NULL."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Value):
        number = isinstance(expression.value, (int, Decimal)) and not isinstance(expression.value, bool)
        return Fraction(expression.value) if number else expression.value  # type: ignore[arg-type]
    if isinstance(expression, Arithmetic):
        left, right = compute(expression.left, row), compute(expression.right, row)
        if left is None or right is None:
            return None
        return {"+": operator.add, "-": operator.sub, "*": operator.mul}[expression.op](left, right)
    if isinstance(expression, Case):
        passed = (one.value for one in expression.branches if decide(one.test, row) is True)
        return compute(next(passed, expression.otherwise), row)
    assert isinstance(expression, Call)
    values = [compute(one, row) for one in (expression.argument, *expression.more)]
    known = [value for value in values if value is not None]
    if expression.function == "abs":
        return None if not known else abs(known[0])
    if expression.function == "nullif":
        return None if len(known) == 2 and known[0] == known[1] else values[0]
    if not known:
        return None
    return {"coalesce": known[0], "greatest": max(known), "least": min(known)}[expression.function]


def decide(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Decide a condition in three-valued logic; None for UNKNOWN."""
    if isinstance(predicate, (And, Or)):
        found = [decide(part, row) for part in predicate.parts]
        ends = isinstance(predicate, Or)
        return ends if ends in found else None if None in found else not ends
    if isinstance(predicate, Not):
        found_one = decide(predicate.part, row)
        return None if found_one is None else not found_one
    if isinstance(predicate, IsNull):
        return compute(predicate.expression, row) is None
    if isinstance(predicate, Compare):
        left, right = compute(predicate.left, row), compute(predicate.right, row)
        return None if left is None or right is None else bool(COMPARE[predicate.op](left, right))
    value = compute(predicate.expression, row)
    if value is None:
        return None
    if isinstance(predicate, InList):
        return any(value == compute(Value(one), {}) for one in predicate.values)
    assert isinstance(predicate, Like)
    assert predicate.pattern == "%er_"
    return len(value) > 2 and value[-3:-1] == "er"


@contextmanager
def open_engines(folder: Path) -> Iterator[tuple[Session, duckdb.DuckDBPyConnection]]:
    """Open a session and a connection of DuckDB that have the same rows as the table visits."""
    rows = build_rows(random.Random(21))
    sq.create_workspace(folder)
    with duckdb.connect(":memory:") as engine, sq.open(folder) as session:
        engine.execute("CREATE TABLE visits AS SELECT * FROM rows")
        session.add_frame(sq.read_schema(SCHEMA), rows)
        yield session, engine
