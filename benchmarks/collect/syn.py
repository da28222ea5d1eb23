"""SYN-1: counts, sums and averages of one service, beside the paper's HIO and AHIO rebuilt here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.collect import paper
from benchmarks.collect.data import Simulated, nmse, one_service, ordinal, syn1
from benchmarks.row import Options, Row, of_full_size
from siloquent.collect import build_single_row_users, design

USERS, M, QUERIES = 1_000_000, 125, 20
SIDES = {1: 0.15, 2: 0.387, 3: 0.53, 4: 0.62}
TWO = ("syn1-count-1", "syn1-sum", "syn1-count-2", "syn1-avg")
GOALS = {"syn1-count-1": 2e-5, "syn1-sum": 4e-5, "syn1-count-2": 4e-5, "syn1-avg": 0.04}
FOUR = {1: 5e-5, 2: 2e-4, 3: 3e-4, 4: 6e-4}


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """NMSE, or mean relative error of averages; n = 10^6, eps 2, m 125, 25 bins."""
    if any(options.wants(name) for name in (*TWO, "syn1-coverage")):
        yield from _two(2 if options.quick else 30, 1 if options.quick else 3)
    if any(options.wants(f"syn1-d4-count-{d}") for d in SIDES):
        yield from _four(1 if options.quick else 6, 1)


def ranges(rng: np.random.Generator, width: int, count: int = 1) -> list[tuple[int, int]]:
    """``count`` ranges of ``width`` values anywhere."""
    return [(int(low), int(low) + width - 1) for low in rng.integers(0, M - width + 1, count)]


def _two(seeds: int, paper_seeds: int) -> Iterator[Row]:
    # The generator moves what lies outside of the domain to its ends, and the declaration says so.
    roles = [ordinal(f"a{j}", M, lo=1, resolution=25, ends=True) for j in range(2)]
    made = design(one_service(roles, "2"))
    found: dict[str, list[float]] = {name: [] for name in TWO}
    theirs: dict[str, list[float]] = {name: [] for name in TWO}
    holds: list[bool] = []
    for seed in range(seeds):
        table = syn1(seed, USERS)
        whole = float((table[:, 1] + 1).sum())
        simulated = Simulated(made, [build_single_row_users(table)])
        rebuilt = paper.Ahio(table, 2.0, seed) if seed < paper_seeds else None
        for _ in range(QUERIES):
            rng = np.random.default_rng(1_000 * seed + len(found["syn1-sum"]))
            ((low, high),) = ranges(rng, 19)
            box = ranges(rng, 49, 2)
            inside = (table[:, 0] >= low) & (table[:, 0] <= high)
            both = np.logical_and.reduce([(table[:, j] >= a) & (table[:, j] <= b) for j, (a, b) in enumerate(box)])
            truth = inside.sum(), float((table[inside, 1] + 1).sum()), both.sum()
            one = f"a0 BETWEEN {low + 1} AND {high + 1}"
            two = " AND ".join(f"a{j} BETWEEN {a + 1} AND {b + 1}" for j, (a, b) in enumerate(box))
            row = simulated.ask(f"SELECT COUNT(*), SUM(a1), AVG(a1) FROM t WHERE {one}").estimates[0]
            second = simulated.ask(f"SELECT COUNT(*) FROM t WHERE {two}").estimate
            _record(found, row[0].value, row[1].value, second.value, row[2].value, truth, whole)
            wanted = truth[0], truth[1], truth[1] / truth[0], truth[2]
            holds += [one.low <= true <= one.high for one, true in zip([*row, second], wanted, strict=True)]
            if rebuilt is not None:
                total = rebuilt.sum(1, {0: (low, high)})
                count = rebuilt.count_of_group_sum({0: (low, high)})
                hio = [rebuilt.hio.count({0: (low, high)}), rebuilt.hio.count(dict(enumerate(box)))]
                _record(theirs, hio[0], total, hio[1], total / count if count else 0.0, truth, whole)
    for name in TWO:
        how = f"n 10^6, d 2, m 125, eps 2, seeds 0-{seeds - 1} x {QUERIES} queries; peer: "
        how += f"{'HIO' if 'count' in name else 'AHIO'}, OLH, 16 layers, {paper_seeds} seeds"
        yield Row(name, ours=float(np.mean(found[name])), peer=float(np.mean(theirs[name])), goal=GOALS[name], how=how,
                  unit="MRE" if name == "syn1-avg" else "NMSE")  # fmt: skip

    how = f"95 % intervals that hold the truth, less .95; {len(holds):,} of COUNT, SUM, AVG and COUNT of two conditions"
    yield Row("syn1-coverage", ours=abs(float(np.mean(holds)) - 0.95), goal=0.02, unit="share", how=how)


def _record(
    into: dict[str, list[float]],
    count: float,
    total: float,
    second: float,
    average: float,
    truth: tuple[float, float, float],
    whole: float,
) -> None:
    into["syn1-count-1"].append(nmse([count], [truth[0]], USERS))
    into["syn1-sum"].append(nmse([total], [truth[1]], whole))
    into["syn1-count-2"].append(nmse([second], [truth[2]], USERS))
    wanted = truth[1] / truth[0]
    into["syn1-avg"].append(abs(average - wanted) / wanted)


def _four(seeds: int, paper_seeds: int) -> Iterator[Row]:
    made = design(one_service([ordinal(f"a{j}", M, use="filter", resolution=25, ends=True) for j in range(4)], "2"))
    found: dict[int, list[float]] = {d: [] for d in SIDES}
    theirs: dict[int, list[float]] = {d: [] for d in SIDES}
    for seed in range(seeds):
        table = syn1(seed, USERS, d=4)
        simulated = Simulated(made, [build_single_row_users(table)])
        rebuilt = paper.Hio(table, 2.0, seed) if seed < paper_seeds else None
        for d, side in SIDES.items():
            for query in range(QUERIES):
                rng = np.random.default_rng([seed, d, query])
                chosen = sorted(rng.choice(4, d, replace=False).tolist())
                box = dict(zip(chosen, ranges(rng, round(side * M), d), strict=True))
                inside = np.logical_and.reduce([(table[:, j] >= a) & (table[:, j] <= b) for j, (a, b) in box.items()])
                where = " AND ".join(f"a{j} BETWEEN {a} AND {b}" for j, (a, b) in box.items())
                asked = simulated.ask(f"SELECT COUNT(*) FROM t WHERE {where}").value
                found[d].append(nmse([asked], [inside.sum()], USERS))
                if rebuilt is not None and query < 5:
                    theirs[d].append(nmse([rebuilt.count(box)], [inside.sum()], USERS))
    for d in SIDES:
        yield Row(
            f"syn1-d4-count-{d}",
            ours=float(np.mean(found[d])),
            peer=float(np.mean(theirs[d])),
            goal=FOUR[d],
            unit="NMSE",
            how=f"n 10^6, d 4, m 125, eps 2, {d} conditions of side {SIDES[d]}, seeds 0-{seeds - 1} x {QUERIES}; "
            f"peer: HIO, 256 layers, {paper_seeds} seeds x 5",
        )
