"""Ranges as few nodes of a tree: canonical ones, and signed ones where subtracting is cheaper than adding up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import product

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.local.hierarchy import Tree

Floats = NDArray[np.float64]
Node = tuple[int, int]
Signed = Mapping[Node, int]
"""Nodes with their signs."""
Weights = tuple[Floats, ...]
"""The weight of each node of each level: one array a level, shape (nodes,)."""


def build_weights(tree: Tree, nodes: Signed) -> Weights:
    """Return signed nodes as arrays, level by level."""
    found = tuple(np.zeros(tree.count_nodes(level)) for level in range(tree.height + 1))
    for (level, node), sign in nodes.items():
        found[level][node] += sign
    return found


def decompose_canonical(tree: Tree, low: int, high: int) -> Weights:
    """Return the fewest nodes that make up the bins low..high, added up."""
    return build_weights(tree, dict.fromkeys(find_canonical_nodes(tree, low, high), 1))


def find_cheapest(tree: Tree, low: int, high: int, *, k: int) -> list[Signed]:
    """Return the ``k`` cheapest signed decompositions of the bins low..high, cheapest first.

    Source:
        "Collecting and Analyzing Data Jointly from Multiple Services under Local Differential Privacy" (PVLDB 2020),
        section 6: the part inside a node is either composed of the parts inside its children, or the node minus the
        parts of its children outside the interval.
    """
    return _solve_inside(tree, (0, 0), (low, high), k)


@lru_cache(maxsize=4096)
def _solve_inside_cached(
    tree: Tree, node: Node, interval: tuple[int, int], k: int
) -> tuple[frozenset[tuple[Node, int]], ...]:
    return tuple(frozenset(one.items()) for one in _solve(tree, node, interval, k, inside=True))


@lru_cache(maxsize=4096)
def _solve_outside_cached(
    tree: Tree, node: Node, interval: tuple[int, int], k: int
) -> tuple[frozenset[tuple[Node, int]], ...]:
    return tuple(frozenset(one.items()) for one in _solve(tree, node, interval, k, inside=False))


def _solve_inside(tree: Tree, node: Node, interval: tuple[int, int], k: int) -> list[Signed]:
    return [dict(one) for one in _solve_inside_cached(tree, node, interval, k)]


def _solve_outside(tree: Tree, node: Node, interval: tuple[int, int], k: int) -> list[Signed]:
    return [dict(one) for one in _solve_outside_cached(tree, node, interval, k)]


def _solve(tree: Tree, node: Node, interval: tuple[int, int], k: int, *, inside: bool) -> list[Signed]:
    """Return the cheapest ways to make the part of ``node`` in the interval, or out of it."""
    level, number = node
    width = tree.bins // tree.count_nodes(level)
    first, last = number * width, (number + 1) * width - 1
    low, high = max(interval[0], first), min(interval[1], last)
    if low > high:
        return [{}] if inside else [{node: 1}]
    if (low, high) == (first, last):
        return [{node: 1}] if inside else [{}]
    children = [(level + 1, number * tree.fanouts[level] + child) for child in range(tree.fanouts[level])]
    own, other = (_solve_inside, _solve_outside) if inside else (_solve_outside, _solve_inside)
    added = _find_unions([own(tree, child, interval, k) for child in children], k)
    left_out = _find_unions([other(tree, child, interval, k) for child in children], k)
    options = [*added, *({node: 1, **{one: -sign for one, sign in part.items()}} for part in left_out)]
    return nsmallest(k, options, key=len)


def _find_unions(parts: Sequence[Sequence[Signed]], k: int) -> list[Signed]:
    """Return the ``k`` cheapest unions of one choice a child."""
    found: list[Signed] = [{}]
    for part in parts:
        found = nsmallest(k, ({**one, **more} for one, more in product(found, part)), key=len)
    return found


def average_decompositions(tree: Tree, decompositions: Iterable[Signed]) -> Weights:
    """Average several decompositions of one range: each is weighted by the inverse of its size."""
    listed = list(decompositions)
    shares = np.array([1 / max(len(one), 1) for one in listed])
    shares /= shares.sum()
    parts = [build_weights(tree, one) for one in listed]
    return tuple(
        np.sum([share * part[level] for share, part in zip(shares, parts, strict=True)], axis=0)
        for level in range(tree.height + 1)
    )


def mirror_range(low: int, high: int, *, least: int) -> tuple[int, int]:
    """Return the position of the range low..high in EHIO's mirrored half, where t is written as 2 least - t - 1.

    The paper prints the ends the other way round; the mapping reverses the order, so low becomes the upper end.
    """
    return 2 * least - high - 1, 2 * least - low - 1


def decompose_points(tree: Tree, low: int, high: int) -> Weights:
    """Return the bins low..high one by one: marginal release has no coarser nodes."""
    return build_weights(tree, {(tree.height, bin_): 1 for bin_ in range(low, high + 1)})


def build_root_weights(tree: Tree) -> Weights:
    """Return the weights of no condition: the root."""
    return build_weights(tree, {(0, 0): 1})


def cross_weights(parts: Sequence[Weights], levels: Sequence[int]) -> Floats | None:
    """Return the weights of the joint nodes of one layer, flat, first tree slowest; None if no node counts."""
    found = np.ones(1)
    for part, level in zip(parts, levels, strict=True):
        if not part[level].any():
            return None
        found = np.multiply.outer(found, part[level]).reshape(-1)
    return found


def iter_layers(trees: Sequence[Tree]) -> Iterator[tuple[int, ...]]:
    """Iterate over every choice of one level a tree: the paper's layers, the root of all included."""
    yield from product(*(range(tree.height + 1) for tree in trees))


def find_canonical_nodes(tree: Tree, low: int, high: int) -> list[tuple[int, int]]:
    """The fewest nodes (level, number) whose bins are exactly low..high."""
    found: list[tuple[int, int]] = []

    def visit(level: int, node: int) -> None:
        width = tree.bins // tree.count_nodes(level)
        first, last = node * width, (node + 1) * width - 1
        if last < low or high < first:
            return
        if low <= first and last <= high:
            found.append((level, node))
            return
        for child in range(tree.fanouts[level]):
            visit(level + 1, node * tree.fanouts[level] + child)

    visit(0, 0)
    return found
