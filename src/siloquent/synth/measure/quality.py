"""The distance of the output from the truth, paid for and released with noise."""

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
        """Return how many of ``rows`` (groups, shape (rows, columns)) each classifier predicts right."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierKernel:
    """The kernel of a fold: from a batch of cells to the number of rows that each classifier predicts right."""

    columns: tuple[str, ...]
    coarse: tuple[CoarseDomain, ...]
    judges: ClassifiersLike

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        classes = classify_batch(batch, self.columns, self.coarse)[1]
        return self.judges.count_right(np.stack(classes, axis=1))


def measure_accuracy(counted: Integers, noise: VectorNoise) -> NoisyCounts:
    """Return how many true rows each classifier predicts right, with noise.

    Privacy:
        ``noise.event``: adding, removing or replacing a row changes each of the three counts by at most one, so
        squared L2 by three (m^2 times that for a user of m rows). The classifiers were trained on released rows only.
    """
    return NoisyCounts("report", (), add_vector_noise(counted, noise), noise.variance)


def measure_distances(
    exact: tuple[Sequence[Integers], Sequence[Integers]],
    output: tuple[Sequence[NDArray[np.float64]], Sequence[NDArray[np.float64]]],
    noise: tuple[VectorNoise, VectorNoise],
) -> list[NoisyCounts]:
    """Return noisy sums of the distances between the table's and the output's counts: all single attributes, all pairs.

    Args:
        exact: Counts of single attributes and of pairs.
        output: Counts of the output in the same cells, scaled to the number of rows.
    Privacy:
        ``noise[0].event`` and ``noise[1].event``: adding or removing a row changes the distance of each marginal by at
        most one, so a sum over p of them by p (2 p if a row is replaced, m times that for a user of m rows). The
        output is a function of earlier releases.
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
