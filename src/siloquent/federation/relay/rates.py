"""Rate limits per role: a bucket of requests that refills at a steady rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from siloquent.errors import ProtocolError


class RelayRates:
    """At most ``rate`` requests a second for each role in the long run, ``burst`` at once.

    >>> RelayRates(rate=1, burst=1).take("north")
    """

    def __init__(
        self, *, rate: float = 50.0, burst: float = 500.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}  # role -> remaining requests, time of that count

    def take(self, role: str) -> None:
        """Count one request.

        Raises:
            ProtocolError: ``quota``: the role has to wait.
        """
        now = self._clock()
        left, then = self._left.get(role, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[role] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            raise ProtocolError("quota", role=role)

    def give_back(self, role: str) -> None:
        """Uncount one request, which only fetched or acknowledged what another role had sent and been counted for."""
        left, then = self._left[role]
        self._left[role] = (min(self._burst, left + 1), then)
