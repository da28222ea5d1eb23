"""Questions about linked tables, and about persons, on trees with broken keys and on their neighbours."""

from __future__ import annotations

import csv
import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.replay.audit import LEDGER_ID, Found, Played, judged, play
from benchmarks.replay.explored import ask
from benchmarks.replay.tape import Tape
from benchmarks.trials.linked_neighbours import TABLES, Tree, declare_tree, draw_tree
from siloquent.api import Session
from siloquent.ledger import MemoryLedger
from siloquent.schema.workspace import Workspace

CONDITIONS = ("{} > 1", "{} IN (0, 4)", "{} <= 3")
JOINED = {
    "courses": "courses JOIN visits ON courses.above = visits.own",
    "doses": "doses JOIN courses ON doses.above = courses.own JOIN visits ON courses.above = visits.own",
}
EACH = 3


def name_number(table: str) -> str:
    """The number of a table, by a name that no other table has, so that questions about joins can ask for it."""
    return f"n_{table}"


def question(chance: random.Random) -> tuple[str, str]:
    """A table, and a question about it, about a join that begins with it, or about its persons."""
    table = chance.choice(TABLES)
    rows, name = table, name_number(table)
    if table in JOINED and chance.random() < 0.4:
        rows, name = JOINED[table], name_number(chance.choice(TABLES[: TABLES.index(table) + 1]))
    where = f" WHERE {chance.choice(CONDITIONS).format(name)}" if chance.random() < 0.4 else ""
    if chance.random() < 0.4:
        column = chance.choice(["COUNT(*)", f"SUM({name})", f"MIN({name})", f"MAX({name})", f"COUNT(DISTINCT {name})"])
        key = "above" if rows == "visits" else "patient"
        persons = f"(SELECT {key}, {column} AS n FROM {rows}{where} GROUP BY {key}) AS t"
        asked = [
            f"SELECT AVG(n) FROM {persons} BUDGET 5 EPSILON",
            f"SELECT COUNT(*) FROM {persons} WHERE n > 1 ERROR 4",
            f"SELECT n, COUNT(*) FROM {persons} GROUP BY n ERROR 6",
            f"SELECT SUM(n) FROM {persons} ERROR 60",
            f"SELECT MEDIAN(n) FROM {persons} ERROR 9",
        ]
        return table, chance.choice(asked)
    asked = [
        f"SELECT COUNT(*) FROM {rows}{where} ERROR 4",
        f"SELECT {name}, COUNT(*) FROM {rows}{where} GROUP BY {name} ERROR 6",
        f"SELECT SUM({name}) FROM {rows}{where} ERROR 40",
        f"SELECT AVG({name}), COUNT(*) FROM {rows}{where} BUDGET 5 EPSILON",
        f"SELECT MEDIAN({name}) FROM {rows}{where} ERROR 9",
        f"SELECT {name}, COUNT(*) FROM {rows}{where} GROUP BY {name} HAVING COUNT(*) > 2 ERROR 9",
        f"SELECT COUNT(DISTINCT {'above' if rows == 'visits' else 'patient'}) FROM {rows}{where} ERROR 4",
    ]
    return table, chance.choice(asked)


@contextmanager
def opened(folder: Path, tree: Tree, *, most: int, adjacency: str, accountant: str) -> Iterator[Session]:
    """A session over the tables of ``tree``, whose ledger has always the same name."""
    (folder / "siloquent.toml").write_text("format = 1\n")
    declare_tree(folder, most=most, adjacency=adjacency)
    if accountant == "zcdp":
        file = folder / "units" / "patient.toml"
        file.write_text(file.read_text().replace('"pure"', '"zcdp"') + 'delta = "1e-6"\n')
    for name, rows in zip(TABLES, tree.tables, strict=True):
        declared = folder / "schemas" / f"{name}.toml"
        declared.write_text(declared.read_text().replace('"number"', f'"{name_number(name)}"'))
        with (folder / f"{name}.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows([("own", "above", name_number(name)), *rows])
    with patch("secrets.token_hex", lambda _=32: LEDGER_ID):
        ledger = MemoryLedger()
    with Session(Workspace(folder), ledger) as session:
        yield session


def neighbours(seed: int, adjacency: str) -> tuple[Tree, Tree] | None:
    """A tree and one without a unit; for replace-one, two without another unit each. None for a tree of few units."""
    whole, chance = draw_tree(np.random.default_rng(seed)), random.Random(f"linked neighbours {seed}")
    units = whole.list_units()
    if adjacency == "add-remove":
        return (whole, whole.remove(chance.choice(units))) if units else None
    if len(units) < 2:
        return None
    one, other = chance.sample(units, 2)
    return whole.remove(one), whole.remove(other)


def linked(seeds: range) -> Iterator[Found]:
    """``EACH`` questions after one another for each seed, on neighbouring trees of tables in one account."""
    for seed in seeds:
        chance = random.Random(f"linked {seed}")
        most = chance.choice([1, 2, 3])
        adjacency, accountant = chance.choice(["add-remove", "replace-one"]), chance.choice(["pure", "zcdp"])
        sides = neighbours(seed, adjacency)
        if sides is None:
            continue
        with ExitStack() as stack:
            folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in sides]
            first, second = (
                stack.enter_context(opened(folder, tree, most=most, adjacency=adjacency, accountant=accountant))
                for folder, tree in zip(folders, sides, strict=True)
            )
            for _ in range(EACH):
                table, text = question(chance)
                schema, release = first.schema(table), ask(text)
                drawn: Played = play(first, schema, release, Tape())
                found = judged(schema, second, text, release, drawn, 1)
                yield found
                if found.faults:
                    break
