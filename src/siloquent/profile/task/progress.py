"""The description of a session's progress, for the person who waits."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[str], None]


def ignore_progress(_: str) -> None:
    """Ignore progress messages."""
