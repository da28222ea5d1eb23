"""Records in whole steps from feature indices: what an offer sums, and the set of all possible records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.sensitivity.record_pairs import RecordPairs
from siloquent.search.domains import Feature

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def compute_max_record_length(features: tuple[Feature, ...], steps: int, norm_cut: float | None) -> int:
    """Compute the greatest squared length of a record in whole steps: each block has a number of at most ``steps``."""
    whole = sum(feature.blocks for feature in features) * steps**2
    return whole if norm_cut is None else min(whole, math.floor((norm_cut * steps) ** 2))


def build_record_pairs(
    features: tuple[Feature, ...], cells: Sequence[int], steps: int, norm_cut: float | None
) -> RecordPairs | None:
    """Build all possible records, None where they are too many.

    Args:
        cells: The number of cells of each feature, including NULL's own.
    """
    if not RecordPairs.can_enumerate(math.prod(cells), sum(len(feature.columns) for feature in features)):
        return None
    grid = np.indices(tuple(cells)).reshape(len(cells), -1)
    places = {feature.name: row.astype(np.int64) for feature, row in zip(features, grid, strict=True)}
    return RecordPairs(build_whole_records(features, places, grid.shape[1], steps, norm_cut))


def build_whole_records(
    features: tuple[Feature, ...], places: dict[str, Integers], rows: int, steps: int, norm_cut: float | None
) -> Integers:
    """Build the records in whole steps, shape (rows, columns), none longer than ``compute_max_record_length``.

    NULL with a cell of its own is 0, the middle of the range; a row with a feature OUTSIDE is not counted.
    """
    found = np.rint(build_unit_records(features, places, rows) * steps).astype(np.int64)
    if norm_cut is None:
        return found
    longest = compute_max_record_length(features, steps, norm_cut)
    squared = (found**2).sum(axis=1)
    longer = squared > longest
    # Rounding towards zero never lengthens a record; the last digits of a quotient might.
    factor = np.sqrt(longest / squared[longer]) * (1 - 1e-12)
    found[longer] = np.trunc(found[longer] * factor[:, None]).astype(np.int64)
    return found


def build_unit_records(features: tuple[Feature, ...], places: dict[str, Integers], rows: int) -> Floats:
    """Build the records with every column in -1 to 1, shape (rows, columns)."""
    columns: list[Floats] = []
    for feature in features:
        place = places[feature.name]
        has = (place >= 0) & (place < feature.steps)
        if feature.kind == "category":
            columns += [(place == value).astype(np.float64) for value in range(feature.steps)]
        else:
            columns.append(np.where(has, (2.0 * place - (feature.steps - 1)) / (feature.steps - 1), 0.0))
        if feature.indicator:
            columns.append((~has).astype(np.float64))
    return np.stack(columns, axis=1) if columns else np.zeros((rows, 0))
