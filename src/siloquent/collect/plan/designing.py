"""From a declaration to a public document: trees, layers, oracles, thresholds, and how many users report on each.

Everything here is decided before anybody reports anything, from the declaration alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.measure.thresholds import truth_of
from siloquent.collect.plan.sets import Kind, kinds_of, sets_of, tree_of
from siloquent.collect.spec.collection import WORDS, Assignment, Channel, Collection, LayerPlan, sealed
from siloquent.collect.spec.declared import CollectionSpec
from siloquent.collect.spec.role import Role
from siloquent.errors import SchemaError
from siloquent.maths.consistency import Block, best_shares, components_of, precision
from siloquent.maths.oracles import best_kind, best_size

Floats = NDArray[np.float64]
MOST_JOINT = 400
"""Planned over combinations of layers of all services up to here; beyond, each service's layers are planned first."""
MOST_ASSIGNMENTS = 4096


def design(spec: CollectionSpec) -> Collection:
    """The collection that ``spec`` declares.

    Raises:
        SchemaError: A joint table is too large, or nothing is left to report.
    """
    drafts = [_draft(spec, names) for names in _channels(spec)]
    layers = [draft.channel.layers for draft in drafts]
    if len(drafts) > 1 and math.prod(len(one) for one in layers) > MOST_JOINT:
        drafts = [_pruned(draft) for draft in drafts]
        layers = [draft.channel.layers for draft in drafts]
    combinations = list(product(*(range(len(one)) for one in layers)))
    if len(combinations) <= MOST_JOINT:
        shares = _planned(drafts, combinations)
    else:
        combinations, shares = _paired([draft.shares() for draft in drafts])
    words = _whole_shares(shares)
    kept = [Assignment(one, count) for one, count in zip(combinations, words, strict=True) if count]
    return _renumbered(spec, drafts, kept)


def _channels(spec: CollectionSpec) -> list[tuple[str, ...]]:
    names = tuple(service.name for service in spec.services)
    return [names] if spec.client == "coordinated" else [(name,) for name in names]


@dataclass(frozen=True, slots=True)
class Draft:
    """A channel with all layers that it may have, and the roles behind its trees."""

    channel: Channel
    roles: tuple[Role, ...]

    def kinds(self, attributes: tuple[int, ...]) -> list[Kind]:
        """The kinds of questions about one set."""
        return list(kinds_of([self.roles[at] for at in attributes], [self.channel.trees[at] for at in attributes]))

    def shares(self) -> Floats:
        """The best shares of its layers, were it alone."""
        return _planned([self], [(at,) for at in range(len(self.channel.layers))])


def _draft(spec: CollectionSpec, names: tuple[str, ...]) -> Draft:
    services = [spec.service(name) for name in names]
    roles = tuple(role for service in services for role in service.roles if role.sensitive)
    trees = tuple(tree_of(role, spec.fanout) for role in roles)
    padded = any(service.padded for service in services)
    epsilon = spec.epsilon / (1 if spec.client == "coordinated" else len(spec.services))
    points = tuple(role.points for role in roles)
    bare = Channel(names, epsilon, max(service.per_user for service in services), padded, trees, points, ())
    layers = tuple(layer for one in sets_of(spec, roles) for layer in _layers(bare, one))
    if not layers:
        raise SchemaError(f"{' and '.join(names)} has no attribute with two values.")
    return Draft(replace(bare, layers=layers), roles)


def _layers(channel: Channel, attributes: tuple[int, ...]) -> Iterator[LayerPlan]:
    trees = tuple(channel.trees[at] for at in attributes)
    for levels in components_of(trees):
        nodes = Block(trees, channel.padded).nodes(levels)
        if nodes < 2:
            continue
        kind = best_kind(nodes)
        size = best_size(kind, nodes, float(channel.epsilon))
        truth = truth_of(kind, nodes, size, epsilon=channel.epsilon)
        yield LayerPlan(attributes, levels, kind, nodes, size, truth)


def _pruned(draft: Draft) -> Draft:
    """The draft with those layers that its own plan keeps."""
    kept = tuple(layer for layer, share in zip(draft.channel.layers, draft.shares(), strict=True) if share > 0)
    return Draft(replace(draft.channel, layers=kept), draft.roles)


def _planned(drafts: Sequence[Draft], combinations: Sequence[tuple[int, ...]]) -> Floats:
    """The share of each combination of layers that makes the questions to each service and to all joined exact.

    Each set of attributes is planned alone and takes an equal part of the users: its questions see no other layer.
    """
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for at, one in enumerate(combinations):
        chosen = tuple(draft.channel.layers[i].attributes for draft, i in zip(drafts, one, strict=True))
        groups.setdefault(chosen, []).append(at)
    shares = np.zeros(len(combinations))
    for members in groups.values():
        own = [combinations[at] for at in members]
        precisions, targets = _goals(drafts, own)
        shares[members] = best_shares(precisions, targets) / len(groups)
    return shares


