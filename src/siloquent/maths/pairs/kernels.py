"""Compiled counting of partners under insertion and removal of rows: Fenwick trees over products of small axes.

Numba is imported with this module, so callers import it inside the functions that need it. ``terms`` holds a line of
whole numbers for each term: sign, first axis, number of axes, first cell, rule, axis of the target (or NONE, or MANY).
``axes`` holds a line for each axis: stored column, first entry of its map, asked column, first entry of its map,
ordered, size, stride. Maps lead from a row's cell to a rank, or to -1 if the row is not a partner. The loops are long,
since calling a compiled function for each axis takes more time than its work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SIGN, FIRST, AXES, BASE, RULE, TARGET = 0, 1, 2, 3, 4, 5
STORED, STORED_MAP, ASKED, ASKED_MAP, ORDERED, SIZE, STRIDE = 0, 1, 2, 3, 4, 5, 6
NONE, MANY = -1, -2
MAX_AXES = 40

_LINE, _TABLE = int64[::1], int64[:, ::1]
_PLAN = (_TABLE, _TABLE, _LINE, _LINE)  # terms, axes, maps, cells


def compile_kernel(signature: Any) -> Callable[[F], F]:
    """Compile now, for one signature, using the disk cache if it is writable."""

    def make(function: F) -> F:
        try:
            made: F = numba.njit(signature, cache=True, nogil=True)(function)
        except RuntimeError:
            made = numba.njit(signature, nogil=True)(function)
        return made

    return make


@compile_kernel(numba.void(*_PLAN, _LINE, int64))
def add(terms: Integers, axes: Integers, maps: Integers, cells: Integers, row: Integers, count: int) -> None:  # noqa: C901
    """Store ``row`` (its cells) ``count`` times; -1 removes it."""
    at = np.zeros(MAX_AXES, dtype=np.int64)
    begin = np.zeros(MAX_AXES, dtype=np.int64)
    for term in range(len(terms)):
        first, m = terms[term, FIRST], terms[term, AXES]
        fits = True
        for a in range(m):
            axis = first + a
            rank = maps[axes[axis, STORED_MAP] + row[axes[axis, STORED]]]
            if rank < 0:
                fits = False
                break
            begin[a] = rank + 1
            at[a] = rank + 1
        if not fits:
            continue
        while True:
            place = terms[term, BASE]
            for a in range(m):
                place += (at[a] - 1) * axes[first + a, STRIDE]
            cells[place] += count
            a = m - 1
            while a >= 0:
                if axes[first + a, ORDERED] == 1 and a != terms[term, TARGET]:
                    at[a] += at[a] & -at[a]
                    if at[a] <= axes[first + a, SIZE]:
                        break
                at[a] = begin[a]
                a -= 1
            if a < 0:
                break


@compile_kernel(int64(*_PLAN, _LINE, int64, int64, int64, _LINE))
def _collect(  # noqa: C901
    terms: Integers,
    axes: Integers,
    maps: Integers,
    cells: Integers,
    row: Integers,
    term: int,
    skipped: int,
    width: int,
    found: Integers,
) -> int:
    """Count one term along its axis ``skipped`` (or in total, if that is -1), added to ``found[:width]``.

    Return 0 if the row is not a partner at all, otherwise 1.
    """
    at = np.zeros(MAX_AXES, dtype=np.int64)
    begin = np.zeros(MAX_AXES, dtype=np.int64)
    first, m = terms[term, FIRST], terms[term, AXES]
    for k in range(width):
        found[k] = 0
    for a in range(m):
        if a == skipped:
            begin[a] = 1
        else:
            axis = first + a
            bound = maps[axes[axis, ASKED_MAP] + row[axes[axis, ASKED]]]
            if bound < 0 or (bound == 0 and axes[axis, ORDERED] == 1):
                return 0
            begin[a] = bound if axes[axis, ORDERED] == 1 else bound + 1
        at[a] = begin[a]
    stride = axes[first + skipped, STRIDE] if skipped >= 0 else 1
    while True:
        place = terms[term, BASE]
        for a in range(m):
            place += (at[a] - 1) * axes[first + a, STRIDE]
        for k in range(width):
            found[k] += cells[place + k * stride]
        a = m - 1
        while a >= 0:
            if axes[first + a, ORDERED] == 1 and a != skipped:
                at[a] -= at[a] & -at[a]
                if at[a] > 0:
                    break
            at[a] = begin[a]
            a -= 1
        if a < 0:
            break
    return 1


@compile_kernel(numba.void(*_PLAN, _LINE, int64, int64, _TABLE))
def count_candidates(  # noqa: C901
    terms: Integers,
    axes: Integers,
    maps: Integers,
    cells: Integers,
    row: Integers,
    target: int,
    values: int,
    found: Integers,
) -> None:
    """Count the stored rows with which ``row`` breaks each rule, by value of ``target``: ``found``, (rules, values)."""
    kept = row[target]
    widest = 1
    for axis in range(len(axes)):
        widest = max(widest, axes[axis, SIZE])
    line = np.zeros(widest, dtype=np.int64)
    found[:, :] = 0
    for term in range(len(terms)):
        sign, rule, vector = terms[term, SIGN], terms[term, RULE], terms[term, TARGET]
        if vector == NONE:
            if _collect(terms, axes, maps, cells, row, term, -1, 1, line):
                for value in range(values):
                    found[rule, value] += sign * line[0]
        elif vector == MANY:
            for value in range(values):
                row[target] = value
                if _collect(terms, axes, maps, cells, row, term, -1, 1, line):
                    found[rule, value] += sign * line[0]
            row[target] = kept
        else:
            axis = terms[term, FIRST] + vector
            size = axes[axis, SIZE]
            if not _collect(terms, axes, maps, cells, row, term, vector, size, line):
                continue
            if axes[axis, ORDERED] == 1:
                for k in range(1, size):
                    line[k] += line[k - 1]
            for value in range(values):
                bound = maps[axes[axis, ASKED_MAP] + value]
                if axes[axis, ORDERED] == 1:
                    bound -= 1
                if bound >= 0:
                    found[rule, value] += sign * line[bound]


@compile_kernel(numba.void(*_PLAN, _TABLE, int64))
def add_all(terms: Integers, axes: Integers, maps: Integers, cells: Integers, rows: Integers, count: int) -> None:
    """Store every row of ``rows`` (rows, columns)."""
    for place in range(len(rows)):
        add(terms, axes, maps, cells, rows[place], count)


@compile_kernel(
    numba.void(*_PLAN, _TABLE, _TABLE, int64, float64[::1], float64[:, ::1], float64[::1], _LINE, _LINE, int64)
)
def draw_column(  # noqa: C901
    terms: Integers,
    axes: Integers,
    maps: Integers,
    cells: Integers,
    rows: Integers,
    found: Integers,
    target: int,
    weights: Floats,
    chances: Floats,
    uniforms: Floats,
    order: Integers,
    stuck: Integers,
    stored: int,
) -> None:
    """Draw column ``target`` of the rows in ``order``, each given the stored ones; then store it.

    Row by row: P[v] ~ probability of v x exp(-sum over rules of weight x partners with which v breaks the rule). An
    infinite weight forbids. If no value is left, ``stuck`` gets 1, and the row is neither changed nor stored.

    Args:
        rows: Cells, shape (rows, columns); changed in place.
        found: A buffer for counts, shape (rules, values).
        weights: Of the rules, shape (rules,); inf for hard ones, negative to raise a rate.
        chances: Probabilities, shape (steps, values), one line for each entry of ``order``.
        uniforms: In [0, 1), one for each entry of ``order``.
        stored: 1 if the rows are stored already, and are removed before they are redrawn (Gibbs steps).
    """
    values = chances.shape[1]
    total = np.zeros(values, dtype=np.float64)
    for step in range(len(order)):
        place = order[step]
        row = rows[place]
        if stored:
            add(terms, axes, maps, cells, row, -1)
        count_candidates(terms, axes, maps, cells, row, target, values, found)
        low = np.inf
        for v in range(values):
            energy = 0.0
            for rule in range(len(weights)):
                if found[rule, v]:
                    energy += weights[rule] * found[rule, v]
            total[v] = energy
            if chances[step, v] > 0 and energy < low:
                low = energy
        mass = 0.0
        if low < np.inf:
            for v in range(values):
                total[v] = chances[step, v] * np.exp(low - total[v]) if total[v] < np.inf else 0.0
                mass += total[v]
        if mass <= 0:
            stuck[step] = 1
            if stored:
                add(terms, axes, maps, cells, row, 1)
            continue
        left = uniforms[step] * mass
        chosen = values - 1
        for v in range(values):
            left -= total[v]
            if left < 0:
                chosen = v
                break
        while total[chosen] <= 0:
            chosen -= 1
        row[target] = chosen
        add(terms, axes, maps, cells, row, 1)


@compile_kernel(int64(*_PLAN, _TABLE, _TABLE, int64, int64, int64, float64, float64, _TABLE))
def swap_towards(
    terms: Integers,
    axes: Integers,
    maps: Integers,
    cells: Integers,
    rows: Integers,
    found: Integers,
    target: int,
    values: int,
    broken: int,
    wanted: float,
    close: float,
    pairs: Integers,
) -> int:
    """Exchange column ``target`` of pairs of stored rows if that brings the broken pairs nearer to ``wanted``.

    Stop once they are within ``close``. Return the final number of broken pairs; for a single rule.

    Args:
        pairs: The rows to try, shape (tries, 2).
    """
    for step in range(len(pairs)):
        if abs(broken - wanted) <= close:
            break
        i, j = pairs[step, 0], pairs[step, 1]
        a, b = rows[i, target], rows[j, target]
        if a == b:
            continue
        # Both rows are removed and put back one after the other, so that their own pair is counted once.
        after = broken
        for place, value in ((i, b), (j, a)):
            add(terms, axes, maps, cells, rows[place], -1)
            count_candidates(terms, axes, maps, cells, rows[place], target, values, found)
            after += found[0, value] - found[0, rows[place, target]]
            rows[place, target] = value
            add(terms, axes, maps, cells, rows[place], 1)
        if abs(after - wanted) < abs(broken - wanted):
            broken = after
        else:
            for place, value in ((i, a), (j, b)):
                add(terms, axes, maps, cells, rows[place], -1)
                rows[place, target] = value
                add(terms, axes, maps, cells, rows[place], 1)
    return broken
