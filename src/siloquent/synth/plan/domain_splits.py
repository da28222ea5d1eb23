"""The initial fine cells of an attribute, and the parts into which a full run is split: public rules, no rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from siloquent.schema import Attribute
from siloquent.synth.spec.fine_domain import FineDomain

MAX_FINENESS = 1_024
FIRST_PARTS, PARTS, MAX_LEVELS = 128, 16, 4
FEWEST_FINE = 16
FULL = 0.02
"""The share of the rows from which a run is split."""


def build_fine_domain(attribute: Attribute, cuts: tuple[int, ...] = (), *, clear: float | None = None) -> FineDomain:
    """Return the declared bins, or every cell if they are few, or ``FIRST_PARTS`` equal parts.

    Args:
        clear: Roughly the number of rows per standard deviation of noise: more cells than that would hold only noise.
            None: unknown.
    """
    steps, size = attribute.steps, attribute.size
    extra = np.arange(steps, size)
    if not (attribute.is_numeric or attribute.is_temporal):
        return FineDomain(attribute, np.arange(size), 0, tuple(sorted(cuts)))
    if attribute.edges:
        starts = attribute.list_bin_starts()
    else:
        most = MAX_FINENESS if clear is None else min(max(int(clear), FEWEST_FINE), MAX_FINENESS)
        parts = steps if steps <= most else min(most, FIRST_PARTS)
        starts = np.arange(parts, dtype=np.int64) * steps // parts
    starts = np.union1d(starts, [cut for cut in cuts if 0 < cut < steps]).astype(np.int64)
    return FineDomain(attribute, np.concatenate([starts, extra]).astype(np.int64), len(starts), tuple(sorted(cuts)))


def count_split_levels(fine: FineDomain, *, clear: float | None = None) -> int:
    """Return how often the runs may be split until each is a single cell, the first count included.

    If a part of a full run would not exceed the noise, nothing is split.
    """
    if fine.attribute.edges or fine.ordered == 0 or (clear is not None and clear * FULL < PARTS):
        return 1
    levels, width = 1, int(fine.widths[: fine.ordered].max(initial=1))
    while width > 1 and levels < MAX_LEVELS:
        levels, width = levels + 1, -(-width // PARTS)
    return levels


def split(fine: FineDomain, counts: NDArray[np.integer], *, total: float) -> tuple[FineDomain, NDArray[np.bool_]]:
    """Split full runs into ``PARTS`` parts each; also return which runs of the result are new."""
    full = (counts[: fine.ordered] >= FULL * total) & (fine.widths[: fine.ordered] > 1)
    new = [
        start + np.arange(min(PARTS, width), dtype=np.int64) * width // min(PARTS, width)
        for start, width in zip(fine.starts[: fine.ordered][full], fine.widths[: fine.ordered][full], strict=True)
    ]
    parts = np.concatenate(new) if new else np.zeros(0, dtype=np.int64)
    starts = np.union1d(fine.starts, parts)
    ordered = fine.ordered + len(starts) - len(fine.starts)
    return replace(fine, starts=starts, ordered=ordered), np.isin(starts, parts)
