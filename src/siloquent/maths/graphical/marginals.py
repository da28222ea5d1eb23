"""Marginals of attributes that share no clique, along the paths of the tree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.tree import Attributes, JunctionTree, Projection, expand_table

Floats = NDArray[np.float64]


class Spreader:
    """Joint probabilities of a few source attributes with every other attribute, one tree traversal per source."""

    def __init__(self, tree: JunctionTree, beliefs: Sequence[Floats]) -> None:
        self.tree, self.beliefs = tree, beliefs
        self._near = list_neighbours(tree)
        self._laws: dict[tuple[int, Attributes, Attributes], _Conditional] = {}
        self._known: dict[tuple[int, Attributes], Floats] = {}

    def compute_joint(self, clique: int, wanted: Attributes) -> Floats:
        """Return probabilities of ``wanted``, all of them in ``clique``; cached."""
        key = (clique, wanted)
        if key not in self._known:
            here = self.tree.cliques[clique]
            self._known[key] = np.ascontiguousarray(
                Projection(here.attributes, here.shape, wanted)(self.beliefs[clique])
            )
        return self._known[key]

    def compute_pairs(self, source: int) -> dict[int, Floats]:
        """Return, for every other attribute b, P(source, b), shape (size of source, size of b)."""
        root = self.tree.find_host([source])
        attributes = self.tree.cliques[root].attributes
        found = {b: self.compute_joint(root, (source, b)) for b in attributes if b != source}
        for clique, separator, table in self._walk(root, source):
            for b in self.tree.cliques[clique].attributes:
                if b not in found and b != source:
                    found[b] = self._step(clique, separator, (b,), table)
        return found

    def _walk(self, root: int, source: int) -> Iterator[tuple[int, Attributes, Floats]]:
        """Iterate over the other cliques: each with its separator towards the root, and P(source, separator)."""
        rows = self.tree.sizes[source]
        stack: list[tuple[int, int, Attributes, Floats]] = []
        for other, separator in self._near[root]:
            stack.append((other, root, separator, self._compute_with_source(root, source, separator).reshape(rows, -1)))
        while stack:
            clique, came_from, separator, table = stack.pop()
            yield clique, separator, table
            for other, following in self._near[clique]:
                if other != came_from:
                    stack.append((other, clique, following, self._step(clique, separator, following, table)))

    def _compute_with_source(self, root: int, source: int, separator: Attributes) -> Floats:
        """Return P(source, separator) in the clique ``root``: diagonal if the source is part of the separator."""
        if source not in separator:
            return self.compute_joint(root, (source, *separator))
        axis, size = separator.index(source), self.tree.sizes[source]
        shape = [size] + [1] * len(separator)
        shape[1 + axis] = size
        return self.compute_joint(root, separator)[None] * np.eye(size).reshape(shape)

    def _step(self, clique: int, separator: Attributes, wanted: Attributes, table: Floats) -> Floats:
        """Return P(source, wanted) from P(source, separator), through ``clique``: shape (source, wanted)."""
        law = self._find_conditional(clique, separator, wanted)
        sizes, rows = self.tree.sizes, table.shape[0]
        ordered = table.reshape(rows, *(sizes[v] for v in separator)).transpose(law.order)
        # (both, source, lost) @ (both, lost, new) -> (both, source, new)
        product = ordered.reshape(rows, *law.given.shape[:2]).transpose(1, 0, 2) @ law.given
        made = product.transpose(1, 0, 2).reshape(rows, *law.shape)
        return np.ascontiguousarray(made.transpose(law.back)).reshape(rows, -1)

    def _find_conditional(self, clique: int, separator: Attributes, wanted: Attributes) -> _Conditional:
        """Return the distribution of ``wanted`` given ``separator`` in one clique; cached for use by every source."""
        key = (clique, separator, wanted)
        if key not in self._laws:
            sizes = self.tree.sizes
            both = tuple(v for v in separator if v in wanted)
            lost = tuple(v for v in separator if v not in wanted)
            new = tuple(v for v in wanted if v not in separator)
            shape = [math.prod(sizes[v] for v in part) for part in (both, lost, new)]
            joint = self.compute_joint(clique, (*both, *lost, *new)).reshape(shape)
            whole = joint.sum(axis=2, keepdims=True)
            self._laws[key] = _Conditional(
                given=joint / np.where(whole > 0, whole, 1.0),
                order=(0, *(1 + separator.index(v) for v in (*both, *lost))),
                shape=tuple(sizes[v] for v in (*both, *new)),
                back=(0, *(1 + (*both, *new).index(v) for v in wanted)),
            )
        return self._laws[key]


@dataclass(frozen=True, slots=True, eq=False)
class _Conditional:
    """P(new | both, lost), shape (both, lost, new), and the transpositions of tables before and after."""

    given: Floats
    order: tuple[int, ...]
    shape: tuple[int, ...]
    back: tuple[int, ...]


def condition_beliefs(tree: JunctionTree, beliefs: Sequence[Floats], attribute: int, value: int) -> list[Floats]:
    """Return the tables of the rows with ``value``: they sum to its probability, not to one."""
    return weight_beliefs(tree, beliefs, attribute, (np.arange(tree.sizes[attribute]) == value).astype(np.float64))


def weight_beliefs(tree: JunctionTree, beliefs: Sequence[Floats], attribute: int, weights: Floats) -> list[Floats]:
    """Return the tables of rows kept with a probability that depends on ``attribute``, shape (its size,)."""
    made: list[Floats] = [np.zeros(0)] * len(tree.cliques)
    root = tree.find_host([attribute])
    made[root] = beliefs[root] * expand_table(weights, (attribute,), tree.cliques[root].attributes)
    near = list_neighbours(tree)
    stack = [(other, root, separator) for other, separator in near[root]]
    while stack:
        clique, came_from, separator = stack.pop()
        here, there = tree.cliques[clique], tree.cliques[came_from]
        before = Projection(there.attributes, there.shape, separator)(beliefs[came_from])
        after = Projection(there.attributes, there.shape, separator)(made[came_from])
        ratio = after / np.where(before > 0, before, 1.0)
        made[clique] = beliefs[clique] * expand_table(ratio, separator, here.attributes)
        stack.extend((other, clique, shared) for other, shared in near[clique] if other != came_from)
    return made


def list_neighbours(tree: JunctionTree) -> list[list[tuple[int, Attributes]]]:
    """Return, for each clique, the adjacent cliques and the attributes they share."""
    near: list[list[tuple[int, Attributes]]] = [[] for _ in tree.cliques]
    for i, clique in enumerate(tree.cliques):
        if clique.parent >= 0:
            near[i].append((clique.parent, clique.separator))
            near[clique.parent].append((i, clique.separator))
    return near


def compute_marginal(tree: JunctionTree, beliefs: Sequence[Floats], attributes: Attributes) -> Floats:
    """Return probabilities of the cells of ``attributes``, one axis each, by elimination along the tree.

    Cliques that no wanted attribute needs are summed out first; the rest is multiplied and summed in turn.
    """
    wanted = set(attributes)
    tables: list[tuple[Attributes, Floats]] = []
    pending: list[list[tuple[Attributes, Floats]]] = [[] for _ in tree.cliques]
    for i in range(len(tree.cliques) - 1, -1, -1):
        clique = tree.cliques[i]
        shape = clique.shape[: clique.shared] + (1,) * (len(clique.shape) - clique.shared)
        whole = np.ones(shape)
        if clique.parent >= 0:
            whole = beliefs[i].reshape(clique.contexts, -1).sum(axis=1).reshape(shape)
        names, table = clique.attributes, beliefs[i] / np.where(whole > 0, whole, 1.0)
        for other_names, other in pending[i]:
            names, table = _multiply_tables(names, table, other_names, other)
        keep = tuple(v for v in names if v in wanted or v in clique.separator)
        axes = tuple(j for j, v in enumerate(names) if v not in keep)
        table = table.sum(axis=axes) if axes else table
        if clique.parent >= 0:
            pending[clique.parent].append((keep, table))
        else:
            tables.append((keep, table))
    names, table = tables[0]
    return table.transpose([names.index(v) for v in attributes])


def _multiply_tables(names: Attributes, table: Floats, others: Attributes, other: Floats) -> tuple[Attributes, Floats]:
    new = tuple(v for v in others if v not in names)
    union = (*names, *new)
    left = table.reshape(*table.shape, *([1] * len(new)))
    order = sorted(range(len(others)), key=lambda i: union.index(others[i]))
    right = other.transpose(order)
    shape = iter(right.shape)
    return union, left * right.reshape([next(shape) if v in others else 1 for v in union])
