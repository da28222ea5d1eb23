"""Declared bins of a number: the groups of a given width, and the versioned rule for the last bin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

MAX_BINS = 100_000
TOP_ALONE = "bins end one step beyond hi"
"""The rule's name. Earlier versions put a value ``hi`` at which a bin begins into the previous bin."""


class Binned(Protocol):
    """The parts of an attribute that are used here: its range, number of steps and declared bin edges."""

    @property
    def edges(self) -> tuple[Decimal, ...]:
        """The bin edges from lo to hi or one step beyond it; empty without declared bins."""
        ...

    @property
    def hi(self) -> object:
        """The largest value."""
        ...

    @property
    def steps(self) -> int:
        """The number of values."""
        ...


def cut_by_width(lo: Decimal, hi: Decimal, grid: Decimal, width: Decimal) -> tuple[Decimal, ...] | None:
    """Return the edges of bins of ``width`` from ``lo`` that cover every value up to ``hi``; None if too many.

    The last edge is ``hi``, which belongs to the last bin; if a bin begins at ``hi``, it is one step beyond.

    >>> [str(edge) for edge in cut_by_width(Decimal(0), Decimal(4), Decimal(1), Decimal(2)) or ()]
    ['0', '2', '4', '5']
    """
    last = (Fraction(hi) - Fraction(lo)) // Fraction(width)
    if last >= MAX_BINS:
        return None
    with localcontext(Context(prec=1_000)):  # sums of decimals must not be rounded
        starts = [lo, *(lo + width * number for number in range(1, last + 1))]
        return (*starts, hi + grid) if starts[-1] == hi else (*starts, hi)


def is_top_alone(attribute: Binned) -> bool:
    """Return whether the last edge lies one step beyond ``hi``."""
    return bool(attribute.edges) and attribute.edges[-1] != attribute.hi


def list_bin_rules(attributes: Iterable[Binned]) -> tuple[str, ...]:
    """Return the rule names that a request's identity contains, besides its text, if it uses bins of ``attributes``.

    Empty for bins that all versions define alike, so that their keys remain valid.
    """
    return (TOP_ALONE,) if any(is_top_alone(attribute) for attribute in attributes) else ()


def format_bin_names(attribute: Binned, starts: Sequence[int]) -> list[str]:
    """Return the names of the bins that begin at ``starts``: ``[0, 5)``; the last one ends at ``hi``."""
    edges = attribute.edges
    names = [f"[{a}, {b})" for a, b in pairwise(edges)]
    is_one_value = is_top_alone(attribute) and starts[-1] == attribute.steps - 1
    names[-1] = f"[{attribute.hi}]" if is_one_value else f"[{edges[-2]}, {attribute.hi}]"
    return names
