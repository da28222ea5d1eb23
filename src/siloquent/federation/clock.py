"""Time as a role sees it, for deadlines and pauses only. No order and no header depends on it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The seconds since 1970, and a way to sleep."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``."""
        time.sleep(seconds)
