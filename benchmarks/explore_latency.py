"""CPU time of a warm noisy GROUP BY over Adult, step by step, and of planning a new shape."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import siloquent as sq
from benchmarks.explore_costs import PLENTY
from benchmarks.published import adult
from benchmarks.row import Options, Row
from siloquent.door import Session
from siloquent.explore import parse
from siloquent.explore.plan.planner import plan

# Asked again and again: without REUSE NONE the second answer would be the first one, and cost no noise.
QUESTION = "SELECT education, COUNT(*) FROM adult GROUP BY education ERROR 2 PERCENT CONFIDENCE 0.9995 REUSE NONE"


def cpu_ms(run: Callable[[], Any], rounds: int) -> float:
    """The median CPU milliseconds of a run, after three to warm up."""
    for _ in range(3):
        run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return 1_000 * statistics.median(found)


def opened(folder: str, data: Path, accountant: str) -> Session:
    """A workspace over the published table."""
    import gzip

    import pyarrow.csv

    sq.create_workspace(folder)
    session = sq.open(folder)
    with gzip.open(data / "explore-adult" / "adult.csv.gz") as file:
        session.add_frame(adult(accountant), pyarrow.csv.read_csv(file))
    return session


def rows(options: Options) -> Iterator[Row]:
    """Latency of explore.md 12.4, and of planning."""
    how = "Adult, 32,561 rows, 16 groups, one process, warm, median of 60"
    schema, query = adult("zcdp"), parse(QUESTION)
    if options.wants("latency-plan"):
        ours = cpu_ms(lambda: plan(query, schema, left=PLENTY), 60)
        yield Row("latency-plan", ours=ours, goal=1.0, unit="CPU ms", how=f"plan of a known shape; {how}")
    if options.wants("latency-ask"):
        with tempfile.TemporaryDirectory() as folder, opened(f"{folder}/w", options.data, "zcdp") as session:
            ours = cpu_ms(lambda: session.ask(QUESTION), 60)
        parts = "parse, plan, reserve, scan, noise, settle, estimate"
        yield Row("latency-ask", ours=ours, goal=5.0, unit="CPU ms", how=f"{parts}, ledger on disk; {how}")
    for cells, goal in ((100, 3.0), (1_000, 30.0)):
        for accountant in ("pure", "zcdp"):
            name = f"plan-new-{accountant}-{cells}"
            if options.wants(name) and not (options.quick and cells > 100):
                yield Row(
                    name, ours=_new_plan(accountant, cells), goal=goal, unit="CPU s", how=f"prefix over {cells} cells"
                )


def _new_plan(accountant: str, cells: int) -> float:
    """CPU seconds of planning a shape that was never seen, strategies searched: they hold on a busy machine, too."""
    # One predicate fewer than elsewhere makes a shape of its own, so that nothing is remembered from other rows.
    query = parse(f"BIN adult ON COUNT(*) WHERE W = PREFIX(capgain, 7, {10 * cells - 3}, 10) ERROR 600")
    schema = adult(accountant)
    start = time.process_time()
    plan(query, schema, left=PLENTY)
    return time.process_time() - start
