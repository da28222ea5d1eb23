"""Rules about single rows: rows that break one are redrawn, first within their bins, then from clean rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.synth.spec.compiled import CompiledConstraints, Mask

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.synth.spec.fine_domain import CellGroups

    Groups = Mapping[str, CellGroups]

TRIES = 40
NEAREST = 64
"""The number of clean rows among which the nearest is searched."""


def find_clean(rows: NDArray[np.integer], masks: Sequence[Mask], compiled: CompiledConstraints) -> NDArray[np.bool_]:
    """Return a mask of the rows that break none of the rules, shape (rows,)."""
    codes = compiled.split_columns(rows)
    found = np.ones(len(rows), dtype=bool)
    for mask in masks:
        found &= mask.allows(codes)
    return found


def select_inside(names: Sequence[str], masks: Sequence[Mask]) -> list[Mask]:
    """Return the masks over these attributes only."""
    return [mask for mask in masks if set(mask.attributes) <= set(names)]


def redraw_broken(
    rows: NDArray[np.int32],
    names: Sequence[str],
    compiled: CompiledConstraints,
    random: np.random.Generator,
    groups: Groups | None = None,
) -> None:
    """Redraw ``names`` in the rows that break a rule about them, in place.

    First uniformly within the row's own group of each attribute (the model's counts stay), then with the values of the
    nearest clean row, finally uniformly over the declared cells.
    """
    masks = select_inside(names, compiled.masks)
    columns = compiled.find_columns(names)
    bad = np.flatnonzero(~find_clean(rows, masks, compiled))
    if groups is not None and len(bad):
        bad = _try_draws(
            rows, bad, masks, compiled, lambda at: _draw_within(rows[at], names, compiled, groups, random), TRIES
        )
    good = np.setdiff1d(np.arange(len(rows)), bad)
    if len(bad) and len(good):
        rows[np.ix_(bad, columns)] = rows[np.ix_(find_nearest(rows, bad, good, columns, compiled, random), columns)]
    elif len(bad):
        _try_draws(rows, bad, masks, compiled, lambda at: _draw_anywhere(rows[at], names, compiled, random), 10 * TRIES)


def _try_draws(
    rows: NDArray[np.int32],
    bad: NDArray[np.int64],
    masks: Sequence[Mask],
    compiled: CompiledConstraints,
    draw: Callable[[NDArray[np.int64]], NDArray[np.int32]],
    tries: int,
) -> NDArray[np.int64]:
    """Draw until every bad row is clean or the tries are used up; return the rows that are still bad."""
    for _ in range(tries):
        if not len(bad):
            break
        drawn = draw(bad)
        passed = find_clean(drawn, masks, compiled)
        rows[bad[passed]] = drawn[passed]
        bad = bad[~passed]
    return bad


def _draw_within(
    rows: NDArray[np.int32],
    names: Sequence[str],
    compiled: CompiledConstraints,
    groups: Groups,
    random: np.random.Generator,
) -> NDArray[np.int32]:
    """Return the rows with each of ``names`` drawn from the cells of its group."""
    drawn = rows.copy()
    for name in names:
        if name not in groups:
            continue
        column = compiled.find_column(name)
        drawn[:, column] = groups[name].draw_within(rows[:, column], random)
    return drawn


def _draw_anywhere(
    rows: NDArray[np.int32], names: Sequence[str], compiled: CompiledConstraints, random: np.random.Generator
) -> NDArray[np.int32]:
    drawn = rows.copy()
    for name in names:
        drawn[:, compiled.find_column(name)] = random.integers(0, compiled.sizes[compiled.find_column(name)], len(rows))
    return drawn


def find_nearest(
    rows: NDArray[np.int32],
    wanted: NDArray[np.int64],
    among: NDArray[np.int64],
    columns: NDArray[np.int64],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Return, for each wanted row, one of ``among``: of 64 at random, the nearest in ``columns``.

    Distance is 0 for equal cells, else 1 for categories and 1/4 to 1 by the difference for ordered attributes.
    """
    found = np.empty(len(wanted), dtype=np.int64)
    for start in range(0, len(wanted), 4096):
        part = wanted[start : start + 4096]
        others = random.choice(among, (len(part), min(NEAREST, len(among))))
        distance = np.zeros(others.shape)
        for column in columns:
            attribute = compiled.declared[column]
            gap = np.abs(rows[others, column].astype(np.float64) - rows[part, column][:, None])
            far = gap / max(attribute.size, 1) if attribute.is_numeric or attribute.is_temporal else 1.0
            distance += (gap > 0) * (0.25 + 0.75 * far)
        found[start : start + 4096] = others[np.arange(len(part)), distance.argmin(axis=1)]
    return found
