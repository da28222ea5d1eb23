"""How long a person waits before anything happens: help, and an answer from a fresh process."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from benchmarks.row import Options, Row

QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 400"


def rows(options: Options) -> Iterator[Row]:
    """CPU seconds of whole processes: other work on the machine does not count."""
    runs = 5 if options.quick else 15
    if options.wants("startup-help"):
        yield Row(
            "startup-help",
            ours=cpu_seconds(["--help"], runs=runs),
            goal=0.7,
            better="lower",
            unit="CPU s",
            how=f"siloquent --help, a process a run, median of {runs}",
        )
    if options.wants("startup-ask"):
        with tempfile.TemporaryDirectory() as folder:
            siloquent(["demo", "--folder", f"{folder}/clinic", "--quick"])
            ask = ["--workspace", f"{folder}/clinic", "--analyst", "ana", "ask", QUESTION, "--yes"]
            siloquent(ask)  # the first one fills the caches on disk
            yield Row(
                "startup-ask",
                ours=cpu_seconds(ask, runs=runs),
                goal=1.5,
                better="lower",
                unit="CPU s",
                how=f"siloquent ask on the demo clinic, warm caches, charged, a process a run, median of {runs}",
            )


def siloquent(arguments: Sequence[str]) -> None:
    """One run in a process of its own; its output is kept for the message of a failure."""
    done = subprocess.run([sys.executable, "-m", "siloquent", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"siloquent {arguments[0]} ended with {done.returncode}: {done.stderr[-300:]}")


def cpu_seconds(arguments: Sequence[str], *, runs: int) -> float:
    """The median over ``runs`` processes of their user and system time."""
    times = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        siloquent(arguments)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return statistics.median(times)
