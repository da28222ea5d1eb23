"""How far the output is from the truth, paid for and released with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.marginals import Coarse, classes_of
from siloquent.synth.measure.selection import noisy
from siloquent.synth.spec.measured import Noisy

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.synth.plan.budget import Noise

Integers = NDArray[np.int64]


class RightOf(Protocol):
    """Fitted classifiers of one column, functions of what was released."""

    def right(self, rows: Integers) -> Integers:
        """How many of ``rows`` (groups, shape (rows, columns)) each says right."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RightKernel:
    """The kernel of a fold: from a batch of places to how many of its rows each classifier says right."""

    columns: tuple[str, ...]
    coarse: tuple[Coarse, ...]
    judges: RightOf

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        classes = classes_of(batch, self.columns, self.coarse)[1]
        return self.judges.right(np.stack(classes, axis=1))


def right(counted: Integers, noise: Noise) -> Noisy:
    """How many true rows each classifier says right.

    Privacy:
        ``noise.event``: a row that comes, goes or is replaced changes each of the three counts by at most one, so
        squared L2 by three (m^2 times that for a user of m rows). The classifiers learned from released rows alone.
    """
    return Noisy("report", (), noisy(counted, noise), noise.variance)


def distances(
    exact: tuple[Sequence[Integers], Sequence[Integers]],
    output: tuple[Sequence[NDArray[np.float64]], Sequence[NDArray[np.float64]]],
    noise: tuple[Noise, Noise],
) -> list[Noisy]:
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
        Noisy("report", (), noisy(np.array([_distance(count, made)], dtype=np.int64), one), one.variance)
        for count, made, one in zip(exact, output, noise, strict=True)
    ]


def _distance(exact: Sequence[Integers], output: Sequence[NDArray[np.float64]]) -> int:
    return sum(
        int(np.abs(count - np.rint(made).astype(np.int64)).sum()) for count, made in zip(exact, output, strict=True)
    )
