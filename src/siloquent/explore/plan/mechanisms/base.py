"""The interface of every mechanism: the promise that it has to keep, and its price and draw without data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from siloquent.explore.plan.mechanisms.draws import Draw
from siloquent.explore.plan.mechanisms.reconstruction import Matrix
from siloquent.explore.spec.query import Kind
from siloquent.explore.spec.stored_measurement import Form
from siloquent.privacy import Event

Affords = Callable[[Event], bool]
LARGEST_DEVIATION = 2**25
_HALVINGS = 60
_BITS = 13
SCALE_BITS, VARIANCE_BITS = 34, 20
"""The number of binary digits after the point of a drawable scale and of a variance."""


@dataclass(frozen=True, slots=True)
class ErrorRequirement:
    """A promise in grid steps: an error of ``m`` or more (alpha = ``alpha`` steps) has probability at most ``beta``.

    ``threshold``: icq reports values above it (whole steps). ``k``: that of tcq; ``sign`` is -1 for the k smallest.
    ``joint``: both kinds of error of an icq or tcq are promised together; ``beta``, which is for each, is half of that.
    ``affords``: for a query with a BUDGET, whether it covers an event; the noise is then the least within the budget.
    """

    kind: Kind
    alpha: Fraction
    m: int
    beta: float
    threshold: int = 0
    k: int = 0
    sign: int = 1
    joint: bool = False
    affords: Affords | None = None

    @property
    def together(self) -> float:
        """The miss rate for distributions covering both kinds of error at once. Proof: docs/explanation/planner.md."""
        return 2 * self.beta if self.joint else self.beta

    @property
    def two_sided(self) -> bool:
        """Whether errors in both directions count."""
        return self.kind == "wcq"


@dataclass(frozen=True, slots=True, eq=False)
class PricedMechanism:
    """A mechanism with fixed parameters, before any data.

    ``event`` is the worst case of a run; ``least`` the best case of an ex-post mechanism, if it is one.
    ``draw``: what a run draws; None if the answer is free and nothing is measured. ``reusable``: the released numbers
    are linear measurements. ``strategy``: the integer matrices that are measured instead of the answers, one per part.
    """

    name: str
    form: Form
    event: Event
    draw: Draw | None
    reusable: bool
    calibration: str = "exact"
    strategy: tuple[Matrix, ...] = ()
    least: Event | None = None


def sharpen_noise(
    largest: Fraction,
    event_of: Callable[[Fraction], Event],
    affords: Affords | None,
    *,
    bits: int = SCALE_BITS,
    least: Fraction = Fraction(0),
) -> Fraction:
    """Return the least noise that a budget covers, where the promise allows ``largest``; less noise keeps it too.

    Args:
        largest: A scale or a variance.
        event_of: The event for a parameter; its cost decreases as the parameter grows.
        affords: None without a budget; then, and if the budget does not cover ``largest``, ``largest`` is returned.
        bits: The number of binary digits after the point that are drawable.
        least: The least parameter for which the promise is proved.
    Returns:
        A parameter within one part in 2^13 of the least, at most ``largest``.
    """
    if affords is None or not affords(event_of(largest)):
        return largest
    high = largest
    for _ in range(_HALVINGS):
        if high / 2 < least or not affords(event_of(high / 2)):
            break
        high /= 2
    places = min(max(_BITS - math.floor(math.log2(high / 2)), 0), bits)
    low, top = max(math.floor(high / 2 * 2**places), 0), math.floor(high * 2**places)
    if top * Fraction(1, 2**places) < high and not (top and affords(event_of(Fraction(top, 2**places)))):
        return high if high == largest else min(Fraction(top + 1, 2**places), largest)
    while top - low > 1:
        middle = (low + top) // 2
        found = Fraction(middle, 2**places)
        low, top = (low, middle) if found >= least and affords(event_of(found)) else (middle, top)
    return min(Fraction(top, 2**places), largest)
