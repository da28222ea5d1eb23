"""Trees of ranges: every level splits the ordered cells, and a range is a sum of few nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.strategies.base import Asked, Norm, Reals, Strategy

Starts = NDArray[np.int64]
BRANCHINGS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
_TUNED = 3  # how many of the best equal-weight trees get tuned weights
_ROWS = 96  # predicates used for tuning
_Q = 4
_FEW = 64
_SMALL = 4_096  # cells
_LOOKS = 60_000  # cells times predicates in one evaluation of a short search


def build_levels(cells: int, branching: int) -> tuple[Starts, ...]:
    """Return the starts of each level's nodes, from below the root down to single cells; splits are near-equal."""
    found = []
    edges = np.array([0, cells], dtype=np.int64)
    while np.diff(edges).max() > 1:
        sizes = np.diff(edges)
        children = np.minimum(sizes, branching)
        nth = np.arange(children.sum()) - np.repeat(np.cumsum(children) - children, children)
        inside = np.repeat(sizes, children) * nth // np.repeat(children, children)
        edges = np.append(np.repeat(edges[:-1], children) + inside, cells)
        found.append(edges[:-1])
    return tuple(found) or (np.zeros(1, dtype=np.int64),)


@dataclass(frozen=True, slots=True, eq=False)
class TreeLevels:
    """The levels of a tree over ``cells`` cells, coarsest first, and how they hang together.

    Attributes:
        first: Of each level the start of its nodes among those of the level below; the lowest one's among the cells.
        children: The number of nodes below each node.
        wide: Whether a node holds two cells and more.
        single: For every cell, the first level on which it is a node of its own.
    """

    cells: int
    first: tuple[Starts, ...]
    children: tuple[Starts, ...]
    wide: tuple[NDArray[np.bool_], ...]
    single: Starts


def link_levels(shape: tuple[Starts, ...], cells: int) -> TreeLevels:
    """Return the levels with these starts, coarsest first."""
    below = (*shape[1:], np.arange(cells))
    first = tuple(np.searchsorted(lower, upper) for lower, upper in zip(below, shape, strict=True))
    children = tuple(np.diff(np.append(at, len(lower))) for at, lower in zip(first, below, strict=True))
    sizes = [np.diff(np.append(starts, cells)) for starts in shape]
    single = np.full(cells, len(shape) - 1, dtype=np.int64)
    for level in range(len(shape) - 1, -1, -1):
        single[np.repeat(sizes[level] == 1, sizes[level])] = level
    return TreeLevels(cells, first, children, tuple(size > 1 for size in sizes), single)


def build_range_tree(cells: int, branching: int, weights: Reals, *, norm: Norm, name: str) -> Strategy:
    """Return the tree with given level weights, scaled so that every column has norm 1.

    A node that is a single cell on an upper level is measured once, with the weights of all its levels together.
    """
    scaled = weights / (weights.sum() if norm == "l1" else np.sqrt((weights * weights).sum()))
    nodes: dict[tuple[int, int], float] = {}
    for starts, weight in zip(build_levels(cells, branching), scaled.tolist(), strict=True):
        for low, high in zip(starts.tolist(), [*starts[1:].tolist(), cells], strict=True):
            before = nodes.get((low, high), 0.0)
            nodes[low, high] = before + weight if norm == "l1" else float(np.hypot(before, weight))
    matrix = np.zeros((len(nodes), cells))
    for row, ((low, high), weight) in enumerate(nodes.items()):
        matrix[row, low:high] = weight
    return Strategy(name, matrix)


def find_best_trees(workload: Asked, *, norm: Norm) -> list[Strategy]:
    """Return trees for this workload: the best equal-weight one, and the best few with weights tuned by Nelder-Mead."""
    from scipy.optimize import minimize

    cells = workload.shape[1]
    picked = np.unique(np.linspace(0, len(workload) - 1, min(len(workload), _ROWS)).astype(np.int64))
    target = workload[picked].astype(np.float64).T
    shapes = {b: link_levels(build_levels(cells, b), cells) for b in BRANCHINGS if b <= max(2, cells)}

    def cost(branching: int, logs: Reals) -> float:
        return _compute_log_cost(shapes[branching], np.exp(logs - logs.max()), target, norm)

    ranked = sorted(shapes, key=lambda b: cost(b, np.zeros(len(shapes[b].first))))
    equal = np.ones(len(shapes[ranked[0]].first))
    found = [build_range_tree(cells, ranked[0], equal, norm=norm, name=f"H{ranked[0]} tree")]
    for branching in ranked[:_TUNED]:
        count = len(shapes[branching].first)
        if count > 1:
            simplex = np.vstack([np.zeros(count), 0.5 * np.eye(count)])  # the default one starts too small to move
            options = {"maxfev": 60 * count, "xatol": 1e-3, "fatol": 1e-9, "initial_simplex": simplex}
            best = minimize(lambda logs, b=branching: cost(b, logs), simplex[0], method="Nelder-Mead", options=options)
            weights = np.exp(best.x - best.x.max())
            found.append(build_range_tree(cells, branching, weights, norm=norm, name=f"weighted H{branching} tree"))
    return found


