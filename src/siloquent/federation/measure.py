"""The measure room of the one role that has no task: noise that a *worker* adds to a partial sum.

With ``noise = "workers"`` the parties add nothing; the sum holds its guarantee if one worker is honest, whatever the
parties do. Nothing else of the federation draws noise: a party's share comes from its task's own measure room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from siloquent.federation.sums import SumSpec


def add_full_noise(values: NDArray[np.int64], spec: SumSpec) -> NDArray[np.int64]:
    """``values`` plus one full draw of the spec's law for every coordinate; shape (n,).

    Privacy:
        The partial sum alone has the central guarantee of the spec's event: discrete Laplace noise of ``scale``, or
        discrete Gaussian noise of variance ``scale``. Further workers' draws only add to it.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    if spec.law == "gaussian":
        return add_gaussian(values, variance=spec.scale)
    return add_laplace(values, scale=spec.scale)
