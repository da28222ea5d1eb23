"""Brute force: whoever is added, removed or replaced moves exact answers by no more than is declared, and by that much.

Every neighbour of every small table is really opened and counted, so that the bound is one of the whole way from rows
to numbers: index functions, contribution bounding, grouping.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sqlglot import exp

from siloquent.data import bounding
from siloquent.data.places import Column
from siloquent.schema import Block, TableSchema
from unit.data.clinic import clinic_schema, full_block, opened

ATTRIBUTES = """
  { name = "patient", type = "id" },
  { name = "stay", type = "integer", lo = -2, hi = 6, outside = "drop", null = "drop" },
  { name = "ward", type = "category", values = ["A", "B"], null = "drop" },
"""
SPAN = 8  # from the lower of lo and 0 to the higher of hi and 0: a row that is left out adds 0
LARGEST = 6

Row = tuple[object, ...]


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
    [counts] = table.counts([full_block(schema, "ward", "stay")], permit)
    [sums] = table.sums([Block((), ())], "stay", permit)
    table.close()
    return counts, int(sums.index_sums[0] - 2 * sums.counts[0])  # lo / grid is -2


def random_rows(rng: np.random.Generator, user: str | None, count: int) -> list[Row]:
    """Rows of one user: mostly extreme ones, so that bounds are reached, and some that never count."""
    stays = rng.choice([6, 6, 6, -2, 3, 7, None], count, p=[0.25, 0.25, 0.2, 0.1, 0.1, 0.05, 0.05])
    same = rng.random() < 0.7
    wards = rng.choice(["A", "B", None], 1 if same else count, p=[0.48, 0.48, 0.04]).repeat(count if same else 1)
    stays = stays[:1].repeat(count) if same else stays
    return [(user, stay, ward) for stay, ward in zip(stays.tolist(), wards.tolist(), strict=True)]


def users_and_rows(rng: np.random.Generator, *, users: bool) -> list[list[Row]]:
    """A small table as a list of units."""
    if not users:
        return [random_rows(rng, None, 1) for _ in range(int(rng.integers(0, 5)))]
    return [random_rows(rng, f"p{i}", int(rng.integers(1, 6))) for i in range(int(rng.integers(0, 4)))]


def flat(units: list[list[Row]]) -> list[Row]:
    return [row for unit in units for row in unit]


def neighbours(rng: np.random.Generator, units: list[list[Row]], *, users: bool, replace: bool) -> Iterator[list[Row]]:
    """Without each unit, or with each one replaced; and with one more."""
    fresh = random_rows(rng, "new" if users else None, int(rng.integers(1, 6)) if users else 1)
    for i in range(len(units)):
        rest = units[:i] + units[i + 1 :]
        yield flat([*rest, fresh] if replace else rest)
    if not replace:
        yield flat([*units, fresh])


def worst_of(schema: TableSchema, *, tables: int, users: bool, replace: bool) -> Worst:
    worst = Worst()
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        units = users_and_rows(rng, users=users)
        here = answers(schema, flat(units))
        for there in neighbours(rng, units, users=users, replace=replace):
            worst.see(here, answers(schema, there))
    return worst


def schema_of(most: int) -> TableSchema:
    unit = '{ kind = "row" }' if not most else f'{{ kind = "user", column = "patient", max_rows = {most} }}'
    return clinic_schema(attributes=ATTRIBUTES, unit=unit)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_adding_or_removing_a_unit_moves_answers_by_what_is_declared(most: int) -> None:
    worst = worst_of(schema_of(most), tables=25, users=most > 0, replace=False)
    m = max(most, 1)
    assert worst.all == (m, m * m, m, m * LARGEST)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_replacing_a_unit_moves_answers_by_what_is_declared(most: int) -> None:
    worst = worst_of(schema_of(most), tables=40, users=most > 0, replace=True)
    m = max(most, 1)
    assert worst.l1 == 2 * m
    assert worst.l2_squared == 2 * m * m
    assert worst.linf == m
    assert m * LARGEST < worst.total <= m * SPAN


def test_replacing_a_row_can_move_a_sum_further_than_from_lo_to_hi() -> None:
    # stays from 2 to 6: a row that is left out adds 0, so the sum moves by 6 and not by 4
    schema = clinic_schema(attributes=ATTRIBUTES.replace("lo = -2", "lo = 2"))
    one, other = answers(schema, [(None, 6, "A")]), answers(schema, [(None, None, "A")])
    assert one[1] + 4 * 1 - other[1] == 6  # answers() takes lo for -2: four steps a counted row


def test_a_window_that_forgets_the_user_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = bounding._rank

    def wrong(columns: Sequence[Column], salt: str) -> exp.Window:
        window = right(columns, salt)
        window.set("partition_by", [])
        return window

    monkeypatch.setattr(bounding, "_rank", wrong)
    assert worst_of(schema_of(1), tables=15, users=True, replace=False).l1 == 2


def test_a_limit_that_is_not_kept_is_caught() -> None:
    assert worst_of(schema_of(5), tables=15, users=True, replace=False).l1 > 2
