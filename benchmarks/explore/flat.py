"""What a question costs in CPU after many others: as much as after few, though earlier answers are drawn from."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import siloquent as sq
from benchmarks.row import Options, Row
from benchmarks.trials.sessions import FIRST, LAST, ROWS, people_file, session
from siloquent.api import Session

QUESTIONS, WINDOW, WARM = 10_000, 500, 500
ASKED = {"default": "", "any": " REUSE ANY"}


def rows(options: Options) -> Iterator[Row]:
    """The mean CPU of a question at the end against that of one at the beginning, both drawing from earlier ones."""
    number, window = (1_200, 200) if options.quick else (QUESTIONS, WINDOW)
    for name, clause in ASKED.items():
        if not options.wants(f"reuse-flat-{name}"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            spent, measured = cpu_of(opened(Path(folder)), number, clause)
        warm = min(WARM, number // 4)
        first, last = spent[warm : warm + window], spent[-window:]
        yield Row(
            f"reuse-flat-{name}",
            ours=float(np.mean(last) / np.mean(first)),
            goal=1.2,
            unit="CPU a question",
            how=f"{number:,} questions one after another{clause}, every second one followed by a measurement of its "
            f"own ({measured:,} in all): the last {window} against {window} after {warm}: {np.mean(last) * 1e3:.1f} ms "
            f"against {np.mean(first) * 1e3:.1f}, medians {np.median(last) * 1e3:.1f} against "
            f"{np.median(first) * 1e3:.1f}",
        )


def opened(folder: Path) -> Session:
    """A session over 32,561 made people."""
    sq.create_workspace(folder)
    found = sq.open(folder)
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(FIRST, LAST, ROWS), "sex": rng.integers(0, 2, ROWS)}
    found.add_frame(sq.read_schema(people_file("zcdp", rho="1000000")), pa.table(table))
    return found


def cpu_of(session_now: Session, number: int, clause: str) -> tuple[list[float], int]:
    """The CPU seconds of each question, and how many measurements there are in the end."""
    rng, spent, measured = np.random.default_rng(1), [], 0
    for place, asked in enumerate(session(11, number)):
        asked = replace(asked, alpha=float(round(asked.alpha * rng.uniform(0.5, 1.5))))
        start = time.process_time()
        answer = session_now.ask(f"{asked.text}{clause}")
        spent.append(time.process_time() - start)
        measured += answer.cost.amount > 0
        if place % 2:
            session_now.ask(f"{asked.text} REUSE NONE")
            measured += 1
    return spent, measured
