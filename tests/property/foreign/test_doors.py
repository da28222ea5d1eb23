"""Hostile files through what reads them, in a process that may grow by a GiB. All: ``core --only bombs``."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.core.bombs import MAX_MEGABYTES

CODE = "from benchmarks.core.bombs import tried\nfor one in tried(('sparse', 'csv')): print(*one, sep='|')"


def test_a_file_of_any_size_is_refused_without_being_read() -> None:
    """In a process of its own, since each pair is tried in a fork."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    lines = [line.split("|") for line in done.stdout.splitlines()]
    assert len(lines) > 10
    assert [line for line in lines if line[4] != "refused"] == []
    assert [line for line in lines if float(line[3]) > MAX_MEGABYTES] == []
