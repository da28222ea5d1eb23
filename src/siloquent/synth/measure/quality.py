"""How far the output is from the truth, paid for and released with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.marginals import CoarseDomain, classify_batch
from siloquent.synth.measure.selection import add_vector_noise
from siloquent.synth.spec.measurements import NoisyCounts

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.synth.plan.budget import VectorNoise

Integers = NDArray[np.int64]


class ClassifiersLike(Protocol):
    """Fitted classifiers of one column, functions of what was released."""

    def count_right(self, rows: Integers) -> Integers:
        """How many of ``rows`` (groups, shape (rows, columns)) each says right."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierKernel:
    """The kernel of a fold: from a batch of places to how many of its rows each classifier says right."""

    columns: tuple[str, ...]
    coarse: tuple[CoarseDomain, ...]
    judges: ClassifiersLike

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        classes = classify_batch(batch, self.columns, self.coarse)[1]
        return self.judges.count_right(np.stack(classes, axis=1))


def measure_accuracy(counted: Integers, noise: VectorNoise) -> NoisyCounts:
    """How many true rows each classifier says right.

    Privacy:
        ``noise.event``: a row that comes, goes or is replaced changes each of the three counts by at most one, so
        squared L2 by three (m^2 times that for a user of m rows). The classifiers learned from released rows alone.
    """
    return NoisyCounts("report", (), add_vector_noise(counted, noise), noise.variance)


def measure_distances(
    exact: tuple[Sequence[Integers], Sequence[Integers]],
    output: tuple[Sequence[NDArray[np.float64]], Sequence[NDArray[np.float64]]],
    noise: tuple[VectorNoise, VectorNoise],
) -> list[NoisyCounts]:
    """Summed distances between the table's and the output's counts: over all single attributes, over all pairs.

    Args:
        exact: Counts of single attributes and of pairs.
        output: What the output, scaled to the number of rows, has in the same cells.
    Privacy:
        ``noise[0].event`` and ``noise[1].event``: a row that comes or goes moves the distance of each marginal by at
        most one, so a sum over p of them by p (2 p where a row is replaced, m times that for a user of m rows). The
        output is a function of what was released before.
    """
    return [
        NoisyCounts(
            "report", (), add_vector_noise(np.array([_sum_distances(count, made)], dtype=np.int64), one), one.variance
        )
        for count, made, one in zip(exact, output, noise, strict=True)
    ]


def _sum_distances(exact: Sequence[Integers], output: Sequence[NDArray[np.float64]]) -> int:
    return sum(
        int(np.abs(count - np.rint(made).astype(np.int64)).sum()) for count, made in zip(exact, output, strict=True)
    )
