"""The maximum-entropy joint distribution of several boolean conditions, given what is known of every pair of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROUNDS = 200
MAX_CONDITIONS = 12


def compute_conjunction_probability(singles: Floats, pairs: Floats) -> float:
    """Return the probability that all conditions hold, by maximum entropy.

    Args:
        singles: The probability of each condition, shape (d,), noisy.
        pairs: The probability of each two together, shape (d, d), noisy; the diagonal and one half are not read.
    Returns:
        A probability. Targets are first clipped to the bounds of any joint distribution (Fréchet).
    Source:
        Iterative proportional fitting ("On a Least Squares Adjustment of a Sampled Frequency Table", 1940).
    """
    count = len(singles)
    cells = np.full((2,) * count, 0.5**count)
    single = np.clip(singles, 0.0, 1.0)
    targets = {
        (i, j): np.clip(pairs[i, j], max(0.0, single[i] + single[j] - 1), min(single[i], single[j]))
        for i, j in combinations(range(count), 2)
    }
    for _ in range(ROUNDS):
        for (i, j), both in targets.items():
            wanted = np.array([[1 - single[i] - single[j] + both, single[j] - both], [single[i] - both, both]])
            others = tuple(axis for axis in range(count) if axis not in (i, j))
            found = cells.sum(axis=others)
            ratio = np.divide(np.maximum(wanted, 0), found, out=np.zeros((2, 2)), where=found > 0)
            shape = [2 if axis in (i, j) else 1 for axis in range(count)]
            cells = cells * ratio.reshape(shape)
    return float(cells[(1,) * count])
