"""A junction tree and its belief propagation: each step is a few passes over flat arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.triangulate import build_mask, find_cliques, list_members

Floats = NDArray[np.float64]
Attributes = tuple[int, ...]

_LEAST = 1e-300


@dataclass(frozen=True, slots=True)
class Clique:
    """Attributes in the order of its table's axes: first the ``shared`` ones that its parent has too."""

    attributes: Attributes
    shape: tuple[int, ...]
    shared: int
    parent: int

    @property
    def separator(self) -> Attributes:
        """The attributes shared with the parent; none for the root."""
        return self.attributes[: self.shared]

    @property
    def contexts(self) -> int:
        """The number of cells of the separator."""
        return math.prod(self.shape[: self.shared])


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in depth-first order, the root first: a parent precedes its children."""

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]

    @cached_property
    def cells(self) -> int:
        """The number of cells of all tables together."""
        return sum(math.prod(clique.shape) for clique in self.cliques)

    def find_host(self, attributes: Iterable[int]) -> int:
        """Return the smallest clique that holds ``attributes``.

        Raises:
            LookupError: no clique does.
        """
        wanted = set(attributes)
        fitting = [i for i, clique in enumerate(self.cliques) if wanted <= set(clique.attributes)]
        if not fitting:
            raise LookupError(f"no clique holds {sorted(wanted)}")
        return min(fitting, key=lambda i: math.prod(self.cliques[i].shape))


def build_junction_tree(sizes: Sequence[int], sets: Iterable[Attributes]) -> JunctionTree:
    """Return the junction tree of the triangulated graph in which each of ``sets`` lies in one clique."""
    found = find_cliques(sizes, [build_mask(each) for each in sets])
    parents = _build_spanning_tree(found)
    children: list[list[int]] = [[] for _ in found]
    for child, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(child)
    order, stack = [], [0]
    while stack:
        order.append(stack.pop())
        stack.extend(reversed(children[order[-1]]))
    place = {old: new for new, old in enumerate(order)}
    made = []
    for old in order:
        shared = found[old] & found[parents[old]] if parents[old] >= 0 else 0
        attributes = (*list_members(shared), *list_members(found[old] & ~shared))
        shape = tuple(sizes[v] for v in attributes)
        made.append(Clique(attributes, shape, shared.bit_count(), place.get(parents[old], -1)))
    return JunctionTree(tuple(sizes), tuple(made))


def _build_spanning_tree(found: list[int]) -> list[int]:
    """Return the parent of each clique in a spanning tree with the largest separators; -1 for clique 0, the root."""
    parents, best = [-1] * len(found), [-1] * len(found)
    outside, newest = set(range(1, len(found))), 0
    while outside:
        for i in outside:
            shared = (found[i] & found[newest]).bit_count()
            if shared > best[i]:
                best[i], parents[i] = shared, newest
        newest = max(outside, key=lambda i: (best[i], -i))
        outside.remove(newest)
    return parents


class Projection:
    """A projection from a table with axes ``attributes`` to its sums over all attributes but ``wanted``, in that order.

    Adjacent dropped axes go in one matrix product: several times faster than summing over axes.
    """

    def __init__(self, attributes: Attributes, shape: tuple[int, ...], wanted: Attributes) -> None:
        kept = [v for v in attributes if v in wanted]
        self._order = tuple(kept.index(v) for v in wanted)
        self._shape = tuple(n for v, n in zip(attributes, shape, strict=True) if v in wanted)
        runs: list[list[int]] = []  # [length, whether kept]
        for v, n in zip(attributes, shape, strict=True):
            keep = int(v in wanted)
            if runs and runs[-1][1] == keep:
                runs[-1][0] *= n
            else:
                runs.append([n, keep])
        self._steps: list[tuple[int, int, int]] = []
        while any(not keep for _, keep in runs):
            at = max((i for i, run in enumerate(runs) if not run[1]), key=lambda i: runs[i][0])
            lengths = [length for length, _ in runs]
            self._steps.append((math.prod(lengths[:at]), lengths[at], math.prod(lengths[at + 1 :])))
            del runs[at]
        self._ones = [np.ones(length) for _, length, _ in self._steps]

    def __call__(self, table: Floats) -> Floats:
        for (before, length, after), ones in zip(self._steps, self._ones, strict=True):
            if after == 1:
                table = table.reshape(before, length) @ ones
            elif before == 1:
                table = ones @ table.reshape(length, after)
            else:
                table = table.reshape(before, length, after).sum(axis=1)
        return table.reshape(self._shape).transpose(self._order)


def expand_table(table: Floats, attributes: Attributes, into: Attributes) -> Floats:
    """Return a view of ``table`` that broadcasts against a table with axes ``into``."""
    order = sorted(range(len(attributes)), key=lambda i: into.index(attributes[i]))
    view = table.transpose(order)
    shape = iter(view.shape)
    return view.reshape([next(shape) if v in attributes else 1 for v in into])


class Propagation:
    """Belief propagation on one tree, with everything that does not depend on potentials precomputed."""

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self._down = [
            None
            if clique.parent < 0
            else Projection(tree.cliques[clique.parent].attributes, tree.cliques[clique.parent].shape, clique.separator)
            for clique in tree.cliques
        ]
        self._ones = [np.ones(math.prod(clique.shape[clique.shared :])) for clique in tree.cliques]

    def __call__(self, energies: list[Floats]) -> tuple[float, list[Floats]]:
        """Return the logarithm of the total weight, and the probability table of every clique.

        Args:
            energies: Log-potentials of each clique, in its shape; overwritten.
        """
        tree, scales = self.tree, []
        log_total = 0.0
        for i in range(len(tree.cliques) - 1, -1, -1):
            clique, table = tree.cliques[i], energies[i]
            top = float(table.max())
            table -= top
            np.exp(table, out=table)
            sums = np.maximum(table.reshape(clique.contexts, -1) @ self._ones[i], _LEAST)
            scales.append(sums)
            if clique.parent < 0:
                log_total = top + math.log(float(sums[0]))
            else:
                parent = tree.cliques[clique.parent]
                message = (np.log(sums) + top).reshape(clique.shape[: clique.shared])
                energies[clique.parent] += expand_table(message, clique.separator, parent.attributes)
        scales.reverse()
        for i, clique in enumerate(tree.cliques):
            project = self._down[i]
            above = 1.0 if project is None else project(energies[clique.parent]).reshape(-1)
            energies[i].reshape(clique.contexts, -1)[...] *= (above / scales[i])[:, None]
        return log_total, energies
