"""The best linear estimate from reports on several layers of the same trees, in closed form, with its variance.

A table over the bins of d trees is the sum of components kappa = (k_1, ..., k_d), the part that nodes of these levels
add to coarser ones. A layer with levels l knows every component kappa <= l. All averages over nodes commute, so the
least-squares estimate weights, component by component, each layer by the inverse of its variance there; an answer is
one dot product a layer. Proof: docs/explanation/collect.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.local.frequency_oracles import Oracle
from siloquent.maths.local.hierarchy import Tree
from siloquent.maths.local.row_layers import NodeProducts, RowReports, Supports, count_users

Floats = NDArray[np.float64]
Levels = tuple[int, ...]
Sums = Floats | NodeProducts
DESIGN_ROUNDS = 500
MIN_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class TreeBlock:
    """The trees that one report covers; ``padded``: one more node, the last, means that there is no value."""

    trees: tuple[Tree, ...]
    padded: bool

    def count_cells(self, levels: Levels) -> tuple[int, ...]:
        """Return the number of nodes of each tree at these levels."""
        return tuple(tree.count_nodes(level) for tree, level in zip(self.trees, levels, strict=True))

    def count_nodes(self, levels: Levels) -> int:
        """Return the number of nodes that a report chooses from."""
        return math.prod(self.count_cells(levels)) + self.padded

    def compute_noise(self, levels: Levels, component: Levels, oracle: Oracle) -> float:
        """Return the mean square of one report's estimates along ``component``, the holder's own share included."""
        cells = math.prod(self.count_cells(levels))
        if any(component) or oracle.kind == "hash":
            return oracle.spread + 1 / cells
        # The estimates of a set report add up to 1 exactly: only the node for no value leaves noise in their sum.
        return ((oracle.variance if self.padded else 0.0) + 1) / cells


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """Reports at one choice of levels: of one service, or of users who reported to several.

    Attributes:
        levels: One tuple a block.
        supports: Whole, one axis a block: the number of reports that support node i, j, ...; the last index of every
            axis stands for all reports, so that the last entry of all is their number. Or the reports, if there are too
            many combinations of nodes.
    """

    blocks: tuple[TreeBlock, ...]
    levels: tuple[Levels, ...]
    oracles: tuple[Oracle, ...]
    supports: Supports

    @property
    def reports(self) -> int:
        """The number of reports (or users, over several services)."""
        return count_users(self.supports)

    @property
    def counted(self) -> NDArray[np.int64]:
        """The supports of a layer that is counted by combinations of nodes."""
        assert not isinstance(self.supports, RowReports)
        return self.supports

    def compute_estimates(self) -> Floats:
        """Return the sum over users of the product of Phi, one axis a block, without nodes for nothing. Unbiased."""
        found = self.counted.astype(np.float64)
        for axis, (block, oracle) in enumerate(zip(self.blocks, self.oracles, strict=True)):
            moved = np.moveaxis(found, axis, -1)
            real = moved.shape[-1] - 1 - block.padded
            moved = (moved[..., :real] - oracle.q * moved[..., -1:]) / (oracle.p - oracle.q)
            found = np.moveaxis(moved, -1, axis)
        return found

    def compute_margins(self) -> list[Floats]:
        """Return each block's estimated shares of nodes per report: shape (nodes without that for no value,)."""
        shares = []
        for axis, (block, oracle) in enumerate(zip(self.blocks, self.oracles, strict=True)):
            counts = np.moveaxis(self.counted, axis, -1)
            own = counts.reshape(-1, counts.shape[-1])[-1].astype(np.float64)
            real = own.size - 1 - block.padded
            shares.append((own[:real] / own[-1] - oracle.q) / (oracle.p - oracle.q))
        return shares


def list_components(trees: Sequence[Tree]) -> list[Levels]:
    """Return every component of a table over ``trees``."""
    return list(product(*(range(tree.height + 1) for tree in trees)))


def compute_precision(
    blocks: Sequence[TreeBlock], levels: Sequence[Levels], oracles: Sequence[Oracle], component: Levels
) -> float:
    """Return the precision of one report at ``levels`` for ``component``, per bin of the table; 0 if it is unknown."""
    flat = [level for part in levels for level in part]
    if any(k > level for k, level in zip(component, flat, strict=True)):
        return 0.0
    square, bins, nodes, at = 1.0, 1, 1, 0
    for block, own, oracle in zip(blocks, levels, oracles, strict=True):
        part = component[at : at + len(own)]
        at += len(own)
        square *= block.compute_noise(own, part, oracle)
        bins *= math.prod(tree.bins for tree in block.trees)
        nodes *= math.prod(block.count_cells(own))
    if not any(component):
        square -= 1 / nodes
    return math.inf if square <= 0 else bins / nodes / square