def find_best_weights(cells: int, rows: Reals, *, norm: Norm) -> tuple[int, Reals]:
    """Return the best branching for ``rows``, shape (rows, cells), and its level weights at unit column norm.

    One level means the cells themselves. The search is shorter if there are many cells, since evaluations take longer.
    """
    from scipy.optimize import minimize

    most = int(np.clip(_LOOKS // cells, 4, _ROWS))
    target = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64))].T
    branchings = sorted({*(b for b in BRANCHINGS if b < cells), cells})
    shapes = {b: link_levels(build_levels(cells, b), cells) for b in branchings}

    def cost(branching: int, logs: Reals) -> float:
        return _compute_log_cost(shapes[branching], np.exp(logs - logs.max()), target, norm)

    best = min(shapes, key=lambda b: cost(b, np.zeros(len(shapes[b].first))))
    count = len(shapes[best].first)
    logs = np.zeros(count)
    if count > 1:
        simplex = np.vstack([logs, 0.5 * np.eye(count)])
        options = {
            "maxfev": (30 if cells <= _SMALL else 15) * count,
            "xatol": 1e-2,
            "fatol": 1e-6,
            "initial_simplex": simplex,
        }
        logs = minimize(lambda logs: cost(best, logs), logs, method="Nelder-Mead", options=options).x
    weights = np.exp(logs - logs.max())
    scaled: Reals = weights / (weights.sum() if norm == "l1" else np.sqrt((weights * weights).sum()))
    return best, scaled


def _compute_log_cost(levels: TreeLevels, weights: Reals, target: Reals, norm: Norm) -> float:
    """Return the logarithm of the l_q norm of the answers' noise variances at unit column norm.

    Infinite for weights so far apart that rounding leaves no positive variance.

    Args:
        target: The answers, shape (cells, predicates).
    """
    scaled = weights / (weights.sum() if norm == "l1" else np.sqrt((weights * weights).sum()))
    variances = np.einsum("cr,cr->r", target, _solve(levels, scaled, target, norm))
    top = float(variances.max())
    if not (0 < top < math.inf):
        return math.inf
    return math.log(top * float(np.power(((variances / top) ** _Q).sum(), 1 / _Q)))


def _solve(levels: TreeLevels, weights: Reals, target: Reals, norm: Norm) -> Reals:
    """Return (A'A)^-1 ``target``."""
    strength = weights * weights
    # A cell that is its own node from some level on has that node's weights of all these levels together.
    below = np.cumsum(weights[::-1])[::-1] ** 2 if norm == "l1" else np.cumsum(strength[::-1])[::-1]
    return solve_tree(levels, strength, 1.0 / below[levels.single], target)


def add_runs(values: Reals, starts: Starts, sizes: Starts) -> Reals:
    """Return the rows of ``values`` summed from each start on, ``sizes`` of them, shape (starts, columns)."""
    if sizes.max() > _FEW:
        return np.asarray(np.add.reduceat(values, starts, axis=0))
    found: Reals = values[starts]
    for place in range(1, int(sizes.max())):  # many times as fast as numpy's own, which adds single numbers
        longer = np.flatnonzero(sizes > place)
        if len(longer) == len(starts):
            found += values[starts + place]
        else:
            found[longer] += values[starts[longer] + place]
    return found


def solve_tree(levels: TreeLevels, strength: Reals, ones: Reals, target: Reals) -> Reals:
    """Return (A'A)^-1 ``target`` in one pass up the tree and one down: time linear in its nodes.

    Args:
        strength: The squared weight of each level's nodes of two cells and more.
        ones: One over the squared weight of each cell's own node, shape (cells,).
        target: Shape (cells, columns).
    Source:
        The two passes: "Boosting the Accuracy of Differentially Private Histograms Through Consistency" (PVLDB 2010),
        section 4. Any weights: Sherman and Morrison's formula in every node. Below a node v the solution is M^-1 t plus
        a number c times M^-1 1, M the system of v's cells only; going down, c of a child follows from that of v.
    """
    sums, total, steps = target * ones[:, None], ones, []
    for level in range(len(levels.first) - 1, -1, -1):
        first, children = levels.first[level], levels.children[level]
        sums, total = add_runs(sums, first, children), np.add.reduceat(total, first)
        own = np.where(levels.wide[level], strength[level], 0.0)
        kept = 1 / (1 + own * total)
        sums *= kept[:, None]
        steps.append((children, kept, own[:, None] * sums))
        total = total * kept
    shift: Reals = np.zeros_like(sums)
    for children, kept, taken in reversed(steps):
        shift = np.repeat(shift * kept[:, None] - taken, children, axis=0)
    return (target + shift) * ones[:, None]
