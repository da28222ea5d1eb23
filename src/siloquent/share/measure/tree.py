"""A tree grown on private rows: splits by the exponential mechanism, counts of leaves and levels with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.share.trees import DecisionTreePlan, Level, Skeleton, grow_tree, split_seed

if TYPE_CHECKING:
    from fractions import Fraction

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.share.plan import SharePlan
    from siloquent.share.spec.encoding import Encoding

Integers = NDArray[np.int64]
Select = Callable[[Integers, "Fraction"], Integers]
"""A function from utilities (nodes, candidates) and a rate to the chosen candidate of each node."""
Add = Callable[[Integers, "Fraction"], Integers]
"""A function from counts and a scale to noisy counts."""


def measure_tree(plan: SharePlan, table: PrivateTable, permit: Permit) -> dict[str, Integers]:
    """Measure a private tree: "seed", "splits", noisy "leaves" (leaves x classes) and "levels" (of levels 1 to p - 1).

    Raises:
        NotAllowed: the permit is not an open permit of this table.
        DataError: the source failed; the charge stands.
    Privacy:
        ``plan.event`` in the account's unit and adjacency: each record has one path, along which the costs add up
        to the price. Proof: docs/explanation/share.md.
    Source:
        "Privacy-Preserving Federated Data Sharing" (AAMAS 2019), algorithms 2, 3 and 5 (lines 1 and 2).
    """
    tree, encoding = plan.tree, plan.encoding
    assert tree is not None
    batches = [
        np.stack([np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns], axis=1)
        for batch in table.read_rows(list(encoding.names), permit, encoded=True)
    ]
    places = np.concatenate(batches) if batches else np.zeros((0, len(encoding.names)), dtype=np.int64)
    return grow_on_rows(
        encoding, tree, places[encoding.find_inside(places)], select=select_candidates, add=add_leaf_noise
    )


def grow_on_rows(
    encoding: Encoding, tree: DecisionTreePlan, places: Integers, *, select: Select, add: Add
) -> dict[str, Integers]:
    """Grow the tree on rows of indices (rows, features + 1), all of them inside.

    Privacy:
        That of ``select_candidates`` and ``add_leaf_noise``; see ``measure_tree``.
    """
    features, classes = places[:, :-1], encoding.find_classes(places[:, -1])
    rows = _Rows(features, classes, encoding.classes)

    def choose(level: Level, at: Integers, candidates: Integers) -> Integers:
        rows.follow(level)
        chosen = select(rows.compute_utilities(at, candidates, level), tree.rate)
        return candidates[np.arange(len(candidates)), chosen]

    skeleton = grow_tree(encoding, tree.spec, tree.seed, choose)
    rows.follow(skeleton.leaves)
    cells = np.bincount(rows.node * encoding.classes + classes, minlength=skeleton.leaves.nodes * encoding.classes)
    leaves = cells.reshape(-1, encoding.classes).astype(np.int64)
    for splits in np.unique(skeleton.leaves.splits):
        here = skeleton.leaves.splits == splits
        leaves[here] = add(np.ascontiguousarray(leaves[here]), tree.compute_leaf_scale(int(splits)))
    sizes = [_count_node_rows(skeleton, depth, features) for depth in range(tree.spec.p - 1)]
    return {
        "seed": split_seed(tree.seed),
        "splits": skeleton.list_cuts(),
        "leaves": leaves.ravel(),
        "levels": add(np.concatenate(sizes), tree.level_scale),
    }


class _Rows:
    """Private rows in a growing tree: ``node`` (rows,) is the node of each in the newest level."""

    def __init__(self, features: Integers, classes: Integers, count: int) -> None:
        self.features, self.classes, self.count = features, classes, count
        self.node = np.zeros(len(features), dtype=np.int64)
        self._above: Level | None = None

    def follow(self, level: Level) -> None:
        """Move the rows down to ``level``, the child of the previous one."""
        if self._above is not None:
            self.node = self._above.find_child(self.node, self.features)
        self._above = level

    def compute_utilities(self, at: Integers, candidates: Integers, level: Level) -> Integers:
        """Compute utilities of candidates (n, t) of the nodes ``at``: the largest class count left, plus that right."""
        n, t = candidates.shape
        number = np.full(level.nodes, -1, dtype=np.int64)
        number[at] = np.arange(n)
        which = number[self.node]
        inside = which >= 0
        which, classes = which[inside], self.classes[inside]
        value = self.features[inside, level.attribute[self.node[inside]]]
        order = np.argsort(candidates, axis=1)
        ordered = np.take_along_axis(candidates, order, axis=1)
        # A row lies to the right of all candidates that are not above its index.
        passed = (ordered[which] <= value[:, None]).sum(axis=1)
        cells = np.bincount((which * (t + 1) + passed) * self.count + classes, minlength=n * (t + 1) * self.count)
        counts = cells.reshape(n, t + 1, self.count)
        left = np.cumsum(counts, axis=1)[:, :-1]
        right = counts.sum(axis=1, keepdims=True) - left
        found = np.empty((n, t), dtype=np.int64)
        np.put_along_axis(found, order, left.max(axis=2) + right.max(axis=2), axis=1)
        return found


def _count_node_rows(skeleton: Skeleton, depth: int, features: Integers) -> Integers:
    """Count the rows in each node of a level."""
    node = skeleton.find_node(features, depth)
    return np.bincount(node, minlength=skeleton.levels[depth].nodes).astype(np.int64)


def select_candidates(utilities: Integers, rate: Fraction) -> Integers:
    """Select one candidate for each node, with probability ~ exp(rate utility), shape (nodes,).

    Privacy:
        A record lies in one node of a level: one choice of bounded range 2 rate, or rate where utilities never
        decrease.
    """
    from siloquent.privacy.noise import select_exponential

    return np.array([select_exponential(each, rate=rate) for each in utilities], dtype=np.int64)


def add_leaf_noise(counts: Integers, scale: Fraction) -> Integers:
    """Add discrete Laplace noise to counts.

    Privacy:
        Pure (L1 / scale)-DP.
    """
    from siloquent.privacy.noise import add_laplace

    return add_laplace(counts, scale=scale)
