"""Measurement of only what earlier answers leave open: integer linear queries with new noise of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
from siloquent.explore.plan.mechanisms.base import LARGEST_DEVIATION
from siloquent.explore.plan.mechanisms.strategy_choice import (
    compute_choice_sensitivity,
    find_gaussian_choice,
    find_laplace_choice,
)
from siloquent.maths.sensitivity.linear import Sensitivity
from siloquent.maths.strategies.sparse import Sparse

MIN_BITS, MAX_BITS = 4, 15
MAX_COLUMNS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Supplement:
    """A new measurement: an integer matrix over each block's columns; ``margins``: the effect of integer noise."""

    name: str
    matrices: tuple[Integers, ...]
    sensitivity: Sensitivity
    margins: NDArray[np.float64]


def list_supplements(
    compiled: CompiledWorkload, beta: float, *, two_sided: bool, alpha: float, norm: Literal["l1", "l2"]
) -> list[Supplement]:
    """List the possible measurements: the answers themselves, the cells that they separate, and their best strategy."""
    bits = _choose_bits(alpha)
    if any(part.running for part in compiled.parts):
        return []
    found = [("answers", tuple(_list_distinct(part.matrix) for part in compiled.parts))]
    if not compiled.disjoint and sum(part.columns for part in compiled.parts) <= MAX_COLUMNS:
        found.append(("cells", tuple(np.eye(part.columns, dtype=np.int64) for part in compiled.parts)))
    whole = [(name, tuple(matrix << bits for matrix in matrices)) for name, matrices in found]
    if norm == "l2":
        offer = find_gaussian_choice(compiled, beta, two_sided=two_sided, bits=bits)
    else:
        offer = find_laplace_choice(compiled, beta, two_sided=two_sided)
    if offer is not None:
        whole.append((offer.name, tuple(one for one in offer.matrices if not isinstance(one, Sparse))))
    return [_build_supplement(compiled, name, matrices) for name, matrices in whole]


def _build_supplement(compiled: CompiledWorkload, name: str, matrices: tuple[Integers, ...]) -> Supplement:
    rounded = compiled.summed is not None and compiled.summed.quantum > 1
    sums = np.concatenate([np.abs(matrix).sum(axis=1) for matrix in matrices])
    margins = 1.0 + (sums / 2 if rounded else np.zeros(len(sums)))
    return Supplement(name, matrices, compute_choice_sensitivity(compiled, matrices), margins)


def _list_distinct(matrix: Integers) -> Integers:
    """List the distinct answers of one block."""
    return np.unique(matrix[np.any(matrix != 0, axis=1)], axis=0)


def _choose_bits(alpha: float) -> int:
    """Choose quanta fine enough that rounding hardly matters, and coarse enough for weak measurements to be drawn."""
    return max(MIN_BITS, min(MAX_BITS, math.floor(math.log2(LARGEST_DEVIATION / max(alpha / 3, 1.0))) - 2))
