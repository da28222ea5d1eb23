"""Short errors and one line of progress for notebooks; scripts are as before. This module never imports IPython."""

from __future__ import annotations

import linecache
import sys
import time
from collections.abc import Callable
from html import escape
from types import TracebackType
from typing import Any

PAUSE_SECONDS = 0.2
_MAX_SOURCE = 120


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which can show HTML and replace what it has shown."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None and hasattr(found, "get_ipython") else None
    return hasattr(shell, "kernel")


def build_step_display(label: str, steps: int) -> Callable[[int], None] | None:
    """Return a callback that shows the number of finished steps in a notebook; None elsewhere."""
    line = build_progress_line(label)
    return None if line is None else lambda done: line.show(done, steps)


def build_progress_line(label: str) -> ProgressLine | None:
    """Return a line of progress in a notebook; None elsewhere."""
    return ProgressLine(label) if is_notebook() else None


class ProgressLine:
    """One line in a notebook's output that is replaced as the work goes on; it holds numbers of steps, never rows."""

    def __init__(self, label: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._label, self._clock = label, clock
        self._handle: Any = None
        self._last = float("-inf")

    def show(self, done: int, steps: int) -> None:
        """Show ``done`` of ``steps``; at most some five times a second, and always the last step."""
        bar = f'<progress value="{done}" max="{steps}"></progress> '
        self._replace(f"{self._label}: step {done:,} of {steps:,}", bar=bar, is_last=done >= steps)

    def say(self, text: str, *, often: bool = False) -> None:
        """Show ``text``; at most some five times a second if it comes ``often``."""
        self._replace(f"{self._label}: {text}", bar="", is_last=not often)

    def _replace(self, text: str, *, bar: str, is_last: bool) -> None:
        if not is_last and self._clock() - self._last < PAUSE_SECONDS:
            return
        self._last = self._clock()
        shown = {"text/plain": text, "text/html": bar + escape(text)}
        if self._handle is None:
            self._handle = sys.modules["IPython"].display.display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def format_refusal(title: str, lines: list[str], trace: TracebackType | None) -> list[str]:
    """Return the lines that a notebook shows for an error: its sentences, and the caller's own line of code."""
    return [title, *lines, *_find_line(trace)]


def _find_line(trace: TracebackType | None) -> list[str]:
    """Return the last line of the caller's own code before siloquent was called; empty if there is none."""
    found: list[str] = []
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "siloquent":
            break
        text = linecache.getline(frame.f_code.co_filename, trace.tb_lineno, frame.f_globals).strip()
        found = [f"Line {trace.tb_lineno}: {text[:_MAX_SOURCE]}"] if text else []
        trace = trace.tb_next
    return found
