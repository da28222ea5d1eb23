"""CPU time of a warm noisy GROUP BY over Adult, step by step, and of planning a new shape."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import siloquent as sq
from benchmarks.datasets.published import adult
from benchmarks.explore.costs import PLENTY
from benchmarks.row import Options, Row
from siloquent.api import Session
from siloquent.explore import parse
from siloquent.explore.plan.planner import plan

# Asked again and again: without REUSE NONE the second answer would be the first one, and cost no noise.
VALUES = 1_000_000
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
    yield from _prefixes(options)
    for count in (20, 2_000):
        if options.wants(f"plan-ranges-{count}"):
            cpu, memory = _apart(f"planned_ranges({count})")
            how = f"EXPLAIN of {count:,} ranges over {VALUES:,} values, peak above that of an idle process"
            yield Row(f"plan-ranges-{count}-cpu", ours=cpu, goal=1.0, unit="CPU s", how=how)
            yield Row(f"plan-ranges-{count}-memory", ours=memory, goal=200.0, unit="MB", how=how)
    for cells, goal in ((100, 3.0), (1_000, 30.0)):
        for accountant in ("pure", "zcdp"):
            name = f"plan-new-{accountant}-{cells}"
            if options.wants(name) and not (options.quick and cells > 100):
                yield Row(
                    name, ours=_new_plan(accountant, cells), goal=goal, unit="CPU s", how=f"prefix over {cells} cells"
                )


def planned_ranges(count: int) -> tuple[float, float]:
    """CPU seconds and more memory in MB of a plan with ``count`` ranges over a million values; in a fresh process."""
    step = VALUES // (2 * count)
    ranges = ", ".join(f"t BETWEEN {i * step} AND {VALUES // 2 + i * step}" for i in range(count))
    query, table = parse(f"BIN wide ON COUNT(*) WHERE W = {{{ranges}}} ERROR 5000"), sq.read_schema(_wide("zcdp"))
    before = _peak_mb()
    few = ", ".join(f"t BETWEEN {i} AND {500 + i}" for i in range(600))
    plan(parse(f"BIN wide ON COUNT(*) WHERE W = {{{few}}} ERROR 5000"), table, left=PLENTY)  # imports are not counted
    start = time.process_time()
    plan(query, table, left=PLENTY)
    spent = time.process_time() - start
    return spent, _peak_mb() - before


def _peak_mb() -> float:
    """The largest resident memory of this program so far; what getrusage tells includes the parent's."""
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) / 1_024


def _apart(call: str) -> tuple[float, ...]:
    """What a function of this module finds in a fresh process."""
    code = f"from benchmarks.explore import latency as here; print(*here.{call})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()))


def _wide(accountant: str) -> str:
    """A table with one attribute of a million values and plenty of budget."""
    budget = 'rho = "1000"\ndelta = "1e-6"' if accountant == "zcdp" else 'epsilon = "1000"'
    return f"""
format = 1
attribute = [{{ name = "t", type = "integer", lo = 0, hi = {VALUES - 1}, outside = "clamp", null = "drop" }}]
[table]
name = "wide"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "{accountant}"
{budget}
"""


def _prefixes(options: Options) -> Iterator[Row]:
    how = f"PREFIX of 2,000 answers over {VALUES:,} values, in a fresh process; memory: peak of both and of the session"
    for accountant in ("pure", "zcdp"):
        name = f"prefix-2000-{accountant}"
        if options.wants(name):
            figures = _apart(f"planned_prefix({accountant!r}, 2_000)")
            parts = (("plan", 1.0, "CPU s"), ("ask", 0.1, "CPU s"), ("memory", 200.0, "MB"))
            for (part, goal, unit), ours in zip(parts, figures, strict=True):
                yield Row(f"{name}-{part}", ours=ours, goal=goal, unit=unit, how=how)


def planned_prefix(accountant: str, count: int) -> tuple[float, float, float]:
    """CPU seconds of a plan for ``count`` nested answers and of a warm ask, and how many MB both took at most."""
    import numpy as np
    import pyarrow as pa

    def text(answers: int, more: str = "") -> str:
        return f"BIN wide ON COUNT(*) WHERE W = PREFIX(t, 100, {100 * answers}, 100) ERROR 5000 {more}"

    schema = sq.read_schema(_wide(accountant))
    plan(parse(text(1_100)), schema, left=PLENTY)  # imports are not counted
    before, start = _peak_mb(), time.process_time()
    plan(parse(text(count)), schema, left=PLENTY)
    planning = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        sq.create_workspace(f"{folder}/w")
        with sq.open(f"{folder}/w") as session:
            rows = np.random.default_rng(1).integers(0, VALUES, 50_000)
            session.add_frame(schema, pa.table({"t": rows}))
            asking = cpu_ms(lambda: session.ask(text(count, "REUSE NONE")), 10) / 1_000
    return planning, asking, _peak_mb() - before


def _new_plan(accountant: str, cells: int) -> float:
    """CPU seconds of planning a shape that was never seen, strategies searched: they hold on a busy machine, too."""
    # One predicate fewer than elsewhere makes a shape of its own, so that nothing is remembered from other rows.
    query = parse(f"BIN adult ON COUNT(*) WHERE W = PREFIX(capgain, 7, {10 * cells - 3}, 10) ERROR 600")
    schema = adult(accountant)
    start = time.process_time()
    plan(query, schema, left=PLENTY)
    return time.process_time() - start
