"""Units by group, against plain Python: which groups of a unit count, and that nothing else has an influence."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from siloquent.data.sql import place_maps
from siloquent.errors import RequestError
from siloquent.schema import Block, ClassRuns, TableSchema
from unit.data.clinic import SALT, clinic_schema, opened

USER = '{ kind = "user", column = "patient", max_rows = 2 }'
COLUMNS = """{ name = "patient", type = "id" },
  { name = "ward", type = "category", values = ["A", "B", "C"], other = "drop", null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 9, outside = "drop", null = "drop" },"""
Row = tuple[str | None, str | None, int | None]
PEOPLE = [None, "ann", "Ann", "ann ", "bob", "", "cy"]
rows_of = st.lists(
    st.tuples(st.sampled_from(PEOPLE), st.sampled_from([None, "A", "B", "C", "Z"]), st.integers(-1, 11)), max_size=30
)
maps = st.lists(st.integers(-1, 4), min_size=40, max_size=40).map(np.array)


def declared(unit: str = USER) -> TableSchema:
    return clinic_schema(unit=unit, attributes=COLUMNS)


def frame(rows: Sequence[Row]) -> pa.Table:
    kinds = {"patient": pa.string(), "ward": pa.string(), "age": pa.int64()}
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def block_of(ages: NDArray[np.int64]) -> Block:
    """Wards as they are, OUTSIDE as a fourth; ages by ``ages``, shape (11,), OUTSIDE last."""
    return Block(("ward", "age"), (np.arange(4), ages))


def count(rows: Sequence[Row], block: Block, groups: NDArray[np.int64], each: int | None) -> list[int]:
    table, permit = opened(declared(), frame(rows))
    return [int(n) for n in table.count_units_by_group(block, groups, 5, permit, groups_each=each)]


def count_plainly(rows: Sequence[Row], block: Block, groups: NDArray[np.int64], each: int | None) -> list[int]:
    """Each unit's first groups by a salted hash, counted."""
    held: dict[str, set[int]] = {}
    width = int(block.classes[1].max(initial=-1)) + 1
    for who, ward, age in rows:
        place = -1 if age is None or not 0 <= age <= 9 else age
        klass = int(block.classes[1][np.array([place])][0])
        cell = ("ABC".index(ward) if ward and ward in "ABC" else 3) * width + klass
        if who is not None and klass >= 0 and groups[cell] >= 0:
            held.setdefault(who, set()).add(int(groups[cell]))

    def rank(who: str, group: int) -> tuple[str, int]:
        return hashlib.md5(f"{SALT}\x1f{who}\x1f{group}".encode()).hexdigest(), group

    found = [0] * 5
    for who, own in held.items():
        for group in sorted(own, key=lambda group: rank(who, group))[: len(own) if each is None else each]:
            found[group] += 1
    return found


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(rows_of, maps, st.sampled_from([None, 1, 2, 3]), st.sampled_from([0, 2, 256]), st.booleans())
def test_counts_are_those_of_plain_python(
    rows: list[Row], groups: NDArray[np.int64], each: int | None, branches: int, as_runs: bool
) -> None:
    ages: Any = np.array([0, 1, 2, 3, 3, 3, 4, 4, 5, 9, -1])
    if as_runs:
        ages = ClassRuns(np.array([0, 3, 6, 10]), np.array([2, 9, 0, -1]), 11)
    block = block_of(ages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place_maps, "MAX_BRANCHES", branches)
        assert count(rows, block, groups, each) == count_plainly(rows, block, groups, each)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(rows_of, rows_of, maps, st.integers(1, 3))
def test_a_unit_changes_few_groups_by_one(
    rows: list[Row], own: list[Row], groups: NDArray[np.int64], each: int
) -> None:
    block = block_of(np.append(np.arange(10), -1))
    newcomer = [("newcomer", ward, age) for _, ward, age in own]
    moves = np.array(count([*rows, *newcomer], block, groups, each)) - count(rows, block, groups, each)
    assert set(moves.tolist()) <= {0, 1}
    assert moves.sum() <= each


def test_users_in_parts_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [(f"p{i % 97}", "ABC"[i % 3], i * i % 10) for i in range(1_000)]
    block, groups = block_of(np.append(np.arange(10), -1)), np.arange(40) % 5
    table, permit = opened(declared(), frame(rows))
    monkeypatch.setattr(table.open_for_owner()[0], "_parts", 4)
    found = table.count_units_by_group(block, groups, 5, permit, groups_each=2).tolist()
    assert found == count_plainly(rows, block, groups, 2)


def test_every_row_is_one_group() -> None:
    rows: list[Row] = [("ann", "A", 1), ("ann", "Z", None), (None, "B", 2), ("bob", None, 20)]
    table, permit = opened(declared(), frame(rows))
    assert table.count_units_by_group(Block((), ()), np.zeros(1, np.int64), 1, permit, groups_each=None).tolist() == [2]


def test_a_table_of_row_units_has_no_units_to_count() -> None:
    table, permit = opened(declared('{ kind = "row" }'), frame([]))
    with pytest.raises(RequestError, match="are rows"):
        table.count_units_by_group(Block((), ()), np.zeros(1, np.int64), 1, permit, groups_each=None)
