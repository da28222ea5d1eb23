"""The sets of attributes reported together, and the questions about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.spec.collection_spec import CollectionSpec
from siloquent.collect.spec.role import AttributeRole, compute_point_places
from siloquent.errors import SchemaError
from siloquent.maths.local.hierarchy import Tree, build_flat_tree, build_tree

Floats = NDArray[np.float64]
MAX_NODES = 2**20
AVERAGES = 2
"""The expected frequency of averages of an attribute that is only a measure, relative to counts."""
VOLUMES = (0.05, 0.15, 0.4)
"""The shares of a domain that planned ranges take."""


def build_role_tree(role: AttributeRole, fanout: int) -> Tree:
    """Return the tree over an attribute's cells: intervals of ordered values, one level of categories, or of points."""
    if role.points:
        return build_flat_tree(role.points)
    if role.is_ordered:
        return build_tree(role.attribute.size, resolution=role.bins, fanout=fanout, alone=role.places_alone)
    return build_flat_tree(role.attribute.size)


def list_sets(spec: CollectionSpec, roles: Sequence[AttributeRole]) -> list[tuple[int, ...]]:
    """Return the sets of attributes whose joint table is estimated: all of them, or every pair and measure.

    Raises:
        SchemaError: the table of a set would have more than 2^20 cells.
    """
    everything = tuple(range(len(roles)))
    if spec.scope == "full" or len(roles) <= 2:
        found = [everything]
    else:
        filters = [at for at in everything if roles[at].use != "measure"]
        wanted: set[tuple[int, ...]] = set(combinations(filters, 2))
        for at in everything:
            if roles[at].use != "filter":
                others = [one for one in filters if one != at]
                wanted |= {tuple(sorted((*pair, at))) for pair in combinations(others, min(2, len(others)))}
        wanted |= {(at,) for at in everything}
        found = sorted(one for one in wanted if not any(set(one) < set(other) for other in wanted))
    for one in found:
        cells = int(np.prod([float(build_role_tree(roles[at], spec.fanout).bins) for at in one]))
        if cells > MAX_NODES:
            names = ", ".join(roles[at].attribute.name for at in one)
            raise SchemaError(
                f"The joint table of {names} has {cells:,} cells; the limit for reports is {MAX_NODES:,}.",
                fix='resolution = 25 on the largest, or scope = "pairs"',
            )
    return found


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question about a set: each attribute's contribution to the squared length of its components.

    Attributes:
        energies: One array per tree, shape (height + 1,); a component's target is their product.
        weight: Its expected frequency relative to others.
    """

    words: str
    energies: tuple[Floats, ...]
    weight: int = 1


def compute_role_values(role: AttributeRole) -> Floats:
    """Return what each cell of a measure, or each point, adds to a sum, shape (cells,); NULL's cell adds nothing."""
    attribute = role.attribute
    if role.points:
        return np.asarray(attribute.list_points().astype(float)[compute_point_places(attribute.size, role.points)])
    values = np.zeros(attribute.size)
    values[: attribute.steps] = attribute.list_points().astype(float)
    return values


def list_question_kinds(roles: Sequence[AttributeRole], trees: Sequence[Tree]) -> Iterator[Kind]:
    """Yield counts under one and two conditions, sums and averages alone and under them, each with its own bound."""
    every = [one.compute_energies(np.ones(one.bins)) for one in trees]
    chosen = [_compute_condition_energies(role, one) for role, one in zip(roles, trees, strict=True)]
    filters = [at for at, role in enumerate(roles) if role.use != "measure"]
    subsets = [(), *((at,) for at in filters), *combinations(filters, 2)]
    for subset in subsets:
        conditions = " and ".join(roles[at].attribute.name for at in subset)
        if subset:
            picked = tuple(chosen[at] if at in subset else every[at] for at in range(len(roles)))
            yield Kind(f"COUNT by {conditions}", picked)
        for at, role in enumerate(roles):
            if role.use != "filter" and at not in subset:
                parts = [chosen[i] if i in subset else every[i] for i in range(len(roles))]
                parts[at] = _compute_sum_energies(role, trees[at])
                by = f" by {conditions}" if subset else ""
                yield Kind(f"SUM({role.attribute.name}){by}", tuple(parts))
                if role.use == "measure":
                    # Averages differ only by the differences of values: their mean part cancels in a ratio.
                    parts[at] = np.r_[0.0, parts[at][1:]]
                    # An attribute that is only a measure serves averages, which are least exact under two conditions.
                    weight = AVERAGES * max(len(subset), 1)
                    yield Kind(f"AVG({role.attribute.name}){by}, of all", tuple(parts), weight)


def _compute_condition_energies(role: AttributeRole, one: Tree) -> Floats:
    """Return the mean energies of the expected conditions: ranges at every position, or single categories."""
    if not role.is_ordered or one.bins == 1:
        point = np.zeros(one.bins)
        point[0] = 1
        return one.compute_energies(point)
    found = []
    for volume in VOLUMES:
        width = max(1, round(volume * one.bins))
        starts = np.unique(np.linspace(0, one.bins - width, min(one.bins - width + 1, 64)).astype(int))
        for start in starts:
            inside = np.zeros(one.bins)
            inside[start : start + width] = 1
            found.append(one.compute_energies(inside))
    return np.asarray(np.mean(found, axis=0))


def _compute_sum_energies(role: AttributeRole, one: Tree) -> Floats:
    values = compute_role_values(role)
    return one.compute_energies(one.gather_weights(values) / max(float(np.abs(values).mean()), 1e-12))
