"""Rows and models from released trees: boxes are filled with rows, and all trees vote on the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import build_fix, run
from siloquent.share.estimate.consistency import make_consistent, round_rows
from siloquent.share.estimate.pool import check_together, clamp_rows, compute_max_rows
from siloquent.share.estimate.stack import Fit, fit_alone
from siloquent.share.linear_score import LinearScore
from siloquent.share.spec import TreeSpec
from siloquent.share.spec.encoding import Encoding, build_encoding
from siloquent.share.spec.release import ShareRelease
from siloquent.share.trees import Skeleton, join_seed, regrow_tree

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LEARNT_FROM = 20_000
"""The maximal number of synthetic rows for fitting a shared model."""


@dataclass(frozen=True, slots=True, eq=False)
class GrownTree:
    """A released tree: its skeleton, and of each leaf the label and the estimated rows, shapes (leaves,)."""

    skeleton: Skeleton
    labels: Integers
    rows: Floats

    def predict_labels(self, features: Integers) -> Integers:
        """Return the label of each row of indices (rows, features)."""
        return self.labels[self.skeleton.find_node(features, len(self.skeleton.levels) - 1)]


def rebuild_tree(release: ShareRelease, encoding: Encoding, *, optimise: bool = True) -> GrownTree:
    """Rebuild the tree in a release, with consistent counts.

    Args:
        optimise: Whether counts of levels correct those of leaves; otherwise negative leaves become 0.
    Raises:
        ReleaseError: It does not hold a tree of its agreement; the agent is named.
    """
    tree = release.agreement.tree
    try:
        skeleton = regrow_tree(encoding, tree, join_seed(release.values["seed"]), release.values["splits"])
        leaves = release.values["leaves"].reshape(skeleton.leaves.nodes, encoding.classes)
        nodes = [skeleton.levels[depth].nodes for depth in range(tree.p - 1)]
        if release.values["levels"].size != sum(nodes):
            raise ValueError("levels")
    except (ValueError, IndexError):
        raise ReleaseError(
            f"The tree of {release.name} was truncated or altered.",
            fix=build_fix(run("verify", "RELEASE"), ", then send it again"),
        ) from None
    levels = np.split(release.values["levels"].astype(np.float64), np.cumsum(nodes)[:-1])
    sizes = leaves.sum(axis=1).astype(np.float64)
    rows = _make_consistent(tree, skeleton, levels, sizes) if optimise else np.maximum(sizes, 0.0)
    return GrownTree(skeleton, leaves.argmax(axis=1), rows)


def _make_consistent(tree: TreeSpec, skeleton: Skeleton, levels: list[Floats], sizes: Floats) -> Floats:
    """Return each leaf's rows, consistent with the levels' counts. Weights: docs/decisions/share-tree-weights.md."""
    parents = [skeleton.find_ancestors(depth, depth + 1) for depth in range(tree.p - 2)]
    parents.append(skeleton.find_ancestors(tree.p - 2, len(skeleton.levels) - 1))
    counts = [*levels, sizes]
    return make_consistent(counts, [np.full(len(count), 1 / len(count)) for count in counts], parents)[-1]


def draw_tree_rows(releases: Sequence[ShareRelease], rng: np.random.Generator, count: int | None = None) -> Integers:
    """Draw rows of indices (rows, features + 1): each tree fills its leaves' boxes, all trees vote on every label.

    Args:
        count: The number of rows, drawn from all of them; None: the number estimated from the trees.
    Source:
        "Privacy-Preserving Federated Data Sharing" (AAMAS 2019), algorithms 4 and 5.
    """
    agreement = check_together(releases)
    encoding = build_encoding(agreement)
    grown, boxes = [], []
    for release in releases:
        tree = rebuild_tree(release, encoding)
        boxes.append(fill_leaves(tree, compute_max_rows([release]), rng))
        tree.skeleton.leaves.forget_boxes()  # a vote needs only the cuts
        grown.append(tree)
    features = np.concatenate(boxes)
    if count is not None and len(features):
        features = features[rng.choice(len(features), count, replace=count > len(features))]
    return np.column_stack(
        [features, draw_label_indices(encoding, compute_majority(grown, features, encoding.classes, rng), rng)]
    )


def fill_leaves(tree: GrownTree, most: int | None, rng: np.random.Generator) -> Integers:
    """Draw rows of indices (rows, features): in each leaf its count, uniform in its box."""
    total = float(tree.rows.sum())
    counts = tree.rows * (clamp_rows(total, most) / total) if total > 0 else tree.rows
    leaf = np.repeat(np.arange(len(tree.rows)), round_rows(counts, rng))
    leaves = tree.skeleton.leaves
    return rng.integers(leaves.low[leaf], leaves.high[leaf] + 1)


def compute_majority(
    trees: Sequence[GrownTree], features: Integers, classes: int, rng: np.random.Generator
) -> Integers:
    """Return the label that most trees give each row; ``rng`` decides ties.

    An even number of trees with pure noise as labels is often tied: a fixed rule would favour one class.
    """
    votes = np.zeros((len(features), classes), dtype=np.int64)
    rows = np.arange(len(features))
    for tree in trees:
        votes[rows, tree.predict_labels(features)] += 1
    return np.asarray((votes + rng.random(votes.shape) / 2).argmax(axis=1), dtype=np.int64)


def draw_label_indices(encoding: Encoding, classes: Integers, rng: np.random.Generator) -> Integers:
    """Draw an index of the label for each class; in a number's bucket a uniform one."""
    if not encoding.is_regression:
        return classes
    edges = np.concatenate([[0], encoding.label_cuts, [encoding.label.steps]])
    return rng.integers(edges[classes], edges[classes + 1])


def fit_tree_scores(releases: Sequence[ShareRelease], rng: np.random.Generator) -> LinearScore:
    """Fit the model of the trees' labelled rows."""
    encoding = build_encoding(releases[0].agreement)
    rows = draw_tree_rows(releases, rng)
    if len(rows) > LEARNT_FROM:
        rows = rows[rng.choice(len(rows), LEARNT_FROM, replace=False)]
    return fit_alone(encoding, rows, Fit("linear" if encoding.is_regression else "logistic"))
