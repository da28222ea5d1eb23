"""Neighbours of thousands of random trees of linked tables at once: each tree and each neighbour under its own number.

The trees and the definition are those of ``linked_neighbours``. Their rows stand together in one table each, with the
number of their tree as a second column of every key and in the names of units, so that no row meets those of another
tree, and the product opens and counts all of them as one. A unit's rows must be chosen alike in every tree that has
them, so here, and only here, the hash of a row leaves out the number and the unit's name, which are the same for all
rows of a unit.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from benchmarks.trials.linked_neighbours import TABLES, Tree, WorstMove, declare_tree, draw_trials
from siloquent.data import open_table
from siloquent.data.sql.indices import SourceColumn
from siloquent.data.units import contribution_bounding
from siloquent.ledger import MemoryLedger, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.schema import Block, TableSchema
from siloquent.schema.linked.joins import join_tables
from siloquent.schema.workspace import Workspace

AT_ONCE = 250
"""Trees in one batch, each with some three neighbours."""


def find_worst_move_in_batches(
    folder: Path,
    *,
    trees: int,
    most: int = 2,
    place: int = 2,
    replaced: bool = False,
    joined: bool = False,
    first: int = 0,
) -> WorstMove:
    """Do the same as ``find_worst_move``, many trees at a time."""
    worst = WorstMove()
    adjacency = "replace-one" if replaced else "add-remove"
    drawn = draw_trials(range(first, first + trees), replaced)
    while trials := list(islice(drawn, AT_ONCE)):
        whole = [one for trial in trials for one in (trial.tree, *trial.neighbours)]
        names = [str(number) for number in range(len(whole))]
        declared = declare_tree(folder, most=most, adjacency=adjacency, numbers=names)
        schema = join_tables(declared[place], declared[:place]) if joined else declared[place]
        found = iter(_measure_all(schema, folder, whole))
        for trial in trials:
            here = next(found)
            rows, units = int(here[0]), int(here[-1])
            if rows != trial.tree.count(place, most=most, joined=joined) or units != trial.tree.count(place, most=1):
                worst.wrong.append(f"seed {trial.seed}: {rows} rows of {units} units count")
            for _ in trial.neighbours:
                worst.see(here, next(found))
            worst.trees += 1
    return worst


def _measure_all(schema: TableSchema, folder: Path, trees: Sequence[Tree]) -> NDArray[np.int64]:
    """Exact numbers of each tree as ``linked_neighbours.measure`` lists them, shape (trees, numbers)."""
    for place, name in enumerate(TABLES):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            write = csv.writer(file).writerow
            write(("own", "above", "number", "tree"))
            for number, tree in enumerate(trees):
                for own, above, value in tree.tables[place]:
                    write((own, above if place or not above else f"{number}:{above}", value, number))
    ledger = MemoryLedger()
    ledger.open_account(
        schema.account, limit=Cost(10**12), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    permit = ledger.reserve(schema.account, DiscreteLaplace(scale=Fraction(10), l1=1), key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    each = np.append(np.arange(len(trees)), -1)
    values = np.append(np.arange(schema.domain["number"].size), -1)
    by_tree, by_cell = Block(("tree",), (each,)), Block(("tree", "number"), (each, values))
    with _rank_alike(schema):
        table = open_table(schema, Workspace(folder), ledger, salt="5a17")
        [whole], [counts] = (table.count_by_cell([one], permit) for one in (by_tree, by_cell))
        [sums] = table.sum_by_cell([by_tree], "number", permit)
        units = table.count_units_by_group(by_tree, np.arange(len(trees)), len(trees), permit, groups_each=None)
        table.close()
    columns = (whole[:, None], counts.reshape(len(trees), -1), sums.index_sums[:, None], units[:, None])
    return np.concatenate(columns, axis=1).astype(np.int64)


@contextmanager
def _rank_alike(schema: TableSchema) -> Iterator[None]:
    """Leave the number of a tree, and the name of a unit, out of the hash."""
    rank = contribution_bounding._rank

    def rank_alike(columns: Sequence[SourceColumn], salt: str, joined: Collection[str] = ()) -> exp.Window:
        return rank(columns, salt, (*joined, "tree", schema.unit.column))

    with patch.object(contribution_bounding, "_rank", rank_alike):
        yield
