"""The measure room of the one role that has no task: the noise that a *worker* adds to a partial sum.

With ``noise = "workers"`` the parties add no noise; the sum keeps its guarantee if one worker is honest, whatever the
parties do. No other noise is drawn by the federation: a party's share comes from its task's own measure room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from siloquent.federation.sums import SumSpec


def add_full_noise(values: NDArray[np.int64], spec: SumSpec) -> NDArray[np.int64]:
    """Add one full draw from the spec's distribution to every coordinate of ``values``; shape (n,).

    Privacy:
        Each partial sum already has the central guarantee of the spec's event: discrete Laplace noise of ``scale``,
        or discrete Gaussian noise of variance ``scale``. Further workers' draws only add to it.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    if spec.law == "gaussian":
        return add_gaussian(values, variance=spec.scale)
    return add_laplace(values, scale=spec.scale)
