"""Linked tables: no unit moves exact answers further than the bound, over random trees with broken keys; and TPC-H."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from operator import gt, ne
from pathlib import Path

from benchmarks.row import Options, Row
from benchmarks.tpch.measure import measure_warehouse
from benchmarks.trials.linked_batches import find_worst_move_in_batches
from benchmarks.trials.linked_neighbours import LARGEST

MANY = 1_000
"""From so many trees on, some must reach each bound."""


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("neighbours-over"):
        yield count_broken_bounds(40 if options.quick else 10_000)
    yield from measure_warehouse(options)


def count_broken_bounds(trees: int) -> Row:
    """How many bounds some neighbour of a random tree breaks, or none of them reaches; and wrong numbers of rows."""
    wrong, most, seen = 0, 2, []
    cases = list(product((1, 2), (False, True), (False, True)))
    with tempfile.TemporaryDirectory() as folder:
        each = trees // len(cases)
        for number, (place, replaced, joined) in enumerate(cases):
            worst = find_worst_move_in_batches(
                Path(folder),
                trees=each,
                most=most,
                place=place,
                replaced=replaced,
                joined=joined,
                first=number * each,
            )
            bounds = (most * (2 if replaced else 1), most * LARGEST, 1)
            moved = (worst.l1, worst.total, worst.units)
            # A few trees need not reach a bound.
            is_wrong = gt if trees < MANY else ne
            wrong += sum(is_wrong(one, bound) for one, bound in zip(moved, bounds, strict=True)) + len(worst.wrong)
            seen.append(worst.trees)
    return Row(
        "neighbours-over",
        ours=wrong,
        goal=0,
        unit="bounds",
        how=f"every unit of {sum(seen):,} random trees of linked tables (seeds from 0) removed or replaced; keys "
        "repeated, missing, leading nowhere and claimed by several; 1 and 2 links, alone and joined; L1 of counts, a "
        "sum, units: never more than declared, and reached; and how many rows count",
    )
