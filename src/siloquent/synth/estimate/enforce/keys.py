"""Keys: duplicates move to combinations that no other row has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.synth.estimate.enforce.coupling import number_groups
from siloquent.synth.estimate.enforce.masks import find_clean, select_inside
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDS = 30
MAX_LISTED = 10**7
"""The most combinations for which the free ones are listed; of more, random ones are nearly always free."""


def make_unique(
    rows: NDArray[np.int32], key: CompiledConstraint, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Move rows whose key another row has, in place; rows with an unknown part of the key may repeat.

    First the finest attribute of the key is redrawn from the other rows' values, so that its distribution stays; the
    remaining rows take free combinations at random.

    Raises:
        ConstraintProblem: There are fewer allowed combinations than rows.
    """
    columns = compiled.find_columns(key.attributes)
    sizes = tuple(compiled.sizes[column] for column in columns.tolist())
    masks = select_inside(key.attributes, compiled.masks)
    finest = int(columns[int(np.argmax(sizes))])
    moved = np.zeros(len(rows), dtype=bool)
    repeated = _find_repeated(rows, key, compiled, moved, random)
    moved[repeated] = True
    for _ in range(ROUNDS):
        if not len(repeated):
            return
        tried = rows.copy()
        tried[repeated, finest] = random.choice(rows[:, finest], len(repeated))
        good = find_clean(tried[repeated], masks, compiled)
        rows[repeated[good], finest] = tried[repeated[good], finest]
        repeated = _find_repeated(rows, key, compiled, moved, random)
    _move_to_free(rows, repeated, key, columns, sizes, compiled, random)


def _find_repeated(
    rows: NDArray[np.int32],
    key: CompiledConstraint,
    compiled: CompiledConstraints,
    moved: NDArray[np.bool_],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Return all rows but one of each repeated combination; a row that was not moved stays, otherwise any."""
    places = random.permutation(np.flatnonzero(_find_known(rows, key, compiled)))
    places = places[np.argsort(moved[places], kind="stable")]
    columns = compiled.find_columns(key.attributes)
    _, first = np.unique(number_groups(rows[np.ix_(places, columns)]), return_index=True)
    return np.sort(np.delete(places, first))


def _find_known(rows: NDArray[np.int32], key: CompiledConstraint, compiled: CompiledConstraints) -> NDArray[np.bool_]:
    assert key.form is not None
    codes = compiled.split_columns(rows)
    found = np.ones(len(rows), dtype=bool)
    for test in key.form.pairs:
        found &= test.left.find_known(codes[test.left.attribute], "=")
    return found


def _move_to_free(
    rows: NDArray[np.int32],
    repeated: NDArray[np.int64],
    key: CompiledConstraint,
    columns: NDArray[np.int64],
    sizes: tuple[int, ...],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    masks = select_inside(key.attributes, compiled.masks)
    if math.prod(sizes) > MAX_LISTED:
        for _ in range(ROUNDS * ROUNDS):
            if not len(repeated):
                return
            drawn = rows[repeated].copy()
            for column, size in zip(columns, sizes, strict=True):
                drawn[:, column] = random.integers(0, size, len(drawn))
            good = find_clean(drawn, masks, compiled)
            rows[repeated[good]] = drawn[good]
            repeated = _find_repeated(rows, key, compiled, np.isin(np.arange(len(rows)), repeated), random)
    else:
        free = _list_free(rows, key, columns, sizes, compiled)
        if len(free) >= len(repeated):
            chosen = np.unravel_index(random.choice(free, len(repeated), replace=False), sizes)
            rows[np.ix_(repeated, columns)] = np.stack(chosen, axis=1)
            return
    raise ConstraintProblem(
        f"{key.text} has fewer allowed combinations than the {len(rows):,} requested rows.",
        fix="request fewer rows, or omit the key",
    )


def _list_free(
    rows: NDArray[np.int32],
    key: CompiledConstraint,
    columns: NDArray[np.int64],
    sizes: tuple[int, ...],
    compiled: CompiledConstraints,
) -> NDArray[np.int64]:
    """Return allowed, known combinations that no row has, as flat cells."""
    grid = np.stack([axis.ravel() for axis in np.indices(sizes)], axis=1).astype(np.int32)
    full = np.zeros((len(grid), len(compiled.attributes)), dtype=np.int32)
    full[:, columns] = grid
    usable = find_clean(full, select_inside(key.attributes, compiled.masks), compiled) & _find_known(
        full, key, compiled
    )
    usable[np.ravel_multi_index(tuple(rows[:, columns].T), sizes)] = False
    return np.flatnonzero(usable)
