"""The description of a session's progress, for the person who waits."""

from __future__ import annotations

from collections.abc import Callable

from siloquent.notebook import build_progress_line

ProgressCallback = Callable[[str], None]


def choose_progress(say: ProgressCallback) -> ProgressCallback:
    """Return ``say``, or in a notebook, if nothing was chosen, a line that shows the step."""
    line = build_progress_line("profile") if say is ignore_progress else None
    return say if line is None else line.say


def ignore_progress(_: str) -> None:
    """Ignore progress messages."""
