"""Reports as the paper's mechanisms collect them: every layer equally likely, hashes only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.local.frequency_oracles import Oracle
from siloquent.maths.local.hierarchy import Tree


@dataclass(frozen=True, slots=True, eq=False)
class HashedReports:
    """One report of each user on a layer of ``trees``.

    Attributes:
        layers: The levels of each layer.
        drawn: The layer of each user, shape (users,).
        columns: a, b, y of each report, shape (users, 3).
        oracle: Its probabilities; they depend only on epsilon, not on the number of nodes.
    """

    trees: tuple[Tree, ...]
    layers: tuple[tuple[int, ...], ...]
    drawn: NDArray[np.int64]
    columns: NDArray[np.int64]
    oracle: Oracle

    @property
    def users(self) -> int:
        """The number of users who reported."""
        return len(self.drawn)
