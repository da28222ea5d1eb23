"""Time as a role sees it: for deadlines and pauses only. No order and no header ever hangs on it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since 1970, and a way to let some pass."""

    def now(self) -> float:
        """Seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""


class SystemClock:
    """The machine's."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        time.sleep(seconds)
