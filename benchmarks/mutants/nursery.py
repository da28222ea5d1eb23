"""A process that has imported what tests need beside the library, and forks for each run of tests.

Most faults are noticed within a second, so that starting a program and its imports would be most of the work.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MAX_MEMORY = 12 * 2**30  # of address space: a fault may ask for all there is
PRELOADED = (
    "numpy",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "scipy.sparse",
    "pyarrow.compute",
    "pyarrow.parquet",
    "duckdb",
    "pandas",
    "numba",
    "sqlalchemy",
    "sqlite3",
    "cryptography.x509",
    "httpx",
    "starlette.applications",
    "rich.console",
    "hypothesis",
    "_pytest.assertion.rewrite",
    "pytest",
)


class Nursery:
    """Runs pytest in children of one process, one after the other."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[str] | None = None

    def run(
        self, arguments: Sequence[str], source: Path, *, seconds: float, more: Mapping[str, str]
    ) -> tuple[int | None, str]:
        """Exit status and output of pytest over the library in ``source``; None if it ran out of time.

        Args:
            seconds: Processor time. A busy machine may take ten times as long, so what only waits is ended as late as
                that.
        """
        if self._program is None or self._program.poll() is not None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
            self._program = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.mutants.nursery"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        with tempfile.NamedTemporaryFile(prefix="mutants-said-") as said:
            told = {
                "arguments": list(arguments),
                "source": str(source),
                "seconds": seconds,
                "more": dict(more),
                "said": said.name,
            }
            self._program.stdin.write(json.dumps(told) + "\n")
            self._program.stdin.flush()
            status = json.loads(self._program.stdout.readline())
            return status, Path(said.name).read_text("utf-8", errors="replace")


NURSERY = Nursery()


def main() -> None:
    """Fork for each line of the standard input, and write how each child ended."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.partition(".")[0] == "siloquent" for name in sys.modules)
    gc.collect()
    gc.freeze()
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if not child:
            _become(told)
        answers.write(json.dumps(_wait(child, told["seconds"])) + "\n")
        answers.flush()


def _become(told: dict[str, Any]) -> None:
    """Run pytest in this process, which ends with it."""
    os.setsid()  # so that what a test started ends with it
    seconds = math.ceil(told["seconds"])
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    nothing, said = os.open(os.devnull, os.O_RDONLY), os.open(told["said"], os.O_WRONLY)
    for old, new in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(old, new)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    os.environ.update(told["more"])
    os.environ["PYTHONPATH"] = os.pathsep.join([told["source"], str(ROOT)])
    sys.path.insert(0, told["source"])
    status: int = 3
    try:
        status = int(sys.modules["pytest"].main(told["arguments"]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, seconds: float) -> int | None:
    """The child's exit status, as a program has it; None where its time was over."""
    end, pause = time.monotonic() + 10 * seconds, 0.01
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            _end(child)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(pause * 1.2, 0.25)
    _end(child)
    code = os.waitstatus_to_exitcode(status)
    return None if code in (-24, -9) else code  # SIGXCPU, and SIGKILL after it


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 9)


if __name__ == "__main__":
    main()
