"""A pytest plugin that writes down which lines of the library each passing test runs, one JSON line a test.

``MUTANTS_TRACE``: the file to append to. ``MUTANTS_SOURCE``: the folder whose files are watched. ``MUTANTS_SECONDS``:
how much processor time a test may take; a slower one is interrupted and not written down.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

ENOUGH = 200  # calls of one function in one test; the next ones hardly show a new line and cost time
SOURCE = os.environ.get("MUTANTS_SOURCE", "") + os.sep
SECONDS = float(os.environ.get("MUTANTS_SECONDS", "10"))


class Lines:
    """The lines that ran since ``clear``, as a bit mask for each file below ``SOURCE``."""

    def __init__(self) -> None:
        self.names: dict[str, str | None] = {}
        self.codes: dict[int, tuple[CodeType, int]] = {}  # the code objects are kept, or their ids would come again
        self.clear()

    def clear(self) -> None:
        """Forget all lines."""
        self.ran: dict[str, set[int]] = {}
        self.calls: Counter[int] = Counter()
        self.seen: dict[int, set[int]] = {}

    def masks(self) -> dict[str, str]:
        """For each file the lines that ran: bit i of the number in hexadecimal stands for line i."""
        for key, lines in self.seen.items():
            name = self.names[self.codes[key][0].co_filename]
            assert name is not None
            self.ran.setdefault(name, set()).update(lines)
        return {name: f"{sum(1 << line for line in lines):x}" for name, lines in sorted(self.ran.items())}

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The trace function of a call: watches its lines if its file is of interest and it may show new ones."""
        code = frame.f_code
        path = code.co_filename
        if path not in self.names:
            self.names[path] = path[len(SOURCE) :] if path.startswith(SOURCE) else None
        if self.names[path] is None:
            return None
        key = id(code)
        if key not in self.codes:
            self.codes[key] = (code, len({line for _, _, line in code.co_lines() if line}))
        seen = self.seen.setdefault(key, set())
        self.calls[key] += 1
        if self.calls[key] > ENOUGH or len(seen) >= self.codes[key][1]:
            return None
        seen.add(frame.f_lineno)

        def line(inner: FrameType, event: str, argument: Any) -> Any:
            seen.add(inner.f_lineno)
            return line

        return line


LINES = Lines()


class TooSlow(Exception):
    """A test takes longer than a map of many tests can wait."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise TooSlow


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Trace one test with its fixtures."""
    LINES.clear()
    signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    threading.settrace(LINES.called)
    sys.settrace(LINES.called)
    start = time.process_time()
    outcomes.clear()
    yield
    seconds = time.process_time() - start
    sys.settrace(None)
    threading.settrace(None)
    signal.setitimer(signal.ITIMER_PROF, 0)
    masks = LINES.masks()
    if outcomes == ["passed"] * 3 and masks and seconds < SECONDS:
        told = {"test": item.nodeid, "seconds": round(seconds, 3), "lines": masks}
        with open(os.environ["MUTANTS_TRACE"], "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")


outcomes: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember how the parts of a test ended."""
    outcomes.append(report.outcome)
