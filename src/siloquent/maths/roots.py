"""The root of an increasing function of whole numbers in few calls, since each call may take milliseconds."""

from __future__ import annotations

import math
from collections.abc import Callable

_HALVE = 4
"""Every this many calls one is a bisection, which bounds the calls by this multiple of those of bisection only."""


def last_negative(value: Callable[[int], float], low: int, high: int, *, at_low: float, at_high: float) -> int:
    """Return the last whole number in [``low``, ``high``) at which ``value`` is at most 0.

    Args:
        value: Increasing, perhaps infinite; if it is about linear in the logarithm of the number, a few calls suffice.
        at_low, at_high: Its values there: at most 0, and above 0.
    Source:
        The secant method in the logarithm of the number. After two steps from one side it overshoots, four times as far
        each time, so that a good guess is soon bracketed from both sides.
    """
    side = calls = same = 0
    while high - low > 1:
        calls += 1
        middle = (low + high) // 2
        if calls % _HALVE and low > 0 and math.isfinite(at_low) and math.isfinite(at_high):
            guess = round(low * math.exp(at_low / (at_low - at_high) * math.log(high / low)))
            beyond = 4**same if same else 0
            middle = min(max(guess + (beyond if side < 0 else -beyond), low + 1), high - 1)
        found = value(middle)
        now = -1 if found <= 0 else 1
        same = same + 1 if now == side else 0
        side = now
        if found <= 0:
            low, at_low = middle, found
        else:
            high, at_high = middle, found
    return low
