"""The model nearest to independent columns that agrees with noisy marginals: convex, solved by L-BFGS in its dual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.graphical.tree import (
    Attributes,
    JunctionTree,
    Projection,
    Propagation,
    build_junction_tree,
    expand_table,
)

Floats = NDArray[np.float64]

STRENGTH = 300.0
"""The weight of the distance from independent columns: small beside the noise, but large enough for a
well-conditioned problem."""
MASKED = -700.0
"""The log-potential of a combination that cannot occur: e^-700 is negligible, and still a number."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A noisy marginal: ``values`` has one axis per attribute; ``variance`` of each cell, broadcast to it."""

    attributes: Attributes
    values: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class GraphicalModel:
    """A fitted model: the tree, the probability table of each clique, and the potential of each target."""

    tree: JunctionTree
    beliefs: tuple[Floats, ...]
    potentials: Mapping[Attributes, Floats]
    loss: float = 0.0
    evaluations: int = 0

    def compute_marginal(self, attributes: Attributes) -> Floats:
        """Return probabilities of the cells of ``attributes``, one axis each; they may lie in different cliques."""
        from siloquent.maths.graphical.marginals import compute_marginal

        return compute_marginal(self.tree, self.beliefs, attributes)


@dataclass(slots=True)
class _Problem:
    """The data that one fit reuses at each evaluation."""

    tree: JunctionTree
    targets: Sequence[Target]
    total: float
    strength: float
    masks: Mapping[Attributes, NDArray[np.bool_]]
    propagate: Propagation = field(init=False)
    hosts: list[int] = field(init=False)
    projections: list[Projection] = field(init=False)
    bounds: list[slice] = field(init=False)
    fixed: list[Floats] = field(init=False)

    def __post_init__(self) -> None:
        self.propagate = Propagation(self.tree)
        self.hosts = [self.tree.find_host(t.attributes) for t in self.targets]
        self.projections = [
            Projection(self.tree.cliques[host].attributes, self.tree.cliques[host].shape, target.attributes)
            for host, target in zip(self.hosts, self.targets, strict=True)
        ]
        ends = np.cumsum([0, *(t.values.size for t in self.targets)]).tolist()
        self.bounds = [slice(a, b) for a, b in pairwise(ends)]
        self.fixed = [np.zeros(clique.shape) for clique in self.tree.cliques]
        for attributes, allowed in self.masks.items():
            host = self.tree.find_host(attributes)
            into = self.tree.cliques[host].attributes
            self.fixed[host] += expand_table(np.where(allowed, 0.0, MASKED), attributes, into)

    def compute_shares(self) -> Floats:
        """Return the targets' estimates of each cell's share, each normalised to the sum one.

        A model's marginals sum to one in any case. Shifting a target along its variances changes the loss only by a
        constant, but without the shift the dual would diverge towards a sum that no model has.
        """
        made = []
        for target in self.targets:
            spread = np.broadcast_to(target.variance, target.values.shape)
            surplus = float(target.values.sum()) - self.total
            made.append((target.values - surplus * spread / float(spread.sum())).ravel() / self.total)
        return np.concatenate(made)

    def compute_independent(self, shares: Floats) -> Floats:
        """Return the potentials of independent columns: no cell of a column below half of its noise."""
        made = np.zeros(shares.size)
        floors = np.sqrt(self.list_variances()) / 2
        for target, bound in zip(self.targets, self.bounds, strict=True):
            if len(target.attributes) == 1:
                made[bound] = np.log(np.maximum(shares[bound], floors[bound]))
        return made

    def compute_loss(self, expected: Floats) -> float:
        """Return the loss of a model with these marginals."""
        said = np.concatenate([target.values.ravel() for target in self.targets]) / self.total
        return 0.5 * float(((expected - said) ** 2 / self.list_variances()).sum())

    def list_variances(self) -> Floats:
        spread = [np.broadcast_to(t.variance, t.values.shape).ravel() for t in self.targets]
        return np.concatenate(spread) / self.total**2

    def compute_beliefs(self, theta: Floats) -> tuple[float, list[Floats]]:
        energies = [table.copy() for table in self.fixed]
        for host, target, bound in zip(self.hosts, self.targets, self.bounds, strict=True):
            table = theta[bound].reshape(target.values.shape)
            energies[host] += expand_table(table, target.attributes, self.tree.cliques[host].attributes)
        return self.propagate(energies)

    def compute_expected(self, beliefs: list[Floats]) -> Floats:
        found = [project(beliefs[host]).ravel() for project, host in zip(self.projections, self.hosts, strict=True)]
        return np.concatenate(found)


