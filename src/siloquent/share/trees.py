"""Private trees as arrays: a skeleton from the public seed, splits selected on the rows, and a tree's price.

Levels are numbered from 0, the root. Nodes of one level stand side by side; every record lies in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError, SchemaError
from siloquent.fixes import UseOption, join_choices
from siloquent.privacy import Composed, DiscreteLaplace, Event, ExponentialSelect
from siloquent.privacy.budget import round_up_to_drawable
from siloquent.schema import TableSchema
from siloquent.share.spec import ShareSpec, TreeSpec
from siloquent.share.spec.encoding import Encoding

Integers = NDArray[np.int64]
Choose = Callable[["Level", Integers, Integers], Integers]
"""A function from a level with attributes, its nodes that split in two (n,) and candidates (n, t), to cuts (n,).

It is called once per level, even if no node splits in two.
"""


@dataclass(frozen=True, slots=True)
class DecisionTreePlan:
    """A planned tree, before a row is read; all epsilons are those of one row's path.

    Attributes:
        split: Epsilon of one split on a number.
        rate: The exponential mechanism's rate: ``split`` where utilities never decrease, else half of it.
        leaf: Epsilon of a leaf below no split on a number.
        refund: The epsilon that a split on a number takes from its leaves; 0 for the paper's tree.
        level_scale: Of the noise on counts of levels.
    """

    spec: TreeSpec
    seed: int
    rows: int
    twice: int
    split: Fraction
    rate: Fraction
    leaf: Fraction
    refund: Fraction
    level_scale: Fraction
    event: Event
    classes: int
    max_leaves: int

    @property
    def most_numbers(self) -> int:
        """The maximal number of numbers in a release."""
        return self.max_leaves * (self.classes + 2)

    def compute_leaf_scale(self, splits: int) -> Fraction:
        """Compute the noise scale of leaves below ``splits`` splits on numbers."""
        return round_up_to_drawable(self.twice * self.rows / (self.leaf - splits * self.refund))

    @property
    def deepest_scale(self) -> Fraction:
        """The noise scale of leaves below only splits on numbers: the largest there is."""
        return self.compute_leaf_scale(self.spec.h - 1)


def plan_tree(
    spec: ShareSpec, schema: TableSchema, encoding: Encoding, epsilon: Fraction, seed: int
) -> DecisionTreePlan:
    """Plan a tree for ``epsilon``: half for the tree, half for the counts of levels.

    Raises:
        RequestError: The account is not pure. SchemaError: A number has too many values for a tree.
    """
    if schema.budget.accountant != "pure":
        raise RequestError(
            "Trees are priced in epsilon only; this table's account is zcdp.",
            fix=join_choices([UseOption("method", "gram"), 'accountant = "pure" for this table']),
        )
    if all(attribute.size < 2 for attribute in encoding.features):
        raise SchemaError("A tree needs a feature with two values.")
    tree, twice, rows = spec.tree, 1 + schema.replace_one, schema.unit.max_rows
    each = epsilon / (2 * tree.h)
    ours = tree.variant == "ours"
    # Under add-remove the utilities of all candidates increase together with a record, so half the noise is enough;
    # the paper's rate is for utilities that may change either way, as they do when a record is replaced.
    rate = each if ours and twice == 1 else each / 2
    # Replacing a record changes no count of the root; removing one changes each level once.
    levels = rows * (max(2 * (tree.p - 2), tree.p - 1) if schema.replace_one else tree.p - 1)
    level_scale = round_up_to_drawable(2 * Fraction(levels) / epsilon)
    leaf = epsilon / 2 if ours else each
    made = DecisionTreePlan(
        spec=tree,
        seed=seed,
        rows=rows,
        twice=twice,
        split=each,
        rate=rate / rows,
        leaf=leaf,
        refund=each if ours else Fraction(0),
        level_scale=level_scale,
        event=Composed(()),
        classes=encoding.classes,
        max_leaves=tree.max_nodes,
    )
    # The most expensive path: a split on a number at every level. For a category, "ours" spends that on the leaf.
    event = Composed(
        (
            ExponentialSelect(rounds=tree.h - 1, range=each),
            DiscreteLaplace(made.deepest_scale, twice * rows),
            DiscreteLaplace(level_scale, levels),
        )
    )
    return replace(made, event=event)


@dataclass(slots=True, eq=False)
class Level:
    """The nodes of one level.

    Attributes:
        low, high: The box of each node in indices, both ends included, shape (nodes, features). A grown tree keeps only
            those of its leaves: a hundred trees with all boxes would fill the memory.
        splits: The number of splits on numbers above each node, shape (nodes,).
        attribute: The attribute on which each node branches, -1 for none, shape (nodes,).
        cut: For a node that splits in two, the first index on the right, shape (nodes,).
        first: The first child of each node in the next level, shape (nodes,).
        children: The number of its children, shape (nodes,).
    """

    low: Integers
    high: Integers
    splits: Integers
    attribute: Integers
    cut: Integers
    first: Integers
    children: Integers

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.splits)

    def forget_boxes(self) -> None:
        """Drop the nodes' boxes; keep what is needed to route rows."""
        self.low = self.high = np.zeros((0, self.low.shape[1]), dtype=np.int64)

    def find_child(self, node: Integers, features: Integers) -> Integers:
        """Return the node in the next level of each row of indices (rows, features) that lies in ``node`` (rows,)."""
        attribute = self.attribute[node]
        value = features[np.arange(len(node)), np.maximum(attribute, 0)]
        numeric = self.cut[node] >= 0
        step = np.where(numeric, value >= self.cut[node], np.where(attribute >= 0, value, 0))
        return np.asarray(self.first[node] + step, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """A grown tree without counts: levels 0 to h - 1, the leaves last."""

    levels: tuple[Level, ...]

    @property
    def leaves(self) -> Level:
        """The last level."""
        return self.levels[-1]

    def list_cuts(self) -> Integers:
        """Return the splits of all numeric nodes, level by level; seed, domain and they determine the tree."""
        return np.concatenate([level.cut[level.cut >= 0] for level in self.levels[:-1]]).astype(np.int64)

    def find_node(self, features: Integers, level: int) -> Integers:
        """Return the node of each row of indices (rows, features) in a level, shape (rows,)."""
        node = np.zeros(len(features), dtype=np.int64)
        for above in self.levels[:level]:
            node = above.find_child(node, features)
        return node

    def find_ancestors(self, level: int, of: int) -> Integers:
        """Return for each node of level ``of`` its ancestor in ``level``, shape (nodes,)."""
        found = np.arange(self.levels[level].nodes)
        for depth in range(level, of):
            found = np.repeat(found, self.levels[depth].children)
        return found


def grow_tree(encoding: Encoding, tree: TreeSpec, seed: int, choose: Choose) -> Skeleton:
    """Grow a tree, level by level, from ``seed`` and the declared domain, with splits selected by ``choose``."""
    rng = np.random.default_rng(seed)
    sizes = np.array([attribute.size for attribute in encoding.features], dtype=np.int64)
    numeric = np.zeros(len(sizes), dtype=np.bool_)
    numeric[list(encoding.numeric)] = True
    level = _build_level(
        np.zeros((1, len(sizes)), dtype=np.int64), (sizes - 1)[None, :].copy(), np.zeros(1, dtype=np.int64)
    )
    levels = [level]
    for _ in range(tree.h - 1):
        _choose_attributes(level, numeric, sizes, tree.max_nodes, rng)
        at = np.flatnonzero(numeric[np.maximum(level.attribute, 0)] & (level.attribute >= 0))
        attribute = level.attribute[at]
        low, high = level.low[at, attribute], level.high[at, attribute]
        # Candidates lie in the *declared* range remaining on the path, independent of the rows.
        candidates = rng.integers((low + 1)[:, None], np.maximum(high, low + 1)[:, None] + 1, size=(len(at), tree.t))
        level.cut[at] = choose(level, at, candidates)
        below = _build_children(level, numeric)
        level.forget_boxes()
        level = below
        levels.append(level)
    return Skeleton(tuple(levels))


def regrow_tree(encoding: Encoding, tree: TreeSpec, seed: int, cuts: Integers) -> Skeleton:
    """Rebuild the tree whose ``cuts`` were released.

    Raises:
        ValueError: They are too few or too many, or not among the candidates.
    """
    taken = 0

    def choose(level: Level, at: Integers, candidates: Integers) -> Integers:
        nonlocal taken
        chosen = cuts[taken : taken + len(candidates)]
        taken += len(candidates)
        if len(chosen) != len(candidates) or not (candidates == chosen[:, None]).any(axis=1).all():
            raise ValueError("splits that are not among the candidates")
        return chosen

    made = grow_tree(encoding, tree, seed, choose)
    if taken != len(cuts):
        raise ValueError("too many splits")
    return made


def _build_level(low: Integers, high: Integers, splits: Integers) -> Level:
    nodes = len(splits)
    attribute, cut, first = (np.full(nodes, -1, dtype=np.int64) for _ in range(3))
    return Level(low, high, splits, attribute, cut, first, np.ones(nodes, dtype=np.int64))


def _choose_attributes(
    level: Level, numeric: NDArray[np.bool_], sizes: Integers, most: int, rng: np.random.Generator
) -> None:
    """Choose the attribute on which each node branches: one of the numbers, or an unused category on its path."""
    free = numeric[None, :] | (level.high > level.low)
    level.attribute[:] = _choose_one(free, rng)
    _check_width(level, numeric, sizes)
    wide = level.children > 2
    if level.children.sum() <= most:
        return
    # Too many children: from the first node that would not fit, categories are replaced by splits on numbers.
    room = most - 2 * level.nodes
    late = wide & (np.cumsum(np.where(wide, level.children - 2, 0)) > room)
    instead = np.broadcast_to(numeric[None, :], free.shape) if numeric.any() and room >= 0 else np.zeros_like(free)
    level.attribute[:] = np.where(late, _choose_one(instead, rng), level.attribute)
    if room < 0:
        level.attribute[:] = -1
    _check_width(level, numeric, sizes)


def _choose_one(free: NDArray[np.bool_], rng: np.random.Generator) -> Integers:
    """Choose uniformly among the true entries of each row, -1 where there is none."""
    count = free.sum(axis=1)
    pick = np.floor(rng.random(len(free)) * np.maximum(count, 1)).astype(np.int64)
    place = (np.cumsum(free, axis=1) <= pick[:, None]).sum(axis=1)
    return np.where(count > 0, np.minimum(place, free.shape[1] - 1), -1)


def _check_width(level: Level, numeric: NDArray[np.bool_], sizes: Integers) -> None:
    at = np.maximum(level.attribute, 0)
    level.children[:] = np.where(level.attribute < 0, 1, np.where(numeric[at], 2, sizes[at]))


def _build_children(level: Level, numeric: NDArray[np.bool_]) -> Level:
    """Build the next level, each child with its part of its parent's box."""
    level.first[:] = np.concatenate([[0], np.cumsum(level.children)[:-1]])
    parent = np.repeat(np.arange(level.nodes), level.children)
    number = np.arange(len(parent)) - level.first[parent]
    low, high, attribute = level.low[parent], level.high[parent], level.attribute[parent]
    split = level.cut[parent] >= 0
    branch = (attribute >= 0) & ~split
    low[branch, attribute[branch]] = number[branch]
    high[branch, attribute[branch]] = number[branch]
    right, left = split & (number == 1), split & (number == 0)
    cut = level.cut[parent]
    # A range of one value cannot be cut: its box stays, and one of the children is empty.
    low[right, attribute[right]] = np.minimum(cut[right], high[right, attribute[right]])
    high[left, attribute[left]] = np.maximum(cut[left] - 1, low[left, attribute[left]])
    return _build_level(low, high, level.splits[parent] + split)


def split_seed(seed: int) -> Integers:
    """Split a public seed into eight 32-bit integers."""
    return np.array([(seed >> (32 * i)) & 0xFFFFFFFF for i in range(8)], dtype=np.int64)


def join_seed(words: Integers) -> int:
    """Join the output of ``split_seed`` to the seed.

    Raises:
        ValueError: They are not eight numbers of 32 bits.
    """
    if words.shape != (8,) or words.min() < 0 or words.max() > 0xFFFFFFFF:
        raise ValueError("not eight words")
    return sum(int(word) << (32 * i) for i, word in enumerate(words))
