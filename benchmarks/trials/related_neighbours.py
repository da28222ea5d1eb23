"""Every neighbour of small random trees of linked tables, counted by whether related rows exist.

The oracle follows the definition alone: a row of owner u passes if a row of the other table with owner u does.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.trials.linked_neighbours import LARGEST, TABLES, Patch, Tree, WorstMove, declare_tree, draw_trials
from siloquent.data import open_table
from siloquent.data.units import related_rows
from siloquent.data.units.related_table import RelatedTable
from siloquent.ledger import MemoryLedger, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.schema import Attribute, Block, Domain, TableSchema
from siloquent.schema.linked.related import add_related
from siloquent.schema.related import RelatedColumn
from siloquent.schema.unit_rows import ComparedColumns, RowTest
from siloquent.schema.workspace import Workspace

KEYS = {(0, 1): ("own", "above"), (1, 0): ("above", "own"), (1, 2): ("own", "above"), (2, 1): ("above", "own")}
"""The columns of the link between two tables, by their places: those of the rows that count, and of those looked up."""
_NAME = "EXISTS 1"


def look_up(schema: TableSchema, other: TableSchema, pair: tuple[str, str] | None, *, compares: bool) -> TableSchema:
    """Return ``schema`` with whether the unit has a row of ``other`` with the largest number, equal in ``pair``.

    If it ``compares``, a row with another number than the row's own is looked up instead.
    """
    size = other.domain["number"].size
    cells = np.full(size + 1, 0)
    cells[LARGEST] = 1
    test = RowTest(Block(("number",), (cells,)), np.array([-1, 0]))
    added = Attribute(_NAME, "boolean", null="drop")
    on = () if pair is None else (pair,)
    column = RelatedColumn(added, other.name, on, test)
    if compares:
        column = RelatedColumn(added, other.name, on, None, ComparedColumns("number", "!=", "number", 0))
    related = add_related(schema, [other])
    return replace(related, domain=Domain((*schema.domain, added)), extended=related, looked_up=(column,))


def _read_number(text: str) -> int | None:
    return min(int(text), LARGEST) if text.isdigit() else None


def _passes(own: str, other: str, *, compares: bool) -> bool:
    mine, theirs = _read_number(own), _read_number(other)
    if compares:
        return mine is not None and theirs is not None and mine != theirs
    return theirs == LARGEST


def count_expected(
    tree: Tree, place: int, other: int, pair: tuple[str, str] | None, most: int, *, compares: bool
) -> tuple[int, int]:
    """Count the rows that count, and find the most of them that can pass, by the definition."""
    owners = tree.find_owners()
    columns = {"own": 0, "above": 1}
    passing: dict[str, list[bool]] = {}
    for row, own in zip(tree.tables[place], owners[place], strict=True):
        for unit in own:
            passing.setdefault(unit, []).append(
                any(
                    _passes(row[2], number, compares=compares)
                    for (*theirs, number), those in zip(tree.tables[other], owners[other], strict=True)
                    if unit in those
                    and (pair is None or (row[columns[pair[0]]] and row[columns[pair[0]]] == theirs[columns[pair[1]]]))
                )
            )
    counted = sum(min(len(one), most) for one in passing.values())
    return counted, sum(sum(one) for one in passing.values() if len(one) <= most)


def measure(schema: TableSchema, folder: Path, tree: Tree) -> NDArray[np.int64]:
    """Exact numbers of one table, really opened: of rows, of those that fail and pass, and of units that pass."""
    for name, rows in zip(TABLES, tree.tables, strict=True):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("own", "above", "number"), *rows])
    ledger = MemoryLedger()
    ledger.open_account(
        schema.account, limit=Cost(10**12), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    permit = ledger.reserve(schema.account, DiscreteLaplace(scale=Fraction(10), l1=1), key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    opened = open_table(schema.declared, Workspace(folder), ledger, salt="5a17")
    table = RelatedTable(schema, opened)
    block = Block((_NAME,), (np.array([0, 1, -1]),))
    [whole], [counts] = (table.count_by_cell([one], permit) for one in (Block((), ()), block))
    units = table.count_units_by_group(block, np.array([-1, 0]), 1, permit, groups_each=None)
    table.close()
    return np.concatenate([whole, counts, units, units])


def find_worst_move(
    folder: Path,
    *,
    trees: int,
    place: int,
    other: int,
    keyed: bool,
    replaced: bool = False,
    compares: bool = False,
    most: int = 2,
) -> WorstMove:
    """Find the largest changes between random trees and their neighbours.

    Args:
        place: The table whose rows count; ``other``: the one that is looked up.
        keyed: By the columns of their link, and not only by the unit.
        compares: Rows with another number than the row's own are looked up.
        replaced: Each unit gives way to another one, instead of being removed and added.
    """
    adjacency = "replace-one" if replaced else "add-remove"
    declared, worst = declare_tree(folder, most=most, adjacency=adjacency), WorstMove()
    pair = KEYS[place, other] if keyed else None
    schema = look_up(declared[place], declared[other], pair, compares=compares)
    for trial in draw_trials(range(trees), replaced):
        tree = trial.tree
        here = measure(schema, folder, tree)
        counted, passing = count_expected(tree, place, other, pair, most, compares=compares)
        if here[0] != counted or here[2] < passing:
            worst.wrong.append(f"seed {trial.seed}: {here[0]} rows count, {here[2]} pass, for {counted} and {passing}")
        for one in trial.neighbours:
            worst.see(here, measure(schema, folder, one))
        worst.trees += 1
    return worst


def plant_keys_of_anybody(patch: Patch) -> None:
    """Plant: rows are looked up by the columns of the link alone, whoever they belong to."""
    list_pairs = related_rows.list_pairs

    def list_keys(column: RelatedColumn, *given: Any) -> list[tuple[str, str]]:
        return list_pairs(column, *given)[1:] or list_pairs(column, *given)

    patch(related_rows, "list_pairs", list_keys)
