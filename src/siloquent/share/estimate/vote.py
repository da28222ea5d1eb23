"""Rows and models from released trees: boxes are filled with rows, and all trees vote on their labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.share.encoding import Encoding, encoding_of
from siloquent.share.estimate.consistency import consistent, whole_rows
from siloquent.share.estimate.pool import check_together, most_rows, rows_within
from siloquent.share.estimate.stack import Fit, fit_alone
from siloquent.share.release import ShareRelease
from siloquent.share.scores import Scores
from siloquent.share.spec import TreeSpec
from siloquent.share.trees import Skeleton, regrown, seed_of_words

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LEARNT_FROM = 20_000
"""Synthetic rows that a shared model is fitted on at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A released tree: its skeleton, and of each leaf the label and the estimated rows, shapes (leaves,)."""

    skeleton: Skeleton
    labels: Integers
    rows: Floats

    def votes(self, features: Integers) -> Integers:
        """The label of each row of places (rows, features)."""
        return self.labels[self.skeleton.node_of(features, len(self.skeleton.levels) - 1)]


def grown_from(release: ShareRelease, encoding: Encoding, *, optimise: bool = True) -> Grown:
    """The tree in a release, its counts made consistent.

    Args:
        optimise: Whether counts of levels correct those of leaves; if not, negative leaves are 0.
    Raises:
        ReleaseError: It holds no tree of its agreement; the agent is named.
    """
    tree = release.agreement.tree
    try:
        skeleton = regrown(encoding, tree, seed_of_words(release.values["seed"]), release.values["splits"])
        leaves = release.values["leaves"].reshape(skeleton.leaves.nodes, encoding.classes)
        nodes = [skeleton.levels[depth].nodes for depth in range(tree.p - 1)]
        if release.values["levels"].size != sum(nodes):
            raise ValueError("levels")
    except (ValueError, IndexError):
        raise ReleaseError(
            f"The tree of {release.name} was cut or changed.", fix="siloquent verify RELEASE, then send it again"
        ) from None
    levels = np.split(release.values["levels"].astype(np.float64), np.cumsum(nodes)[:-1])
    sizes = leaves.sum(axis=1).astype(np.float64)
    rows = _consistent(tree, skeleton, levels, sizes) if optimise else np.maximum(sizes, 0.0)
    return Grown(skeleton, leaves.argmax(axis=1), rows)


def _consistent(tree: TreeSpec, skeleton: Skeleton, levels: list[Floats], sizes: Floats) -> Floats:
    """Of each leaf, the rows that fit the levels' counts. Weights: docs/decisions/share-tree-weights.md."""
    parents = [skeleton.ancestors(depth, depth + 1) for depth in range(tree.p - 2)]
    parents.append(skeleton.ancestors(tree.p - 2, len(skeleton.levels) - 1))
    counts = [*levels, sizes]
    return consistent(counts, [np.full(len(count), 1 / len(count)) for count in counts], parents)[-1]


def rows_of_trees(releases: Sequence[ShareRelease], rng: np.random.Generator, count: int | None = None) -> Integers:
    """Rows of places (rows, features + 1): each tree fills its leaves' boxes, all trees vote on every label.

    Args:
        count: How many rows, drawn from all of them; None: as many as the trees say there are.
    Source:
        "Privacy-Preserving Federated Data Sharing" (AAMAS 2019), algorithms 4 and 5.
    """
    agreement = check_together(releases)
    encoding = encoding_of(agreement)
    grown, boxes = [], []
    for release in releases:
        tree = grown_from(release, encoding)
        boxes.append(filled(tree, most_rows([release]), rng))
        tree.skeleton.leaves.forget_boxes()  # a vote needs the cuts alone
        grown.append(tree)
    features = np.concatenate(boxes)
    if count is not None and len(features):
        features = features[rng.choice(len(features), count, replace=count > len(features))]
    return np.column_stack([features, label_places(encoding, majority(grown, features, encoding.classes, rng), rng)])


def filled(tree: Grown, most: int | None, rng: np.random.Generator) -> Integers:
    """Rows of places (rows, features): in each leaf as many as it counts, uniform in its box."""
    total = float(tree.rows.sum())
    counts = tree.rows * (rows_within(total, most) / total) if total > 0 else tree.rows
    leaf = np.repeat(np.arange(len(tree.rows)), whole_rows(counts, rng))
    leaves = tree.skeleton.leaves
    return rng.integers(leaves.low[leaf], leaves.high[leaf] + 1)


def majority(trees: Sequence[Grown], features: Integers, classes: int, rng: np.random.Generator) -> Integers:
    """The label that most trees give each row; ``rng`` decides ties.

    An even number of trees whose labels are noise is often tied: a fixed rule would speak for one class.
    """
    votes = np.zeros((len(features), classes), dtype=np.int64)
    rows = np.arange(len(features))
    for tree in trees:
        votes[rows, tree.votes(features)] += 1
    return np.asarray((votes + rng.random(votes.shape) / 2).argmax(axis=1), dtype=np.int64)


def label_places(encoding: Encoding, classes: Integers, rng: np.random.Generator) -> Integers:
    """A place of the label for each class; in a number's bucket a uniform one."""
    if not encoding.is_regression:
        return classes
    edges = np.concatenate([[0], encoding.label_cuts, [encoding.label.steps]])
    return rng.integers(edges[classes], edges[classes + 1])


def scores_of_trees(releases: Sequence[ShareRelease], rng: np.random.Generator) -> Scores:
    """The model of the trees' labelled rows."""
    encoding = encoding_of(releases[0].agreement)
    rows = rows_of_trees(releases, rng)
    if len(rows) > LEARNT_FROM:
        rows = rows[rng.choice(len(rows), LEARNT_FROM, replace=False)]
    return fit_alone(encoding, rows, Fit("linear" if encoding.is_regression else "logistic"))
