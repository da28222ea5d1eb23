"""Selection of earlier measurements for a query: a bounded number, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest

from siloquent.explore.plan.reuse.linear_measurements import LinearMeasurement, MeasuredBlock
from siloquent.explore.spec.footprint import Area

MAX_TELLING = 64
"""The maximum number of measurements used for one block of a query."""
MAX_NOISES = 2_500
"""The maximum number of noisy values combined for one block of a query."""


def select_usable(past: Sequence[LinearMeasurement], *, version: int, quantity: str, law: str) -> list[MeasuredBlock]:
    """Select blocks of this version, quantity and noise distribution, oldest first."""
    return [
        piece
        for one in past
        if one.version == version and one.quantity == quantity
        for piece in one.pieces
        if piece.law == law
    ]


def is_related(asked: Area, known: Area) -> bool:
    """Return whether ``known`` could say anything about ``asked``; counts of all rows follow from any attributes."""
    return not asked.attributes or not known.attributes or not set(asked.attributes).isdisjoint(known.attributes)


def select_most_telling(
    asked: Area, pieces: Iterable[MeasuredBlock], *, noises: int = MAX_NOISES
) -> list[MeasuredBlock]:
    """Select the ``pieces`` related to ``asked`` that are most informative, in their order.

    Newer ones go first among equals. Attributes, matrices and deviations decide, never released values.
    """
    related = [piece for piece in pieces if is_related(asked, piece.area)]
    if len(related) <= MAX_TELLING and sum(len(piece.values) for piece in related) <= noises:
        return related
    best = nlargest(MAX_TELLING, range(len(related)), key=lambda place: (related[place].information, place))
    kept: set[int] = set()
    for place in best:
        noises -= len(related[place].values)
        if noises < 0 and kept:
            break
        kept.add(place)
    return [piece for place, piece in enumerate(related) if place in kept]