class CombinedLayers:
    """The layers of one table, ready to answer queries.

    ``weights`` of an answer: one array a tree, the answer being the sum over bins of their product.
    """

    def __init__(self, layers: Sequence[Layer], users: int) -> None:
        self.layers = [layer for layer in layers if layer.reports > 0]
        self.users = users
        self.blocks = layers[0].blocks
        self.trees = tuple(tree for block in self.blocks for tree in block.trees)
        self.pinned = not any(block.padded for block in self.blocks)
        self.components = list_components(self.trees)
        self._shares = self._compute_weights()
        self._estimates = [
            None if isinstance(one.supports, RowReports) else one.compute_estimates() for one in self.layers
        ]

    @property
    def reports(self) -> int:
        """The number of reports behind the estimates."""
        return sum(layer.reports for layer in self.layers)

    def _compute_weights(self) -> list[dict[Levels, float]]:
        """Return each layer's weight in each component; over layers these add up to 1, or to 0 if unknown."""
        found: list[dict[Levels, float]] = [{} for _ in self.layers]
        for component in self.components:
            if self.pinned and not any(component):
                continue
            known = [
                layer.reports * compute_precision(self.blocks, layer.levels, layer.oracles, component)
                for layer in self.layers
            ]
            total = sum(known)
            for share, own in zip(known, found, strict=True):
                if share > 0:
                    own[component] = share / total
        return found

    def list_unknown(self) -> list[Levels]:
        """Return the components that no layer knows: answers treat them as evenly spread."""
        known = {component for own in self._shares for component in own}
        return [one for one in self.components if one not in known and (any(one) or not self.pinned)]

    def build_question(self, weights: Sequence[Floats]) -> LayerQuestion:
        """Build the sums over each layer for the answer that ``weights`` describe."""
        details = [tree.split_details(part) for tree, part in zip(self.trees, weights, strict=True)]
        sums = [
            self._build_layer_sums(layer, own, details) for layer, own in zip(self.layers, self._shares, strict=True)
        ]
        constant = math.prod(float(part[0][0]) for part in details) * self.users if self.pinned else 0.0
        return LayerQuestion(sums, constant)

    def _build_layer_sums(self, layer: Layer, own: dict[Levels, float], details: Sequence[tuple[Floats, ...]]) -> Sums:
        flat = [level for part in layer.levels for level in part]
        cells = [tree.count_nodes(level) for tree, level in zip(self.trees, flat, strict=True)]
        spread = [
            [np.repeat(part, cell // part.size) for part in parts[: level + 1]]
            for parts, level, cell in zip(details, flat, cells, strict=True)
        ]
        if isinstance(layer.supports, RowReports):
            return _build_products(layer, own, spread)
        total = np.zeros(cells)
        for component, weight in own.items():
            term = np.array(weight)
            for axis, level in enumerate(component):
                term = np.multiply.outer(term, spread[axis][level])
            total += term
        return total.reshape(
            [math.prod(block.count_cells(lv)) for block, lv in zip(self.blocks, layer.levels, strict=True)]
        )

    def estimate_value(self, question: LayerQuestion) -> float:
        """Return the estimate, scaled to all users."""
        total = question.constant
        for at, (layer, weights, estimates) in enumerate(zip(self.layers, question.sums, self._estimates, strict=True)):
            if isinstance(weights, NodeProducts):
                found = float(self._compute_user_values(at, question).sum())
            else:
                assert estimates is not None
                found = float(np.vdot(weights, estimates))
            total += self.users / layer.reports * found
        return total

    def _compute_user_values(self, at: int, question: LayerQuestion) -> Floats:
        """Return the contribution of each user of layer ``at`` to the answer."""
        if at not in question.of_users:
            layer, weights = self.layers[at], question.sums[at]
            assert isinstance(weights, NodeProducts)
            assert isinstance(layer.supports, RowReports)
            question.of_users[at] = weights.compute_user_values(layer.supports, layer.oracles)
        return question.of_users[at]

    def estimate_covariance(self, one: LayerQuestion, other: LayerQuestion, *, sampled: bool = False) -> float:
        """Return the covariance of two answers (the variance of one, asked twice), estimated from the same reports.

        Args:
            sampled: Whether each user's row was drawn among several of their own: then the whole spread of the rows
                counts, not only that of the users' assignment to layers.
        """
        total = 0.0
        for at, (layer, g, h, y) in enumerate(zip(self.layers, one.sums, other.sums, self._estimates, strict=True)):
            if isinstance(g, NodeProducts) or isinstance(h, NodeProducts):
                # Users' own spread counts in full here: a slight overestimate, since their noise is far larger.
                mine, theirs = self._compute_user_values(at, one), self._compute_user_values(at, other)
                spread = float(np.vdot(mine - mine.mean(), theirs - theirs.mean())) / max(len(mine) - 1, 1)
                total += self.users**2 / layer.reports * spread
                continue
            assert y is not None
            shares = y / layer.reports
            held = float(np.vdot(shares, g * h))
            between = held - float(np.vdot(shares, g)) * float(np.vdot(shares, h))
            noise = _compute_second_moment(layer, g, h, shares) - held
            left_out = 1.0 if sampled else 1 - layer.reports / self.users
            total += self.users**2 / layer.reports * (noise + left_out * between)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class LayerQuestion:
    """An answer as sums over nodes: one array a layer, and the part that needs no report.

    ``of_users``: the contribution of each user, for layers for which it was computed.
    """

    sums: list[Sums]
    constant: float
    of_users: dict[int, Floats] = field(default_factory=dict)

    def add_scaled(self, other: LayerQuestion, factor: float = 1.0) -> LayerQuestion:
        """Return this answer plus ``factor`` times the other."""
        sums: list[Sums] = [mine + factor * theirs for mine, theirs in zip(self.sums, other.sums, strict=True)]  # type: ignore[operator]
        return LayerQuestion(sums, self.constant + factor * other.constant)


def _build_products(layer: Layer, own: dict[Levels, float], spread: Sequence[Sequence[Floats]]) -> NodeProducts:
    """Return the weights ``own`` of components as one product of services a component."""
    factors, places, at = [], [], 0
    for levels in layer.levels:
        parts = list(product(*(range(level + 1) for level in levels)))
        rows = []
        for part in parts:
            row = np.ones(1)
            for tree, level in enumerate(part, start=at):
                row = np.multiply.outer(row, spread[tree][level]).reshape(-1)
            rows.append(row)
        factors.append(np.array(rows))
        places.append({part: place for place, part in enumerate(parts)})
        at += len(levels)
    coefficients = np.zeros([len(one) for one in factors])
    for component, weight in own.items():
        place, at = [], 0
        for levels, known in zip(layer.levels, places, strict=True):
            place.append(known[component[at : at + len(levels)]])
            at += len(levels)
        coefficients[tuple(place)] = weight
    return NodeProducts(((coefficients, tuple(factors)),))


def _compute_second_moment(layer: Layer, g: Floats, h: Floats, shares: Floats) -> float:
    """Return E[(sum of g Phi)(sum of h Phi)] over one user's reports; Phi multiplies over blocks."""
    margins = layer.compute_margins()
    applied = h
    for axis, (oracle, own) in enumerate(zip(layer.oracles, margins, strict=True)):
        applied = np.moveaxis(oracle.apply_second_moments(own, np.moveaxis(applied, axis, 0)), 0, axis)
    found = float(np.vdot(g, applied))
    if len(margins) > 1:
        independent = margins[0]
        for own in margins[1:]:
            independent = np.multiply.outer(independent, own)
        found += float(np.vdot(g * h, shares - independent))
    return found


def optimise_shares(precisions: Floats, targets: Floats) -> Floats:
    """Return the layer probabilities that minimise the sum of targets_k / (precisions @ shares)_k: shape (layers,).

    Args:
        precisions: Shape (components, layers), not negative; a row of zeros is left out.
        targets: The weight of each component, shape (components,).
    Source:
        The multiplicative algorithm for A-optimal designs ("Optimal Design of Experiments", 1993, chapter 9).
    """
    kept = (targets > 0) & (precisions.max(axis=1) > 0)
    known, wanted = precisions[kept], targets[kept]
    shares: Floats = np.full(precisions.shape[1], 1 / precisions.shape[1])
    for _ in range(DESIGN_ROUNDS):
        gains = known.T @ (wanted / np.square(known @ shares))
        shares = shares * np.sqrt(gains)
        shares /= shares.sum()
    # A layer with few users costs each question an estimate and adds almost no information, but a layer stays if only
    # it knows a component.
    dropped = shares < MIN_SHARE
    for layer in np.argsort(shares):
        if dropped[layer] and not (known[:, ~dropped] > 0).any(axis=1).all():
            dropped[layer] = False
    shares[dropped] = 0
    found: Floats = shares / shares.sum()
    return found
