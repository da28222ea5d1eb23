"""PUMS-H style: households of a survey joined with their persons, resampled to 10^6 households of up to 10 persons."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.collect import paper
from benchmarks.collect.data import Integers, Simulated, categorical, nmse, ordinal
from benchmarks.row import Options, Row, of_full_size
from siloquent.collect import CollectionSpec, Rows, Service, build_single_row_users, design
from siloquent.maths.local.hierarchy import build_flat_tree

HOUSEHOLDS, RELEASES, AGES, MOST = 1_000_000, 3, 11, 10
BANDS = ((1, 3), (4, 6), (7, 9), (10, 11))
"""Ages are coded 0 to 10 in this survey; one more here, so that a sum has no value that adds nothing."""


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """COUNT, SUM and AVG of age by kind of dwelling and age band, at eps 2 and 5; persons by their work."""
    for epsilon in (2, 5):
        if any(options.wants(f"households-{kind}-eps{epsilon}") for kind in ("count", "sum", "avg", "groups")):
            yield from _at(options, epsilon)


def _at(options: Options, epsilon: int) -> Iterator[Row]:
    homes, persons, ages, work = resampled(options.data, HOUSEHOLDS // 10 if options.quick else HOUSEHOLDS)
    owner = np.repeat(np.arange(len(homes)), np.diff(persons))
    first = Service("homes", (categorical("dwelling", 3),), everyone=True)
    second = Service("persons", (ordinal("age", AGES, lo=1), categorical("work", 5)), per_user=MOST)
    made = design(CollectionSpec("b", (first, second), str(epsilon)))  # type: ignore[arg-type]
    found: dict[str, list[float]] = {kind: [] for kind in ("count", "sum", "avg", "groups")}
    theirs: dict[str, list[float]] = {kind: [] for kind in ("count", "sum", "avg")}
    bounds = len(homes) * MOST, float((ages + 1).sum())
    for release in range(1 if options.quick else RELEASES):
        simulated = Simulated(
            made, [build_single_row_users(homes[:, None]), Rows(np.column_stack([ages, work]), persons)]
        )
        rebuilt = paper.DoubleRounding(
            homes[:, None], (build_flat_tree(3),), persons, ages[:, None], AGES, epsilon, release, most_rows=MOST
        )
        for low, high in BANDS:
            inside = (homes[owner] == 0) & (ages + 1 >= low) & (ages + 1 <= high)
            truth = float(inside.sum()), float((ages[inside] + 1).sum())
            sql = "SELECT COUNT(*), SUM(age), AVG(age) FROM persons JOIN homes USING (user) WHERE dwelling = '0'"
            one = simulated.ask(f"{sql} AND age BETWEEN {low} AND {high}").estimates[0]
            _record(found, (one[0].value, one[1].value, one[2].value), truth, bounds)
            count, total = rebuilt.answer({0: (0, 0)}, {0: (low - 1, high - 1)})
            _record(theirs, (count, total, min(max(total / count, 1), AGES)), truth, bounds)
        groups = simulated.ask(
            "SELECT work, COUNT(*) FROM persons JOIN homes USING (user) WHERE dwelling = '0' GROUP BY work"
        )
        wanted = [float(((homes[owner] == 0) & (work == at)).sum()) for at in range(4)]
        found["groups"] += [nmse([row[0].value], [at], bounds[0]) for row, at in zip(groups.estimates, wanted)]  # noqa: B905
    how = f"survey resampled to {len(homes):,} households, eps {epsilon}, dwelling and age band"
    for kind, errors in found.items():
        yield Row(
            f"households-{kind}-eps{epsilon}", ours=float(np.mean(errors)),
            peer=float(np.mean(theirs[kind])) if kind in theirs else None,
            unit="MRE" if kind == "avg" else "NMSE",
            how=how + ("; peer: tau = 1, double rounding" if kind in theirs else "; COUNT by work"),
        )  # fmt: skip


def _record(
    into: dict[str, list[float]],
    values: tuple[float, float, float],
    truth: tuple[float, float],
    bounds: tuple[float, float],
) -> None:
    into["count"].append(nmse([values[0]], [truth[0]], bounds[0]))
    into["sum"].append(nmse([values[1]], [truth[1]], bounds[1]))
    wanted = truth[1] / truth[0]
    into["avg"].append(abs(values[2] - wanted) / wanted)


def resampled(data: Path, households: int) -> tuple[Integers, Integers, Integers, Integers]:
    """Dwelling of each household; where its persons end; age (its place) and work of each person."""
    homes, persons = (_read(data / "pums" / f"survey_{name}.csv.gz") for name in ("households", "persons"))
    place = {one["hhID"]: at for at, one in enumerate(homes)}
    of = np.array([place[one["hhID"]] for one in persons])
    order = np.argsort(of, kind="stable")
    kinds = sorted({one["PEmp"] for one in persons})
    ages = np.array([int(float(one["PAge"])) for one in persons])[order]
    work = np.array([kinds.index(one["PEmp"]) for one in persons])[order]
    ends = np.r_[0, np.cumsum(np.bincount(of, minlength=len(homes)))]
    drawn = np.random.default_rng(0).integers(0, len(homes), households)
    counts = np.diff(ends)[drawn]
    kept = np.repeat(ends[drawn] - np.r_[0, np.cumsum(counts)[:-1]], counts) + np.arange(counts.sum())
    dwelling = np.array([int(one["HHDwelling"]) - 1 for one in homes])[drawn]
    return dwelling, np.r_[0, np.cumsum(counts)], ages[kept], work[kept]


def _read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
