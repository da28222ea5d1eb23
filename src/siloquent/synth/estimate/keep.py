"""Drawn rows made to keep every hard constraint, and exact counts of what they break. Free post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from siloquent.synth.spec.compiled import CompiledConstraints, DependencyTable, Mask, TableNeed, Violations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tables = Mapping[int, DependencyTable]
"""FD tables by the number of their constraint."""


def dependency_table(
    need: TableNeed,
    histogram: NDArray[np.integer] | None,
    *,
    deviation: float,
    random: np.random.Generator,
) -> DependencyTable:
    """y(x) from the noisy joint histogram (shape ``need.shape``, or flat row-major), or at random where there is none.

    Args:
        deviation: The sd of the noise on one cell; entries below three of them are weak.
    """
    raise NotImplementedError


def masks_of(compiled: CompiledConstraints, tables: Tables) -> tuple[Mask, ...]:
    """All masks of the model: rules about single rows, then those that follow from FD tables (twins, small FDs)."""
    raise NotImplementedError


def coupling_mask(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    rising: bool,
    known_a: NDArray[np.bool_] | None = None,
    known_b: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """The cells of (a, b) on the path of the comonotone (antitone, if not rising) coupling, shape (a, b).

    Args:
        a, b: The marginals over ordered groups (any positive scale); the mask serves couplings without context.
        known_a, known_b: Which groups are ordered values; NULL and ``other`` are combined with everything.
    """
    raise NotImplementedError


def keep(
    rows: NDArray[np.integer],
    compiled: CompiledConstraints,
    tables: Tables,
    random: np.random.Generator,
    *,
    groups: Mapping[str, NDArray[np.integer]] | None = None,
) -> NDArray[np.int32]:
    """``rows`` (rows, attributes) with every hard constraint kept; columns that the model left out may hold anything.

    Args:
        tables: y(x) for every need, by constraint number.
        groups: The model's group of each cell, by attribute: rows that break a rule inside an undecided group
            combination are redrawn within it, so that the model's counts stay.
    Returns:
        A new matrix, int32. The number of rows is the same.
    Raises:
        SiloquentError: A hard constraint is broken at the end. That is our bug; nothing may be released.
    """
    raise NotImplementedError


def violations(rows: NDArray[np.integer], compiled: CompiledConstraints) -> dict[int, Violations]:
    """How often ``rows`` break each constraint that has a form, exactly, by constraint number."""
    raise NotImplementedError