def fit(
    sizes: Sequence[int],
    targets: Sequence[Target],
    *,
    total: float,
    masks: Mapping[Attributes, NDArray[np.bool_]] | None = None,
    start: Mapping[Attributes, Floats] | None = None,
    strength: float = STRENGTH,
    evaluations: int = 200,
    tolerance: float = 1e-6,
) -> GraphicalModel:
    """Return the model over attributes 0..k-1 that minimises loss + ``strength`` x KL(model, independent columns).

    Those have the targets of single columns as their distribution, no cell below half of its noise; a column without
    one is uniform. loss = sum over targets of (total x marginal - values)^2 / (2 variance): the noise's own likelihood.

    Args:
        sizes: Cells of each attribute.
        targets: At most one per set of attributes.
        total: The (noisy) number of rows.
        masks: Combinations that may occur (True), for sets of attributes; each set lies in a clique.
        start: Initial potentials, as in a model of some of the targets.
        evaluations: The most passes of belief propagation.
    Source:
        The loss: "Graphical-model based estimation and inference for differential privacy" (ICML 2019). Its descent
        needs a step per cell's mass; the dual of the problem with such a term is smooth and strongly convex, its
        gradient is one belief propagation, and L-BFGS needs tens of them: docs/explanation/synth.md.
    """
    from scipy.optimize import minimize

    masks = masks or {}
    tree = build_junction_tree(sizes, [*(t.attributes for t in targets), *masks])
    problem = _Problem(tree, targets, total, strength, masks)
    shares, variances = problem.compute_shares(), strength * problem.list_variances()
    independent = problem.compute_independent(shares)
    theta = _build_start(problem, shares, start or {}, independent)
    scale = 1 / np.sqrt(np.maximum(shares, np.sqrt(problem.list_variances())) + variances)

    def dual(scaled: Floats) -> tuple[float, Floats]:
        theta = scaled * scale
        log_total, beliefs = problem.compute_beliefs(independent + theta)
        gradient = problem.compute_expected(beliefs) - shares + variances * theta
        value = log_total - float(theta @ shares) + 0.5 * float((variances * theta) @ theta)
        return value, gradient * scale

    options = {"maxcor": 20, "maxfun": evaluations, "maxiter": evaluations, "ftol": 1e-12, "gtol": tolerance}
    found = minimize(dual, theta / scale, jac=True, method="L-BFGS-B", options=options)
    theta = independent + found.x * scale
    _, beliefs = problem.compute_beliefs(theta)
    loss = problem.compute_loss(problem.compute_expected(beliefs))
    potentials = {
        t.attributes: theta[bound].reshape(t.values.shape) for t, bound in zip(targets, problem.bounds, strict=True)
    }
    return GraphicalModel(tree, tuple(beliefs), potentials, loss, int(found.nfev))


def _build_start(problem: _Problem, shares: Floats, start: Mapping[Attributes, Floats], independent: Floats) -> Floats:
    """Return initial potentials relative to independent columns; a new one is one step of proportional fitting."""
    theta = np.zeros(shares.size)
    fresh = []
    for target, bound in zip(problem.targets, problem.bounds, strict=True):
        if target.attributes in start:
            theta[bound] = start[target.attributes].ravel() - independent[bound]
        else:
            fresh.append(bound)
    if fresh:
        _, beliefs = problem.compute_beliefs(independent + theta)
        expected = problem.compute_expected(beliefs)
        floor = np.sqrt(problem.list_variances())
        for bound in fresh:
            ratio = np.maximum(shares[bound], floor[bound] / 2) / np.maximum(expected[bound], floor[bound] / 2)
            theta[bound] = np.log(ratio)
    return theta
