"""SYN-2: counts and sums over two services, separate and coordinated clients, beside HIO-JOIN, SC-JOIN and tau = 1."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.collect import paper
from benchmarks.collect.data import Simulated, categorical, nmse, ordinal, syn2, syn2_many
from benchmarks.row import Options, Row, of_full_size
from siloquent.collect import CollectionSpec, Rows, Service, build_single_row_users, design
from siloquent.maths.local.hierarchy import build_flat_tree, build_tree

USERS, MOST = 500_000, 10
GOALS = {2: 4e-4, 5: 8e-6}
MANY = {"count": 6e-5, "sum": 2.5e-4}
SQL = "SELECT COUNT(*), SUM(a2) FROM second JOIN first USING (user) WHERE c1 = '1' AND a2 BETWEEN 6 AND 17"


@of_full_size
def rows(options: Options) -> Iterator[Row]:
    """NMSE over draws of data and noise; C1 = 1 and A2 in 5..16; n = 5 x 10^5."""
    for epsilon, goal in GOALS.items():
        if options.wants(f"join-one-eps{epsilon}") or options.wants(f"join-one-coordinated-eps{epsilon}"):
            yield from _one(epsilon, goal, draws=4 if options.quick else 54)
    if any(options.wants(f"join-many-{kind}") for kind in MANY):
        yield from _many(draws=3 if options.quick else 20)
    if options.wants("join-three"):
        yield from _three(2_000 if options.quick else 100_000)


def spec(epsilon: int, *, per_user: int = 1, client: str = "separate") -> CollectionSpec:
    """Two services: (A1, C1), which everyone has once, and (A2)."""
    first = Service("first", (ordinal("a1", 25, use="filter"), categorical("c1", 20)), everyone=True)
    second = Service("second", (ordinal("a2", 25, lo=1),), per_user=per_user, everyone=per_user == 1)
    return CollectionSpec("b", (first, second), str(epsilon), client=client)  # type: ignore[arg-type]


def _one(epsilon: int, goal: float, draws: int) -> Iterator[Row]:
    apart, together = (design(spec(epsilon, client=client)) for client in ("separate", "coordinated"))
    trees = (build_tree(25), build_flat_tree(20)), (build_tree(25),)
    mine, expected, shared, join, sc = [], [], [], [], []
    for draw in range(draws):
        first, second = syn2(draw, USERS)
        truth = float(((first[:, 1] == 1) & (second[:, 0] >= 5) & (second[:, 0] <= 16)).sum())
        asked = (
            Simulated(apart, [build_single_row_users(first), build_single_row_users(second)]).ask(SQL).estimates[0][0]
        )
        mine.append(nmse([asked.value], [truth], USERS))
        expected.append((asked.standard_error / USERS) ** 2)
        both = build_single_row_users(np.column_stack([first, second]))
        shared.append(nmse([Simulated(together, [both]).ask(SQL).estimates[0][0].value], [truth], USERS))
        if draw < 10:
            hio = paper.HioJoin(((first, trees[0]), (second, trees[1])), epsilon, draw)
            join.append(nmse([hio.count(({1: (1, 1)}, {0: (5, 16)}))], [truth], USERS))
            columns = (first[:, 0], trees[0][0]), (first[:, 1], trees[0][1]), (second[:, 0], trees[1][0])
            sc.append(nmse([paper.ScJoin(columns, epsilon, draw).count({1: (1, 1), 2: (5, 16)})], [truth], USERS))
    # A mean of squares over so few draws is itself a fifth off; what standard errors expect is not.
    how = f"n 5 x 10^5, eps {epsilon}, 1-to-1, {draws} draws, {np.mean(expected):.2g} by standard errors; "
    yield Row(f"join-one-eps{epsilon}", ours=float(np.mean(mine)), peer=float(np.mean(join)), goal=goal, unit="NMSE",
              how=f"{how}peer: HIO-JOIN, {len(join)} draws; SC-JOIN {np.mean(sc):.2g}")  # fmt: skip
    yield Row(f"join-one-coordinated-eps{epsilon}", ours=float(np.mean(shared)), peer=float(np.mean(join)), unit="NMSE",
              how=f"{how}one report on the joined row; peer: HIO-JOIN")  # fmt: skip


def _three(users: int) -> Iterator[Row]:
    """Counts over three services whose joint table would have 1.3 x 10^8 cells: time, and whether errors are true."""
    names = ("first", "second", "third")
    services = tuple(Service(n, (categorical(f"{n}_a", 25), categorical(f"{n}_b", 20)), everyone=True) for n in names)
    made = design(CollectionSpec("b", services, "12"))  # type: ignore[arg-type]
    random = np.random.default_rng(3)
    places = [np.column_stack([random.integers(0, 25, users), random.integers(0, 20, users)]) for _ in names]
    simulated = Simulated(made, [build_single_row_users(one) for one in places])
    joined = "FROM first JOIN second USING (user) JOIN third USING (user)"
    scores, seconds = [], []
    for value in range(12):
        start = time.process_time()
        asked = simulated.ask(f"SELECT COUNT(*) {joined} WHERE first_a = '{value}' OR third_b = '3'").estimates[0][0]
        seconds.append(time.process_time() - start)
        truth = int(((places[0][:, 0] == value) | (places[2][:, 1] == 3)).sum())
        scores.append((asked.value - truth) / asked.standard_error)
    how = f"COUNT over three services of 25 x 20 values, {users:,} users, eps 12, 12 questions"
    yield Row(
        "join-three-cpu", ours=max(seconds[1:]), goal=2.0, unit="CPU s", how=f"{how}; the slowest after the first"
    )
    yield Row("join-three-score", ours=float(np.sqrt(np.mean(np.square(scores)))), goal=2.0, unit="standard errors",
              how=f"{how}; root mean square of what answers are off")  # fmt: skip


def _many(draws: int) -> Iterator[Row]:
    made = design(spec(5, per_user=MOST))
    found: dict[str, list[float]] = {"count": [], "sum": []}
    theirs: dict[str, list[float]] = {"count": [], "sum": []}
    for draw in range(draws):
        first, second = syn2_many(draw, USERS, most=MOST)
        owner = np.repeat(np.arange(USERS), np.diff(second.ends))
        a2 = second.places[:, 0]
        inside = (first[owner, 1] == 1) & (a2 >= 5) & (a2 <= 16)
        truth = {"count": float(inside.sum()), "sum": float((a2[inside] + 1).sum())}
        bounds = {"count": USERS * MOST, "sum": float((a2 + 1).sum())}
        people: list[Rows] = [build_single_row_users(first), replace(second)]
        answers = Simulated(made, people).ask(SQL).estimates[0]
        for kind, one in zip(found, answers, strict=True):
            found[kind].append(nmse([one.value], [truth[kind]], bounds[kind]))
        if draw < 10:
            rebuilt = paper.DoubleRounding(
                first, (build_tree(25), build_flat_tree(20)), second.ends, second.places, 25, 5.0, draw, most_rows=MOST
            )
            for kind, value in zip(theirs, rebuilt.answer({1: (1, 1)}, {0: (5, 16)}), strict=True):
                theirs[kind].append(nmse([value], [truth[kind]], bounds[kind]))
    for kind in found:
        yield Row(
            f"join-many-{kind}", ours=float(np.mean(found[kind])), peer=float(np.mean(theirs[kind])),
            goal=MANY[kind], unit="NMSE",
            how=f"n 5 x 10^5, eps 5, at most {MOST} rows a user, {draws} draws; peer: tau = 1, double rounding",
        )  # fmt: skip
