"""Rows in cells that nobody uses are passed over, and the numbers in the others are the same."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.data import grouped_counts
from siloquent.schema import Block
from unit.data.clinic import clinic_schema, opened, visits

NAMES = ("age", "ward", "smoker", "day")


def draw_block(rng: np.random.Generator) -> Block:
    """A block of one to three attributes, with few classes, in runs or scattered, some of them left out."""
    schema = clinic_schema()
    chosen = rng.choice(NAMES, size=int(rng.integers(1, 4)), replace=False).tolist()
    classes: list[NDArray[np.int64]] = []
    for name in chosen:
        size, number = schema.domain[name].size, int(rng.integers(1, 4))
        drawn = rng.integers(-1, number, size + 1)
        drawn[:number] = np.arange(number)[: len(drawn)]
        classes.append(np.sort(drawn) if rng.random() < 0.6 else drawn)
    return Block(tuple(chosen), tuple(classes))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("is_narrow", [True, False], ids=["grouped in the engine", "batch by batch"])
def test_numbers_in_used_cells_do_not_depend_on_what_is_passed_over(
    seed: int, is_narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouped_counts.GroupedCount, "is_narrow", property(lambda _: is_narrow))
    rng = np.random.default_rng(seed)
    table, permit = opened(clinic_schema(), visits(300, seed=seed))
    blocks = [draw_block(rng) for _ in range(2)]
    counted = [rng.random(block.size) < rng.choice([0.1, 0.5]) for block in blocks]
    some, every = (table.count_by_cell(blocks, permit, counted=used) for used in (counted, None))
    for a, b, used in zip(some, every, counted, strict=True):
        assert (a[used] == b[used]).all()
    part, whole = (table.sum_by_cell(blocks, "weight", permit, counted=used) for used in (counted, None))
    for c, d, used in zip(part, whole, counted, strict=True):
        assert (c.counts[used] == d.counts[used]).all()
        assert (c.index_sums[used] == d.index_sums[used]).all()
    table.close()


def test_a_condition_is_a_condition_of_the_engine() -> None:
    needed = grouped_counts.find_needed(
        Block(("age",), (np.array([0] * 18 + [1] * 103 + [2]),)), np.array([False, True, False])
    )
    assert needed[0] is not None
    assert grouped_counts._list_ranges(needed[0]) == ((18, 120),)
