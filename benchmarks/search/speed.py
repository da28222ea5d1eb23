"""S speed: all candidates of a key scored at once, beside a loop and a merge; and discovery by signatures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.row import Options, Row
from siloquent.maths.models.partial_correlation import MomentsByKey, compute_gains
from siloquent.search.plan.discovery import LENGTH, estimate_containment


def rows(options: Options) -> Iterator[Row]:
    """S-score-N-d, S-discover."""
    for candidates, d, goal in ((100_000, 100, 25.0), (100_000, 1_000, None), (1_000_000, 100, None)):
        name = f"S-score-{candidates}-d{d}"
        if options.wants(name) and (candidates * d <= 10**7 or not options.quick):
            yield _scores(name, candidates, d, goal)
    if options.wants("S-discover-100000"):
        yield _discovery()


def cpu_ms(call: Callable[[], object], repeats: int) -> float:
    """The median CPU milliseconds of a call."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(1_000 * (time.process_time() - start))
    return float(np.median(found))


def _scores(name: str, candidates: int, d: int, goal: float | None) -> Row:
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(1)
    values = rng.normal(0, 0.3, (candidates, d)).astype(np.float32)
    squares, unsure = values * values, np.full(candidates, 0.01, dtype=np.float32)
    counts = rng.integers(50, 150, d).astype(np.float64)
    sums = rng.normal(0, 10, (d, 3))
    table = MomentsByKey(counts, sums, np.eye(3) * 0.1)
    with threadpool_limits(1):
        ours = cpu_ms(
            lambda: compute_gains(table, values, squares, unsure=unsure).compute_expected(),
            7 if candidates * d <= 10**7 else 3,
        )
        some = 300
        loop = cpu_ms(lambda: [_one(table, values[i].astype(np.float64)) for i in range(some)], 3) / some * candidates
        merge = cpu_ms(lambda: [_merged(table, values[i]) for i in range(20)], 3) / 20 * candidates
    return Row(
        name,
        ours=ours,
        peer=loop,
        goal=goal,
        unit="CPU ms",
        how=f"{candidates:,} candidates, {d} keys, one thread, squares kept; peer: one by one in numpy; "
        f"ratio {loop / ours:,.0f}; pandas merge and refit {merge / ours:,.0f} times ours",
    )


def _one(table: MomentsByKey, values: np.ndarray) -> float:
    """One candidate's score, as a loop would do it."""
    rows = table.rows
    mean = float(values @ table.counts) / rows
    cross = values @ table.sums / rows - mean * table.means
    variance = float(values**2 @ table.counts) / rows - mean**2
    own = table.covariance[:-1, :-1]
    solved = np.linalg.solve(own, np.column_stack([table.covariance[:-1, -1], cross[:-1]]))
    left = cross[-1] - cross[:-1] @ solved[:, 0]
    return float(left**2 / max(variance - cross[:-1] @ solved[:, 1], 1e-9) / table.covariance[-1, -1])


def _merged(table: MomentsByKey, values: np.ndarray) -> float:
    """One candidate joined as a frame, then scored."""
    import pandas as pd

    keys = np.arange(len(values))
    own = pd.DataFrame({"k": keys, "c": table.counts, "sx": table.sums[:, 0], "sy": table.sums[:, -1]})
    both = own.merge(pd.DataFrame({"k": keys, "z": values.astype(np.float64)}), on="k")
    return _one(table, both["z"].to_numpy())


def _discovery() -> Row:
    rng = np.random.default_rng(2)
    signatures = rng.integers(0, 2**30, (100_000, LENGTH)).astype(np.int32)
    sizes = np.full(100_000, 1_000, dtype=np.int64)
    ours = cpu_ms(lambda: estimate_containment(signatures[0], 1_000, signatures, sizes), 5)
    return Row(
        "S-discover-100000",
        ours=ours,
        unit="CPU ms",
        how="one key's signature against 100,000 others, 128 x 32 bits each, brute force",
    )
