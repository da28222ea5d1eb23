"""PUMS-P style: Adult resampled to 3 x 10^6 people, average hours worked by marital status and age, beside Table 2."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.collect import paper
from benchmarks.collect.data import Integers, Simulated, categorical, one_service, ordinal
from benchmarks.row import Options, Row, of_full_size
from siloquent.collect import build_single_row_users, design
from siloquent.maths.local.hierarchy import build_flat_tree, build_tree

PEOPLE, RELEASES = 3_000_000, 10
QUERIES = {"q1": (None, True), "q2": ((31, 70), True), "q3": ((31, 50), False)}
"""Ages, and whether married (else never married)."""
GOALS = {"q1": 0.4, "q2": 0.4, "q3": 1.5}
PRINTED = {"q1": 1.05, "q2": 1.82, "q3": 9.1}
"""The best standard deviation of Table 2 at eps 2: EHIO, AHIO-RDC, AHIO-RDC, on other data."""
MARRIED, NEVER = "Married-civ-spouse", "Never-married"


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """The root mean square error of AVG(hours) at eps 2."""
    if not any(options.wants(f"census-{name}") for name in QUERIES):
        return
    people = 300_000 if options.quick else PEOPLE
    table, names = resampled(options.data, people)
    roles = [
        ordinal("age", 125, use="filter"),
        categorical("marital", len(names) + 1),
        ordinal("hours", 125, use="measure"),
    ]
    made = design(one_service([roles[0], roles[1], *roles[2:]], "2"))
    found = {name: np.empty(0) for name in QUERIES}
    theirs = {name: np.empty(0) for name in QUERIES}
    for release in range(3 if options.quick else RELEASES):
        simulated = Simulated(made, [build_single_row_users(table)])
        trees = (build_tree(125), build_flat_tree(len(names)), build_tree(125))
        rebuilt = paper.Ahio(table, 2.0, release, least=0, most=124, trees=trees, measures=[2]) if release < 2 else None
        for name, (ages, married) in QUERIES.items():
            status = names.index(MARRIED if married else NEVER)
            inside = table[:, 1] == status
            where, ranges = f"marital = '{status}'", {1: (status, status)}
            if ages:
                inside &= (table[:, 0] >= ages[0]) & (table[:, 0] <= ages[1])
                where += f" AND age BETWEEN {ages[0]} AND {ages[1]}"
                ranges[0] = ages
            truth = float(table[inside, 2].mean())
            value = simulated.ask(f"SELECT AVG(hours) FROM t WHERE {where}").value
            found[name] = np.append(found[name], value - truth)
            if rebuilt is not None:
                average = rebuilt.sum(2, ranges) / rebuilt.count_of_group_sum(ranges)
                theirs[name] = np.append(theirs[name], average - truth)
    for name in QUERIES:
        yield Row(
            f"census-{name}",
            ours=float(np.sqrt(np.square(found[name]).mean())),
            paper=PRINTED[name],
            peer=float(np.sqrt(np.square(theirs[name]).mean())),
            goal=GOALS[name],
            unit="rmse, hours",
            how=f"Adult resampled to {people:,}, eps 2, {len(found[name])} releases; bias {found[name].mean():.2f}; "
            f"peer: AHIO, {len(theirs[name])} releases",
        )


def resampled(data: Path, people: int) -> tuple[Integers, tuple[str, ...]]:
    """Adult resampled: age, marital status (its place) and hours a week; and the names of the statuses."""
    with gzip.open(data / "explore-adult" / "adult.csv.gz", "rt", encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    keys = {name.strip().lower().replace("_", "").replace("-", "").replace(".", ""): name for name in records[0]}
    status = next(keys[key] for key in ("maritalstatus", "marital") if key in keys)
    hours = next(keys[key] for key in ("hoursperweek", "hourweek") if key in keys)
    names = tuple(sorted({record[status].strip() for record in records}))
    table = np.array(
        [(int(one[keys["age"]]), names.index(one[status].strip()), int(one[hours])) for one in records], dtype=np.int64
    )
    return table[np.random.default_rng(0).integers(0, len(table), people)], names
