"""The paper's estimators over its reports: what each user's report adds to a count, user by user.

A count over several services is the sum over users of the product of what each of their reports adds: the row "all
true" of the inverted 2^K state matrix is that product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.decomposition import Weights, cross_weights, decompose_canonical
from benchmarks.baselines.hio_spec import HashedReports

Floats = NDArray[np.float64]


def compute_contributions(reports: HashedReports, parts: Sequence[Weights]) -> Floats:
    """What each user adds to a count of the rows that ``parts`` make up, one part a tree: shape (users,).

    Users on layers that no node of the decomposition is on add 0, the others their estimate times the number of layers.
    """
    from siloquent.maths.support_kernels import weigh

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
    """HIO's estimate of a count."""
    return float(compute_contributions(reports, parts).sum())


def estimate_public_sum(contributed: Floats, values: Floats) -> float:
    """HIO-PUB's sum of a measure that every user shows: each user's value times what they add to the count."""
    return float(contributed @ values)


def estimate_group_counts(
    reports: HashedReports, parts: Sequence[Weights], axis: int, *, shown: Sequence[Floats] = ()
) -> list[float]:
    """HIO-GROUP-BY: the count in each group of the tree ``axis``, in order.

    Args:
        shown: For groups that users show, whether each user is in a group, one array a group; none where the group is
            sensitive: its dictionary is public, so each value of it is one more condition.
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
    """HIO-JOIN's count over several services' reports of the same users, and its standard error from the users."""
    product = np.prod(contributed, axis=0)
    total = float(product.sum())
    return total, float(np.sqrt(max(np.square(product).sum() - total**2 / len(product), 0.0)))
