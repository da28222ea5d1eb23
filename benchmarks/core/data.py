"""Latency of a warm grouped scan, and how often SQL and Python put a value into different places."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.row import Options, Row
from benchmarks.trials.neighbours import LARGEST, SPAN, opened, stays, worst_of
from benchmarks.trials.random_tables import random_attribute, random_column
from siloquent.data.column_mapping import map_columns
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.schema import Attribute, Block, Domain, TableBudget, TableSchema

ROUNDS = 201


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("data-scan-education"):
        yield scan(options.data / "explore-adult" / "adult.csv.gz")
    if options.wants("data-index-disagreements"):
        yield disagreements(1_000 if options.quick else 100_000)
    if not options.quick and options.wants("data-neighbours-over"):
        yield neighbours(10_000)


def scan(path: Path) -> Row:
    """Sixteen education groups of Adult, by a private table and by DuckDB alone."""
    with gzip.open(path) as file:
        adult = csv.read_csv(file)
    groups = sorted(set(adult.column("education").to_pylist()))
    education = Attribute("education", "category", values=tuple(groups))
    schema = TableSchema("adult", Domain((education,)), TableBudget("pure", Fraction(1)))
    table, permit = opened(schema, adult)
    block = Block(("education",), (np.append(np.arange(len(groups)), -1),))

    import duckdb

    connection = duckdb.connect()
    connection.register("arrow", adult)
    connection.execute("CREATE TABLE adult AS SELECT * FROM arrow")
    query = "SELECT education, COUNT(*) FROM adult GROUP BY education"
    ours, peer = _in_turns(lambda: table.count_by_cell([block], permit), lambda: connection.execute(query).fetchall())
    return Row(
        "data-scan-education",
        ours=ours,
        peer=peer,
        goal=1.0,
        unit="CPU ms",
        how=f"median of {ROUNDS} warm scans, {adult.num_rows:,} rows, {len(groups)} groups; "
        "peer: GROUP BY on the text in DuckDB, with its default threads",
    )


def _in_turns(*calls: Callable[[], object]) -> list[float]:
    """Median CPU milliseconds of each call, all taking turns in this process."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS + 10):
        for times, call in zip(spent, calls, strict=True):
            begin = time.process_time()
            call()
            times.append((time.process_time() - begin) * 1_000)
    return [median(times[10:]) for times in spent]


def disagreements(tables: int) -> Row:
    """Values of random tables whose place by DuckDB is not the one by ``Attribute.index``."""
    wrong = values = 0
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        declared = [random_attribute(rng, f"a{i}") for i in range(4)]
        columns = {a.name: random_column(rng, a, 20) for a in declared}
        found = _places(declared, pa.table({"row": pa.array(range(20)), **columns}))
        for attribute, places in zip(declared, found, strict=True):
            expected = [attribute.index(value) for value in columns[attribute.name].to_pylist()]
            wrong += sum(a != b for a, b in zip(places, expected, strict=True))
            values += len(expected)
    return Row(
        "data-index-disagreements",
        ours=wrong,
        goal=0,
        unit="values",
        how=f"{values:,} values of {tables:,} random tables (seeds from 0), 4 attributes of any kind each; "
        "DuckDB against Attribute.index",
    )


def neighbours(tables: int) -> Row:
    """How many of the bounds of counts and sums some neighbour of a random table breaks, or none of them reaches."""
    wrong, cases = 0, [(most, replace) for most in (0, 1, 2) for replace in (False, True)]
    for most, replace in cases:
        worst, m = worst_of(stays(most), tables=tables // len(cases), replace=replace), max(most, 1)
        bounds = (2 * m, 2 * m * m, m, m * SPAN) if replace else (m, m * m, m, m * LARGEST)
        wrong += sum(seen != bound for seen, bound in zip(worst.all, bounds, strict=True))
    return Row(
        "data-neighbours-over",
        ours=wrong,
        goal=0,
        unit="bounds",
        how=f"all neighbours of {tables:,} small random tables (seeds from 0): rows, users of 1 and 2 rows; add-remove "
        "and replace-one; L1, squared L2, L-infinity of counts and a sum: never more than declared, and reached",
    )


def _places(declared: list[Attribute], table: pa.Table) -> list[list[int]]:
    schema = TableSchema("t", Domain((Attribute("row", "id"), *declared)), TableBudget("pure", Fraction(1)))
    engine = DuckDBEngine(arrow=table)
    layout = map_columns(schema, engine.list_columns())
    for column in layout:
        if column.lookup:
            engine.look_up(column.lookup, column.attribute.values)
    query = select_bounded_rows(layout, schema.unit, salt="", wanted=layout)
    found = pa.Table.from_batches(list(engine.read_batches(query))).sort_by("r0")
    engine.close()
    return [found.column(column.index_name).to_pylist() for column in layout[1:]]
