"""Every neighbour of small random trees of linked tables with broken keys, really opened and counted.

The oracle follows the definition alone: the owners of each row as sets, and neighbours without the rows whose only
owner is one unit. Keys repeat, are missing, lead nowhere, and are claimed by several owners.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from siloquent.data import open_table
from siloquent.data.sql.indices import SourceColumn, quote_name
from siloquent.data.units import contribution_bounding, linked_rows
from siloquent.ledger import MemoryLedger, SettledAnswer
from siloquent.privacy import Cost, DiscreteLaplace
from siloquent.schema import Block, TableSchema
from siloquent.schema.build import parse_schema
from siloquent.schema.domains import DomainFolder
from siloquent.schema.linked.joins import join_tables
from siloquent.schema.workspace import Workspace

LARGEST = 4
"""The largest value of the number that is summed."""
TABLES = ("visits", "courses", "doses")
"""From the unit outwards; each refers to the one before it."""
Patch = Callable[[Any, str, Any], None]
"""Sets an attribute of the product, as ``monkeypatch.setattr`` does."""
Row = tuple[str, str, str]
"""Own key, key of the parent or name of the unit, and a number; empty texts are missing."""

_UNIT = """format = 1
[unit]
name = "patient"
adjacency = "{adjacency}"
[budget]
accountant = "pure"
epsilon = "1000"
"""
_TABLE = """format = 1
[table]
name = "{name}"
source = "csv:{name}.csv"
unit = {{ of = "patient", {link}, max_rows = {most} }}
[[attribute]]
name = "own"
type = "id"
[[attribute]]
name = "above"
type = "id"
[[attribute]]
name = "number"
type = "integer"
lo = 0
hi = 4
outside = "clamp"
null = "drop"
"""

_TREE = """[[attribute]]
name = "tree"
type = "category"
values = {numbers}
null = "drop"
"""


def declare_tree(
    folder: Path, *, most: int, adjacency: str = "add-remove", numbers: Sequence[str] = ()
) -> list[TableSchema]:
    """Write the declarations of ``TABLES`` into ``folder``, of which ``most`` rows of a patient count; return them.

    Args:
        numbers: Those of several trees, which stand in a column ``tree`` that is a part of every key.
    """
    more = _TREE.format(numbers=json.dumps(list(numbers))) if numbers else ""
    on = ', tree = "tree"' if numbers else ""
    for name in ("units", "schemas"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "units" / "patient.toml").write_text(_UNIT.format(adjacency=adjacency))
    for place, name in enumerate(TABLES):
        link = f'via = "{TABLES[place - 1]}", on = {{ above = "own"{on} }}' if place else 'column = "above"'
        (folder / "schemas" / f"{name}.toml").write_text(_TABLE.format(name=name, link=link, most=most) + more)
    context = DomainFolder(folder)
    return [parse_schema((folder / "schemas" / f"{name}.toml").read_text(), context) for name in TABLES]


@dataclass(frozen=True)
class Tree:
    """The rows of each table, from the unit outwards."""

    tables: tuple[tuple[Row, ...], ...]

    def find_owners(self) -> list[list[frozenset[str]]]:
        """The owners of every row, by the definition."""
        found: list[list[frozenset[str]]] = []
        for place, rows in enumerate(self.tables):
            if not place:
                found.append([frozenset({above} - {""}) for _, above, _ in rows])
                continue
            known: dict[str, frozenset[str]] = {}
            for (own, _, _), owners in zip(self.tables[place - 1], found[-1], strict=True):
                known[own] = known.get(own, frozenset()) | owners
            found.append([known.get(above, frozenset()) if above else frozenset() for _, above, _ in rows])
        return found

    def list_units(self) -> list[str]:
        """The units that own a row."""
        return sorted(set().union(*(owners for table in self.find_owners() for owners in table)))

    def remove(self, unit: str) -> Tree:
        """The neighbour without ``unit``: without the rows whose only owner it is."""
        kept = zip(self.tables, self.find_owners(), strict=True)
        only = frozenset({unit})
        return Tree(
            tuple(tuple(row for row, owners in zip(rows, each, strict=True) if owners != only) for rows, each in kept)
        )

    def count(self, place: int, *, most: int, joined: bool = False) -> int:
        """The number of rows that count in a table if every unit has at most ``most``.

        Args:
            joined: Of its join with all tables that it is linked through, where each pair of rows is one.
        """
        found: list[dict[str, int]] = [{above: 1} if above else {} for _, above, _ in self.tables[0]]
        for above_rows, rows in pairwise(self.tables[: place + 1]):
            known: dict[str, dict[str, int]] = {}
            for (own, _, _), owners in zip(above_rows, found, strict=True):
                _add_up(known.setdefault(own, {}), owners)
            found = [known.get(above, {}) if above else {} for _, above, _ in rows]
            if not joined:
                found = [dict.fromkeys(owners, 1) for owners in found]
        total: dict[str, int] = {}
        for owners in found:
            _add_up(total, owners)
        return sum(min(number, most) for number in total.values())


def _add_up(total: dict[str, int], more: dict[str, int]) -> None:
    for unit, number in more.items():
        total[unit] = total.get(unit, 0) + number


def draw_tree(rng: np.random.Generator) -> Tree:
    """Draw a small tree with broken keys. Rows of one parent are often alike, so that bounds are reached."""
    tables: list[tuple[Row, ...]] = []
    for place in range(len(TABLES)):
        above = ["a", "b", "c"] if not place else sorted({own for own, _, _ in tables[-1]})
        alike = {parent: str(rng.choice(["0", str(LARGEST)])) for parent in above} if rng.random() < 0.6 else {}
        rows: list[Row] = []
        for number in range(int(rng.integers(2, 7))):
            key = f"k{int(rng.integers(0, 3))}" if rng.random() < 0.8 else f"x{number}"
            own = "" if rng.random() < 0.05 else key
            parent = str(rng.choice(above)) if rng.random() < 0.9 else str(rng.choice(["", "nowhere"]))
            rows.append((own, parent, alike.get(parent) or str(rng.choice(["0", "1", "4", "7", ""]))))
        tables.append(tuple(rows))
    return Tree(tuple(tables))


def measure(schema: TableSchema, folder: Path, tree: Tree, *, salt: str = "5a17") -> NDArray[np.int64]:
    """Exact numbers of one table, really opened: of rows, of those in each cell, of the sum, and of units."""
    for name, rows in zip(TABLES, tree.tables, strict=True):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("own", "above", "number"), *rows])
    ledger = MemoryLedger()
    ledger.open_account(
        schema.account, limit=Cost(10**12), accountant="pure", unit=schema.unit.code, adjacency=schema.adjacency
    )
    permit = ledger.reserve(schema.account, DiscreteLaplace(scale=Fraction(10), l1=1), key=None, digest="0" * 64)
    assert not isinstance(permit, SettledAnswer)
    table = open_table(schema, Workspace(folder), ledger, salt=salt)
    size = schema.domain["number"].size
    cells = Block(("number",), (np.append(np.arange(size), -1),))
    [whole], [counts] = (table.count_by_cell([one], permit) for one in (Block((), ()), cells))
    [sums] = table.sum_by_cell([Block((), ())], "number", permit)
    group = np.zeros(1, dtype=np.int64)
    units = table.count_units_by_group(Block((), ()), group, 1, permit, groups_each=None)
    table.close()
    return np.concatenate([whole, counts, sums.index_sums.astype(np.int64), units])


@dataclass
class WorstMove:
    """The largest changes seen by one unit: of counts in L1, of the sum, and of the number of units."""

    l1: int = 0
    total: int = 0
    units: int = 0
    trees: int = 0
    wrong: list[str] = field(default_factory=list)

    def see(self, before: NDArray[np.int64], after: NDArray[np.int64]) -> None:
        """Take the change between two neighbours into account."""
        change = np.abs(before - after)
        self.l1 = max(self.l1, int(change[1:-2].sum()))
        self.total, self.units = max(self.total, int(change[-2])), max(self.units, int(change[-1]))


@dataclass(frozen=True)
class Trial:
    """A tree and its neighbours."""

    seed: int
    tree: Tree
    neighbours: tuple[Tree, ...]


def draw_trials(seeds: range, replaced: bool) -> Iterator[Trial]:
    """Draw a random tree for each seed, with its neighbours; none of a seed whose tree has no units."""
    for seed in seeds:
        whole = draw_tree(np.random.default_rng(seed))
        without = [whole.remove(unit) for unit in whole.list_units()]
        if without:
            # Replaced: a tree without one unit, and the same one without another instead.
            tree, *others = without if replaced else [whole, *without]
            yield Trial(seed, tree, tuple(others))


def find_worst_move(
    folder: Path,
    *,
    trees: int,
    most: int = 2,
    place: int = 2,
    replaced: bool = False,
    joined: bool = False,
    first: int = 0,
) -> WorstMove:
    """The largest changes between ``trees`` random trees (seeds ``first``, ...) and their neighbours.

    Args:
        place: The table that is asked about, from the unit outwards.
        replaced: Each unit gives way to another one, instead of being removed and added.
        joined: The table is joined with all those that it is linked through.
    """
    adjacency = "replace-one" if replaced else "add-remove"
    declared, worst = declare_tree(folder, most=most, adjacency=adjacency), WorstMove()
    schema = join_tables(declared[place], declared[:place]) if joined else declared[place]
    for trial in draw_trials(range(first, first + trees), replaced):
        tree = trial.tree
        here = measure(schema, folder, tree)
        if here[0] != tree.count(place, most=most, joined=joined) or here[-1] != tree.count(place, most=1):
            worst.wrong.append(f"seed {trial.seed}: {here[0]} rows of {here[-1]} units count")
        for other in trial.neighbours:
            worst.see(here, measure(schema, folder, other))
        worst.trees += 1
    return worst


def plant_smallest_owner(patch: Patch) -> None:
    """Plant: of the owners of a key that several claim, only the smallest owns its rows."""
    select = linked_rows._select_parent

    def select_smallest(keys: Any, added: Any, *, keeps_all: bool) -> exp.Query:
        *columns, owner = (quote_name(name) for name, _, _ in keys)
        smallest = exp.alias_(exp.Min(this=owner), owner.name, quoted=True)
        found = select(keys, added, keeps_all=keeps_all).subquery("all_owners")
        return exp.select(*columns, smallest).from_(found).group_by(*columns)

    patch(linked_rows, "_select_parent", select_smallest)


def plant_rank_of_a_key(patch: Patch) -> None:
    """Plant: the rows that count are chosen before the join: of each key of the parent instead of each unit."""
    rank = contribution_bounding._rank

    def rank_before(columns: Sequence[SourceColumn], salt: str, joined: Collection[str] = ()) -> exp.Window:
        window = rank(columns, salt, joined)
        key = next((one for one in columns if one.attribute.name == "above"), None)
        if key is not None:
            window.set("partition_by", [quote_name(key.read_name), quote_name("u")])
        return window

    patch(contribution_bounding, "_rank", rank_before)


def plant_budget_a_table(patch: Patch) -> None:
    """Plant: each table has an account of its own, although its rows are of the same people."""
    patch(TableSchema, "payer", property(lambda schema: schema.name))