def _goals(drafts: Sequence[Draft], combinations: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """What each combination of layers knows of each component, and how much that component matters."""
    rows, targets = [], []
    wholes = [(at,) for at in range(len(drafts))] + ([tuple(range(len(drafts)))] if len(drafts) > 1 else [])
    for whole in wholes:
        layers = [[drafts[at].channel.layers[one[at]] for at in whole] for one in combinations]
        blocks = [drafts[at].channel.block(layer) for at, layer in zip(whole, layers[0], strict=True)]
        components = components_of([tree for block in blocks for tree in block.trees])
        known = _finite(
            np.array(
                [
                    [precision(blocks, [x.levels for x in own], [x.oracle for x in own], one) for own in layers]
                    for one in components
                ]
            )
        )
        wanted: Floats = np.ones((1, 1))
        weights: Floats = np.ones(1)
        for at, layer in zip(whole, layers[0], strict=True):
            kinds = drafts[at].kinds(layer.attributes)
            wanted = np.kron(wanted, _lengths(kinds)).astype(np.float64)
            weights = np.kron(weights, [kind.weight for kind in kinds]).astype(np.float64)
        if not any(block.padded for block in blocks):
            wanted[:, 0] = 0.0  # the number of users is known
        rows.append(known)
        targets.append(_balanced(wanted, known, weights) / len(wholes))
    return np.vstack(rows), np.concatenate(targets)


def _lengths(kinds: Sequence[Kind]) -> Floats:
    """The squared length of every component (columns, in order) of every kind of question (rows)."""
    found = []
    for kind in kinds:
        row = np.ones(1)
        for energies in kind.energies:
            row = np.multiply.outer(row, energies).reshape(-1)
        found.append(row)
    return np.array(found)


def _balanced(wanted: Floats, known: Floats, weights: Floats) -> Floats:
    """How much each component matters if every kind of question counts by the error that evenly shared layers give.

    Measured by absolute errors, questions about single categories would drown in those about half of all users.
    """
    even = known.mean(axis=1)
    errors = wanted @ np.divide(1, even, out=np.zeros_like(even), where=even > 0)
    kept = errors > 0
    shares = weights[kept] / errors[kept]
    return np.asarray(shares @ wanted[kept] / max(float(weights[kept].sum()), 1))


def _finite(precisions: Floats) -> Floats:
    """Infinite precision (what is known without noise) as far more than any report has."""
    finite = precisions[np.isfinite(precisions)]
    return np.where(np.isfinite(precisions), precisions, 1e6 * float(finite.max(initial=1.0)))


def _paired(shares: Sequence[Floats]) -> tuple[list[tuple[int, ...]], Floats]:
    """Many combinations of independently planned layers, each as frequent as their product, spread evenly."""
    ends = [np.cumsum(one) / one.sum() for one in shares]
    steps = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19])[: len(shares)])
    at = np.arange(MOST_ASSIGNMENTS)[:, None] * steps % 1
    drawn = [
        tuple(np.searchsorted(end, point, side="right") for end, point in zip(ends, row, strict=True)) for row in at
    ]
    counted: dict[tuple[int, ...], int] = {}
    for one in drawn:
        whole = tuple(int(i) for i in one)
        counted[whole] = counted.get(whole, 0) + 1
    return list(counted), np.array(list(counted.values())) / MOST_ASSIGNMENTS


def _whole_shares(shares: Floats) -> list[int]:
    """The shares in 2^32nds, which add up exactly."""
    words = [int(share * WORDS) for share in shares]
    words[int(np.argmax(shares))] += WORDS - sum(words)
    return words


def _renumbered(spec: CollectionSpec, drafts: Sequence[Draft], kept: Sequence[Assignment]) -> Collection:
    """The collection with those layers alone that somebody reports on."""
    used = [sorted({one.layers[at] for one in kept}) for at in range(len(drafts))]
    places = [{layer: new for new, layer in enumerate(own)} for own in used]
    channels = []
    for draft, own in zip(drafts, used, strict=True):
        channel = draft.channel
        layers = tuple(channel.layers[at] for at in own)
        channels.append(replace(channel, layers=layers))
    renamed = [
        Assignment(tuple(place[layer] for place, layer in zip(places, one.layers, strict=True)), one.words)
        for one in kept
    ]
    return sealed(spec, tuple(channels), tuple(renamed))
