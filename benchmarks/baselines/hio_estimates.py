"""The paper's estimators over its reports: the contribution of each user's report to a count.

A count over several services is the sum over users of the product of their reports' contributions: the row "all true"
of the inverted 2^K state matrix is that product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.decomposition import Weights, cross_weights, decompose_canonical
from benchmarks.baselines.hio_spec import HashedReports

Floats = NDArray[np.float64]


def compute_contributions(reports: HashedReports, parts: Sequence[Weights]) -> Floats:
    """Return each user's contribution to a count of the rows given by ``parts``, one part per tree: shape (users,).

    Users on layers without a node of the decomposition contribute 0, others their estimate times the number of layers.
    """
    from siloquent.maths.local.support_kernels import weigh

    found = np.zeros(reports.users)
    oracle = reports.oracle
    for at, levels in enumerate(reports.layers):
        weights = cross_weights(parts, levels)
        if weights is None:
            continue
        mine = np.flatnonzero(reports.drawn == at)
        nodes = np.flatnonzero(weights)
        supported = weigh(reports.columns[mine], oracle.size, nodes, weights[nodes])
        found[mine] = (supported - oracle.q * weights.sum()) / (oracle.p - oracle.q) * len(reports.layers)
    return found


def estimate_count(reports: HashedReports, parts: Sequence[Weights]) -> float:
    """Return HIO's estimate of a count."""
    return float(compute_contributions(reports, parts).sum())


def estimate_public_sum(contributed: Floats, values: Floats) -> float:
    """Return HIO-PUB's sum of a public measure: each user's value times the user's contribution to the count."""
    return float(contributed @ values)


def estimate_group_counts(
    reports: HashedReports, parts: Sequence[Weights], axis: int, *, shown: Sequence[Floats] = ()
) -> list[float]:
    """Return HIO-GROUP-BY's count in each group of the tree ``axis``, in order.

    Args:
        shown: For public groups, whether each user is in a group, one array per group; empty for sensitive groups:
            their dictionary is public, so each value of it is one more condition.
    """
    if shown:
        added = compute_contributions(reports, parts)
        return [float(added[own.astype(bool)].sum()) for own in shown]
    tree = reports.trees[axis]
    return [
        estimate_count(reports, [*parts[:axis], decompose_canonical(tree, value, value), *parts[axis + 1 :]])
        for value in range(tree.values)
    ]


def estimate_joint_count(contributed: Sequence[Floats]) -> tuple[float, float]:
    """Return HIO-JOIN's count over several services' reports of the same users, and its standard error."""
    product = np.prod(contributed, axis=0)
    total = float(product.sum())
    return total, float(np.sqrt(max(np.square(product).sum() - total**2 / len(product), 0.0)))
