"""The command that stands for ``python -m siloquent``; what serves it is started once for each test process."""

from __future__ import annotations

import atexit
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_EXECUTABLE = stat.S_IRWXU


@cache
def _start() -> Path:
    """Start the process that forks; return its folder, with its socket and what its children have used."""
    folder = Path(tempfile.mkdtemp(prefix="forked-"))
    words = [sys.executable, str(_HERE / "parent.py"), str(folder)]
    parent = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    ended = parent.stdin

    def stop() -> None:
        ended.close()
        parent.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return folder


def build_command() -> list[str]:
    """Return the words to put before those of a command line, in place of ``python -m siloquent``.

    The process that they start has the caller's folder, environment and streams, ends with the status of the command
    line, and passes signals on to it. It has another process id, and limits of the operating system do not reach it:
    a test of such things starts ``python -m siloquent``.
    """
    return [sys.executable, "-ISE", str(_HERE / "child.py"), str(_start() / "socket")]


def write_command(file: Path) -> Path:
    """Write ``build_command`` as an executable ``file``, for shells."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\nexec " + " ".join(build_command()) + ' "$@"\n')
    file.chmod(_EXECUTABLE)
    return file


def read_cpu_seconds() -> float:
    """Return the processor time of all commands that have ended, in seconds."""
    used = _start() / "cpu" if _start.cache_info().currsize else None
    return float(used.read_text()) if used is not None and used.exists() else 0.0
