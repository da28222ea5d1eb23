"""Maps of public cells, of an attribute or a block, as SQL: trees of comparisons, or relations that are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from siloquent.data.sql.indices import build_case, build_int_literal, quote_name
from siloquent.schema import Classes, ClassRuns

Integers = NDArray[np.int64]
Lend = Callable[[dict[str, Integers]], str]
"""Makes columns of public numbers a relation, and returns its name."""
MAX_BRANCHES = 256
"""The most pieces of a map that is written into the query; larger ones are joined as relations."""
_FIRST, _LAST, _VALUE = "map_first", "map_last", "map_value"


@dataclass(frozen=True, slots=True)
class MappedPlace:
    """A place mapped to a number: its expression, and the relation that it comes from, if any, with its condition."""

    value: exp.Expr
    relation: str = ""
    on: exp.Expr | None = None

    @property
    def is_counted(self) -> exp.Expr:
        """The condition that the number is at least 0."""
        return exp.GTE(this=exp.Paren(this=self.value.copy()), expression=build_int_literal(0))


def shift_outside(index: exp.Column, length: int) -> exp.Expr:
    """Return an attribute's index as a place in its classes: that of OUTSIDE is -1, and its class stands last."""
    is_outside = exp.LT(this=index, expression=build_int_literal(0))
    return build_case((is_outside, build_int_literal(length - 1)), default=index.copy())


def map_place(place: exp.Expr, classes: Classes, lend: Lend) -> MappedPlace:
    """Map a place to its class: in the query itself, or if that takes too many pieces by a relation that is lent."""
    starts, values, rising = split_pieces(classes)
    if len(starts) <= MAX_BRANCHES:
        return MappedPlace(build_tree(place, starts, values, rising))
    if isinstance(classes, ClassRuns):
        last = np.append(starts[1:], len(classes)) - 1
        kept = values >= 0
        name = lend({_FIRST: starts[kept], _LAST: last[kept], _VALUE: values[kept]})
        low = exp.GTE(this=place, expression=quote_name(_FIRST, name))
        high = exp.LTE(this=place.copy(), expression=quote_name(_LAST, name))
        return MappedPlace(quote_name(_VALUE, name), name, exp.and_(low, high))
    cells = np.flatnonzero(classes >= 0)
    name = lend({_FIRST: cells, _VALUE: classes[cells]})
    return MappedPlace(quote_name(_VALUE, name), name, exp.EQ(this=place, expression=quote_name(_FIRST, name)))


def split_pieces(classes: Classes) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return where pieces of a map begin, the value there, and whether values rise by 1 from place to place."""
    if isinstance(classes, ClassRuns):
        return classes.starts, classes.classes, np.zeros(len(classes.starts), dtype=np.bool_)
    steps = np.diff(classes)
    # A piece goes on while each step is as the one before it, and 0 or 1.
    goes_on = ((steps == 0) | (steps == 1)) & np.append(True, steps[1:] == steps[:-1])[: len(steps)]
    starts = np.flatnonzero(np.append(True, ~goes_on))
    last = np.append(starts[1:], len(classes)) - 1
    return starts, classes[starts].astype(np.int64), classes[last] != classes[starts]


def build_tree(place: exp.Expr, starts: Integers, values: Integers, rising: NDArray[np.bool_]) -> exp.Expr:
    """Return the value at ``place`` as a balanced tree of comparisons."""
    if len(starts) > 1:
        middle = len(starts) // 2
        is_below = exp.LT(this=place.copy(), expression=build_int_literal(int(starts[middle])))
        below = build_tree(place, starts[:middle], values[:middle], rising[:middle])
        above = build_tree(place, starts[middle:], values[middle:], rising[middle:])
        return build_case((is_below, below), default=above)
    if not rising[0]:
        return exp.cast(build_int_literal(int(values[0])), "BIGINT", copy=False)
    shift = build_int_literal(int(values[0] - starts[0]))
    return exp.Add(this=exp.cast(place.copy(), "BIGINT", copy=False), expression=exp.Paren(this=shift))
