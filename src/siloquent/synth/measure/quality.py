"""How far the output is from the truth, paid for and released with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.synth.measure.selection import noisy
from siloquent.synth.spec.measured import Noisy

if TYPE_CHECKING:
    from siloquent.synth.plan.budget import Noise

Integers = NDArray[np.int64]


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
