"""Measure only what earlier answers leave open: whole linear questions with new noise of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.base import LARGEST_DEVIATION, Integers, product
from siloquent.explore.measure.offers import gaussian_offer, laplace_offer, sensitivity_of
from siloquent.explore.plan.compiled import Compiled
from siloquent.maths.sensitivity import Sensitivity
from siloquent.maths.strategies.sparse import Sparse
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace, Event

LEAST_BITS, MOST_BITS = 4, 15
MOST_COLUMNS = 2_000


@dataclass(frozen=True, slots=True, eq=False)
class Added:
    """A new measurement: one whole matrix over the columns of each block; ``margins``: what whole noise may add."""

    name: str
    matrices: tuple[Integers, ...]
    sensitivity: Sensitivity
    margins: NDArray[np.float64]


def additions(
    compiled: Compiled, beta: float, *, two_sided: bool, alpha: float, norm: Literal["l1", "l2"]
) -> list[Added]:
    """What may be measured: the answers themselves, the cells that they part, and the best strategy for them."""
    bits = _bits(alpha)
    if any(part.running for part in compiled.parts):
        return []
    found = [("answers", tuple(_answers(part.matrix) for part in compiled.parts))]
    if not compiled.disjoint and sum(part.columns for part in compiled.parts) <= MOST_COLUMNS:
        found.append(("cells", tuple(np.eye(part.columns, dtype=np.int64) for part in compiled.parts)))
    whole = [(name, tuple(matrix << bits for matrix in matrices)) for name, matrices in found]
    if norm == "l2":
        offer = gaussian_offer(compiled, beta, two_sided=two_sided, bits=bits)
    else:
        offer = laplace_offer(compiled, beta, two_sided=two_sided)
    if offer is not None:
        whole.append((offer.name, tuple(one for one in offer.matrices if not isinstance(one, Sparse))))
    return [_added(compiled, name, matrices) for name, matrices in whole]


def _added(compiled: Compiled, name: str, matrices: tuple[Integers, ...]) -> Added:
    rounded = compiled.summed is not None and compiled.summed.quantum > 1
    sums = np.concatenate([np.abs(matrix).sum(axis=1) for matrix in matrices])
    margins = 1.0 + (sums / 2 if rounded else np.zeros(len(sums)))
    return Added(name, matrices, sensitivity_of(compiled, matrices), margins)


def _answers(matrix: Integers) -> Integers:
    """The answers of one block, each once."""
    return np.unique(matrix[np.any(matrix != 0, axis=1)], axis=0)


def _bits(alpha: float) -> int:
    """Quanta so fine that rounding hardly costs, so coarse that weak measurements stay within the sampler's range."""
    return max(LEAST_BITS, min(MOST_BITS, math.floor(math.log2(LARGEST_DEVIATION / max(alpha / 3, 1.0))) - 2))


def add_noise(added: Added, event: Event, columns: list[Integers]) -> Integers:
    """The new measurement of exact ``columns``.

    Privacy:
        That of ``event``: discrete Gaussian or Laplace noise on one whole matrix, whose sensitivity the event holds.
        Proof: docs/explanation/reuse.md.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    exact = np.concatenate([product(matrix, x) for matrix, x in zip(added.matrices, columns, strict=True)])
    if isinstance(event, DiscreteGaussian):
        return add_gaussian(exact, variance=event.variance)
    assert isinstance(event, DiscreteLaplace)
    return add_laplace(exact, scale=event.scale)
