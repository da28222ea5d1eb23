"""Reports to several services stored by user: for joint tables of nodes with more cells than users.

An answer's weights over such a table are a sum of products, one factor a service, so a user's contribution is a sum of
products of their reports' contributions: memory is linear in users, and time in users times nodes of one service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.local.frequency_oracles import Oracle

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_AT_ONCE = 2**15  # users


@dataclass(frozen=True, slots=True, eq=False)
class RowReports:
    """The reports of some users, one array a service: row i of all arrays is the same user, shape (users, 3)."""

    columns: tuple[Integers, ...]

    @property
    def users(self) -> int:
        """The number of users who reported."""
        return len(self.columns[0])

    def __add__(self, other: RowReports) -> RowReports:
        """Return the reports of both groups of users."""
        return RowReports(tuple(np.concatenate(pair) for pair in zip(self.columns, other.columns, strict=True)))


Supports = Integers | RowReports
"""The counted reports of some layers: supports of each combination of nodes, or the reports themselves."""


def count_users(counts: Supports) -> int:
    """Return the number of users who reported."""
    return counts.users if isinstance(counts, RowReports) else int(counts.flat[-1])


def merge_supports(one: Supports, other: Supports) -> Supports:
    """Merge the counts of two groups of users; their type depends only on the layers, so both have the same."""
    if isinstance(one, RowReports):
        assert isinstance(other, RowReports)
        return one + other
    assert not isinstance(other, RowReports)
    return one + other


@dataclass(frozen=True, slots=True, eq=False)
class NodeProducts:
    """Weights over the nodes of several services: for each part the sum over i, j, ... of c_ij... f_i (x) g_j (x) ...

    ``parts``: coefficients, one axis a service, and each service's factors, shape (factors, nodes).
    """

    parts: tuple[tuple[Floats, tuple[Floats, ...]], ...]

    def __add__(self, other: NodeProducts) -> NodeProducts:
        return NodeProducts((*self.parts, *other.parts))

    def __rmul__(self, factor: float) -> NodeProducts:
        return NodeProducts(tuple((factor * coefficients, factors) for coefficients, factors in self.parts))

    def compute_user_values(self, reports: RowReports, oracles: Sequence[Oracle]) -> Floats:
        """Return each user's contribution: unbiased for their own weight, shape (users,)."""
        found = np.zeros(reports.users)
        for low in range(0, reports.users, _AT_ONCE):
            some = [own[low : low + _AT_ONCE] for own in reports.columns]
            for coefficients, factors in self.parts:
                phis = [_compute_phi(*one) for one in zip(some, factors, oracles, strict=True)]
                found[low : low + _AT_ONCE] += _contract(coefficients, phis)
        return found


def _contract(coefficients: Floats, phis: Sequence[Floats]) -> Floats:
    """Return the sum over i, j, ... of c_ij... phi_i phi_j ... for each user, the phis of shape (users, factors)."""
    left = phis[0] @ coefficients.reshape(len(coefficients), -1)
    for own in phis[1:]:
        left = np.einsum("ui,uij->uj", own, left.reshape(len(own), own.shape[1], -1))
    return left[:, 0]


def _compute_phi(columns: Integers, factors: Floats, oracle: Oracle) -> Floats:
    """Return each report's estimate of each of ``factors``, weights over nodes: shape (reports, factors)."""
    from siloquent.maths.local.support_kernels import weigh_factors

    held = weigh_factors(oracle.kind == "subset", oracle.size, np.ascontiguousarray(columns), factors.T.copy())
    return np.asarray((held - oracle.q * factors.sum(axis=1)) / (oracle.p - oracle.q))
