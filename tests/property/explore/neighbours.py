"""Tables that differ in one unit, under random declarations, with the ledger that pays for runs on all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import pyarrow as pa

from property.explore.samplers import Draws, recorded
from siloquent.data import PrivateTable, open_table
from siloquent.explore.estimate import complete_measurement
from siloquent.explore.measure import measure
from siloquent.explore.plan.planner import Plan
from siloquent.explore.plan.reuse.earlier_answers import load_earlier_answers
from siloquent.explore.plan.reuse.plans import find_cheapest_with_reuse
from siloquent.explore.spec.stored_measurement import encode_payload
from siloquent.ledger import MemoryLedger, Permit
from siloquent.privacy import NoiseReduction
from siloquent.privacy.accountants import build_limit
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema

DECLARATION = """
format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "B", "C"], other = "{other}", null = "{null[0]}" }},
  {{ name = "age", type = "integer", lo = 0, hi = 4, outside = "{outside}", null = "{null[1]}", bins = {bins} }},
  {{ name = "ill", type = "boolean", null = "{null[2]}" }},
  {{ name = "cost", type = "integer", lo = {lo}, hi = {hi}, outside = "{outside}", null = "{null[3]}" }},
]
[table]
name = "visits"
size_hint = 40
adjacency = "{adjacency}"
unit = {unit}
[budget]
accountant = "{accountant}"
{budget}
"""
BUDGET = {"pure": 'epsilon = "1000"', "zcdp": 'rho = "1000"\ndelta = "1e-6"'}
BOUNDS = [(-5, 5), (0, 6), (2, 6), (-9, -2), (-5, 0), (-100_000, 7), (0, 123_456), (-70_000, 99_999)]
ROWS = pa.schema(
    [("who", pa.int64()), ("ward", pa.string()), ("age", pa.int64()), ("ill", pa.bool_()), ("cost", pa.int64())]
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """A random declaration; ``cost`` lies within ``bounds``."""

    schema: TableSchema
    bounds: tuple[int, int]

    @property
    def rows(self) -> int:
        """How many rows of a unit count."""
        return self.schema.unit.max_rows


def declared(
    chance: random.Random,
    accountant: str,
    adjacency: str,
    kind: str,
    *,
    bounds: tuple[int, int] = (0, 0),
    most: int = 0,
) -> Declared:
    bounds = bounds if any(bounds) else chance.choice(BOUNDS)
    most = most or chance.choice([1, 2, 3])
    text = DECLARATION.format(
        other=chance.choice(["drop", "cell"]),
        null=[chance.choice(["drop", "cell"]) for _ in range(4)],
        outside=chance.choice(["drop", "clamp"]),
        bins="{ width = 2 }",
        lo=bounds[0],
        hi=bounds[1],
        adjacency=adjacency,
        unit='{ kind = "row" }' if kind == "row" else f'{{ kind = "user", column = "who", max_rows = {most} }}',
        accountant=accountant,
        budget=BUDGET[accountant],
    )
    return Declared(parse_schema(text), bounds)


def row(chance: random.Random, who: int, bounds: tuple[int, int]) -> Row:
    lo, hi = bounds
    return {
        "who": who,
        "ward": chance.choice(["A", "B", "C", "Z", None]),
        "age": chance.choice([-1, 0, 1, 2, 3, 4, 5, None]),
        "ill": chance.choice([True, False, None]),
        "cost": chance.choice([lo, hi, lo - 1, hi + 1, 0, None, chance.randint(lo, hi)]),
    }


def units_of(chance: random.Random, found: Declared) -> list[list[Row]]:
    """What one unit may hold: nothing that counts, anything, and as much as it can at either end or at both."""
    (lo, hi), most = found.bounds, found.rows

    def full(*ends: int) -> list[Row]:
        one: list[Row] = []
        for end in ends:
            whole = {"ward": chance.choice("ABC"), "age": chance.randrange(5), "ill": chance.random() < 0.5}
            one += [{"who": 9, "cost": end, **whole}] * (most // len(ends) or 1)
        return one[:most]

    empty = {"who": 9, "ward": None, "age": None, "ill": None, "cost": None}
    anything = [row(chance, 9, found.bounds) for _ in range(1 if found.schema.unit.kind == "row" else most + 2)]
    return [[empty], anything, full(hi), full(hi), full(lo), full(lo, hi)]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Tables of which the first has no unit that the others have, and each of these another one."""

    schema: TableSchema
    tables: tuple[PrivateTable, ...]
    ledger: MemoryLedger

    @property
    def added(self) -> list[tuple[int, int]]:
        """Pairs that differ in one unit's presence."""
        return [(0, other) for other in range(1, len(self.tables))]

    @property
    def replaced(self) -> list[tuple[int, int]]:
        """Pairs that have different units in one place."""
        return list(combinations(range(1, len(self.tables)), 2))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The neighbours by the declaration."""
        return self.replaced if self.schema.replace_one else self.added

    def reached(self, plan: Plan) -> list[Draws]:
        """What reaches the samplers from each table."""
        found: list[Draws] = []
        for table in self.tables:
            with recorded() as draws:
                released = measure(plan, table, self.permit(plan)).event
            kept = replace(released, stop=None) if isinstance(released, NoiseReduction) else released
            assert kept == plan.event
            found.append(draws)
        return found

    def permit(self, plan: Plan) -> Permit:
        permit = self.ledger.reserve(self.schema.account, plan.event, key=None, digest="d")
        assert isinstance(permit, Permit)
        return permit

    def drawing(self, earlier: Plan, plan: Plan) -> Plan:
        """``plan`` in view of the answer of ``earlier``, which is kept in the ledger."""
        permit = self.permit(earlier)
        with recorded():
            measured = complete_measurement(earlier, measure(earlier, self.tables[0], permit))
        self.ledger.settle(permit, measured.event, encode_payload([measured], request=""))
        return find_cheapest_with_reuse(plan, load_earlier_answers(self.ledger, self.schema.account), "any")


@contextmanager
def neighbours(chance: random.Random, found: Declared, units: Sequence[Sequence[Row]] = ()) -> Iterator[Neighbours]:
    """Tables of some other units and nobody more, or one of ``units``: random ones if there are none."""
    schema, ledger = found.schema, MemoryLedger()
    accountant = schema.budget.accountant
    ledger.open_account(
        schema.account,
        limit=build_limit(accountant, "1000000", "0"),
        accountant=accountant,
        unit=schema.unit.code,
        adjacency=schema.adjacency,
    )
    each = 1 if schema.unit.kind == "row" else found.rows + 2
    base = [row(chance, who, found.bounds) for who in range(4) for _ in range(each)]
    tables = []
    for unit in [[], *(units or units_of(chance, found))]:
        rows = [*base, *unit]
        chance.shuffle(rows)  # which rows of the others count must not depend on their order
        tables.append(open_table(schema, None, ledger, salt="ab", frame=pa.Table.from_pylist(rows, schema=ROWS)))
    many = Neighbours(schema, tuple(tables), ledger)
    try:
        yield many
    finally:
        for table in tables:
            table.close()
