"""Every neighbour of small random tables, really opened and counted: how far one unit moves exact answers.

By brute force, so that a bound that holds here is one of the whole way from rows to numbers: index functions,
contribution bounding, grouping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from siloquent.data import PrivateTable, open_table
from siloquent.ledger import MemoryLedger, Permit, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.schema import Attribute, Block, Domain, TableBudget, TableSchema, Unit

SPAN = 8  # from the lower of lo and 0 to the higher of hi and 0: a row that is left out adds 0
LARGEST = 6

Row = tuple[object, ...]


def opened(schema: TableSchema, frame: pa.Table) -> tuple[PrivateTable, Permit]:
    """The table with its rows in ``frame``, and an open permit of a ledger in memory."""
    ledger = MemoryLedger()
    limit = Cost(10**12)
    ledger.open_account(
        schema.account, limit=limit, accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    event = DiscreteLaplace(scale=Fraction(10), l1=1)
    permit = ledger.reserve(schema.account, event, key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    return open_table(schema, None, ledger, salt="5a17", frame=frame), permit


def stays(most: int, *, lo: int = -2) -> TableSchema:
    """Stays of patients in wards; the unit is a row (``most`` = 0) or a patient, of whom ``most`` rows count."""
    stay = Attribute("stay", "integer", lo=Decimal(lo), hi=Decimal(LARGEST), grid=Decimal(1))
    domain = Domain((Attribute("patient", "id"), stay, Attribute("ward", "category", values=("A", "B"))))
    unit = Unit("user", "patient", most) if most else Unit()
    return TableSchema("stays", domain, TableBudget("pure", Fraction(1)), unit=unit)


@dataclass
class Worst:
    """The largest changes seen: of counts in three norms, of sums in one number."""

    l1: int = 0
    l2_squared: int = 0
    linf: int = 0
    total: int = 0

    def see(self, one: tuple[NDArray[np.int64], int], other: tuple[NDArray[np.int64], int]) -> None:
        """Take the change between the answers of two neighbours into account."""
        change = np.abs(one[0] - other[0])
        self.l1 = max(self.l1, int(change.sum()))
        self.l2_squared = max(self.l2_squared, int((change**2).sum()))
        self.linf = max(self.linf, int(change.max()))
        self.total = max(self.total, abs(one[1] - other[1]))

    @property
    def all(self) -> tuple[int, int, int, int]:
        """The four in the order of the fields."""
        return self.l1, self.l2_squared, self.linf, self.total


def answers(schema: TableSchema, rows: list[Row]) -> tuple[NDArray[np.int64], int]:
    """Exact counts per ward and stay, and the exact sum of stays."""
    patients, stays, wards = zip(*rows, strict=True) if rows else ((), (), ())
    table, permit = opened(
        schema,
        pa.table(
            {
                "patient": pa.array(patients, pa.string()),
                "stay": pa.array(stays, pa.int64()),
                "ward": pa.array(wards, pa.string()),
            }
        ),
    )
    names = ("ward", "stay")
    cells = Block(names, tuple(np.append(np.arange(schema.domain[name].size), -1) for name in names))
    [counts] = table.count_by_cell([cells], permit)
    [sums] = table.sum_by_cell([Block((), ())], "stay", permit)
    table.close()
    lo = int(schema.domain["stay"].lo)  # type: ignore[arg-type]
    return counts, int(sums.index_sums[0] + lo * sums.counts[0])


def random_rows(rng: np.random.Generator, user: str | None, count: int) -> list[Row]:
    """Rows of one user: mostly extreme ones, so that bounds are reached, and some that never count."""
    chosen: list[int | None] = [6, 6, 6, -2, 3, 7, None]
    stays = [chosen[i] for i in rng.choice(7, count, p=[0.25, 0.25, 0.2, 0.1, 0.1, 0.05, 0.05])]
    wards = [("A", "B", None)[i] for i in rng.choice(3, count, p=[0.48, 0.48, 0.04])]
    if count and rng.random() < 0.7:  # all rows alike: only then is the largest change reached
        stays, wards = stays[:1] * count, wards[:1] * count
    return [(user, stay, ward) for stay, ward in zip(stays, wards, strict=True)]


def users_and_rows(rng: np.random.Generator, *, users: bool) -> list[list[Row]]:
    """A small table as a list of units."""
    if not users:
        return [random_rows(rng, None, 1) for _ in range(int(rng.integers(0, 5)))]
    return [random_rows(rng, f"p{i}", int(rng.integers(1, 6))) for i in range(int(rng.integers(0, 4)))]


def flat(units: list[list[Row]]) -> list[Row]:
    """The rows of all units."""
    return [row for unit in units for row in unit]


def neighbours(rng: np.random.Generator, units: list[list[Row]], *, users: bool, replace: bool) -> Iterator[list[Row]]:
    """Without each unit, or with each one replaced; and with one more."""
    fresh = random_rows(rng, "new" if users else None, int(rng.integers(1, 6)) if users else 1)
    for i in range(len(units)):
        rest = units[:i] + units[i + 1 :]
        yield flat([*rest, fresh] if replace else rest)
    if not replace:
        yield flat([*units, fresh])


def worst_of(schema: TableSchema, *, tables: int, replace: bool) -> Worst:
    """The largest changes between any of ``tables`` random tables (seeds 0, 1, ...) and its neighbours."""
    worst, users = Worst(), schema.unit.kind == "user"
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        units = users_and_rows(rng, users=users)
        here = answers(schema, flat(units))
        for there in neighbours(rng, units, users=users, replace=replace):
            worst.see(here, answers(schema, there))
    return worst
