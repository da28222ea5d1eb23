"""Design of a public document from a declaration: trees, layers, oracles, thresholds, and the share of users on each.

All decisions are made before any report, from the declaration only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.plan.sets import Kind, build_role_tree, list_question_kinds, list_sets
from siloquent.collect.plan.thresholds import compute_truth_threshold
from siloquent.collect.spec.collection import WORDS, Assignment, Collection, LayerPlan, ReportChannel, seal_collection
from siloquent.collect.spec.collection_spec import CollectionSpec
from siloquent.collect.spec.role import AttributeRole
from siloquent.errors import SchemaError
from siloquent.maths.local.consistency import TreeBlock, compute_precision, list_components, optimise_shares
from siloquent.maths.local.frequency_oracles import choose_kind, choose_size

Floats = NDArray[np.float64]
MAX_JOINT = 400
"""The most combinations of layers of all services planned jointly; beyond, each service's layers are planned first."""
MAX_ASSIGNMENTS = 4096


def design(spec: CollectionSpec) -> Collection:
    """Return the collection that ``spec`` declares.

    Raises:
        SchemaError: a joint table is too large, or nothing is left to report.
    """
    drafts = [_draft_channel(spec, names) for names in _list_channels(spec)]
    layers = [draft.channel.layers for draft in drafts]
    if len(drafts) > 1 and math.prod(len(one) for one in layers) > MAX_JOINT:
        drafts = [_prune_draft(draft) for draft in drafts]
        layers = [draft.channel.layers for draft in drafts]
    combinations = list(product(*(range(len(one)) for one in layers)))
    if len(combinations) <= MAX_JOINT:
        shares = _plan_shares(drafts, combinations)
    else:
        combinations, shares = _pair_layers([draft.compute_shares() for draft in drafts])
    words = _round_shares(shares)
    kept = [Assignment(one, count) for one, count in zip(combinations, words, strict=True) if count]
    return _renumber_layers(spec, drafts, kept)


def _list_channels(spec: CollectionSpec) -> list[tuple[str, ...]]:
    names = tuple(service.name for service in spec.services)
    return [names] if spec.client == "coordinated" else [(name,) for name in names]


@dataclass(frozen=True, slots=True)
class ChannelDraft:
    """A channel with all its possible layers, and the roles of its trees."""

    channel: ReportChannel
    roles: tuple[AttributeRole, ...]

    def list_kinds(self, attributes: tuple[int, ...]) -> list[Kind]:
        """Return the kinds of questions about one set."""
        return list(
            list_question_kinds([self.roles[at] for at in attributes], [self.channel.trees[at] for at in attributes])
        )

    def compute_shares(self) -> Floats:
        """Return the best shares of its layers if it were the only channel."""
        return _plan_shares([self], [(at,) for at in range(len(self.channel.layers))])


def _draft_channel(spec: CollectionSpec, names: tuple[str, ...]) -> ChannelDraft:
    services = [spec.get_service(name) for name in names]
    roles = tuple(role for service in services for role in service.roles if role.sensitive)
    trees = tuple(build_role_tree(role, spec.fanout) for role in roles)
    padded = any(service.padded for service in services)
    epsilon = spec.epsilon / (1 if spec.client == "coordinated" else len(spec.services))
    points = tuple(role.points for role in roles)
    bare = ReportChannel(names, epsilon, max(service.per_user for service in services), padded, trees, points, ())
    layers = tuple(layer for one in list_sets(spec, roles) for layer in _list_layers(bare, one))
    if not layers:
        raise SchemaError(f"{' and '.join(names)} has no attribute with two values.")
    return ChannelDraft(replace(bare, layers=layers), roles)


def _list_layers(channel: ReportChannel, attributes: tuple[int, ...]) -> Iterator[LayerPlan]:
    trees = tuple(channel.trees[at] for at in attributes)
    for levels in list_components(trees):
        nodes = TreeBlock(trees, channel.padded).count_nodes(levels)
        if nodes < 2:
            continue
        kind = choose_kind(nodes)
        size = choose_size(kind, nodes, float(channel.epsilon))
        truth = compute_truth_threshold(kind, nodes, size, epsilon=channel.epsilon)
        yield LayerPlan(attributes, levels, kind, nodes, size, truth)


def _prune_draft(draft: ChannelDraft) -> ChannelDraft:
    """Return the draft with only those layers that its own plan uses."""
    kept = tuple(layer for layer, share in zip(draft.channel.layers, draft.compute_shares(), strict=True) if share > 0)
    return ChannelDraft(replace(draft.channel, layers=kept), draft.roles)


def _plan_shares(drafts: Sequence[ChannelDraft], combinations: Sequence[tuple[int, ...]]) -> Floats:
    """Return the share of each combination of layers that is best for questions to each service and to all.

    Each set of attributes is planned separately and takes an equal part of the users: its questions use no other layer.
    """
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for at, one in enumerate(combinations):
        chosen = tuple(draft.channel.layers[i].attributes for draft, i in zip(drafts, one, strict=True))
        groups.setdefault(chosen, []).append(at)
    shares = np.zeros(len(combinations))
    for members in groups.values():
        own = [combinations[at] for at in members]
        precisions, targets = _compute_goals(drafts, own)
        shares[members] = optimise_shares(precisions, targets) / len(groups)
    return shares


def _compute_goals(drafts: Sequence[ChannelDraft], combinations: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """Return the precision of each combination of layers for each component, and each component's weight."""
    rows, targets = [], []
    wholes = [(at,) for at in range(len(drafts))] + ([tuple(range(len(drafts)))] if len(drafts) > 1 else [])
    for whole in wholes:
        layers = [[drafts[at].channel.layers[one[at]] for at in whole] for one in combinations]
        blocks = [drafts[at].channel.get_block(layer) for at, layer in zip(whole, layers[0], strict=True)]
        components = list_components([tree for block in blocks for tree in block.trees])
        known = _limit_precisions(
            np.array(
                [
                    [compute_precision(blocks, [x.levels for x in own], [x.oracle for x in own], one) for own in layers]
                    for one in components
                ]
            )
        )
        wanted: Floats = np.ones((1, 1))
        weights: Floats = np.ones(1)
        for at, layer in zip(whole, layers[0], strict=True):
            kinds = drafts[at].list_kinds(layer.attributes)
            wanted = np.kron(wanted, _compute_lengths(kinds)).astype(np.float64)
            weights = np.kron(weights, [kind.weight for kind in kinds]).astype(np.float64)
        if not any(block.padded for block in blocks):
            wanted[:, 0] = 0.0  # the number of users is known
        rows.append(known)
        targets.append(_balance_weights(wanted, known, weights) / len(wholes))
    return np.vstack(rows), np.concatenate(targets)


def _compute_lengths(kinds: Sequence[Kind]) -> Floats:
    """Return the squared length of every component (columns, in order) of every kind of question (rows)."""
    found = []
    for kind in kinds:
        row = np.ones(1)
        for energies in kind.energies:
            row = np.multiply.outer(row, energies).reshape(-1)
        found.append(row)
    return np.array(found)


def _balance_weights(wanted: Floats, known: Floats, weights: Floats) -> Floats:
    """Return each component's weight if every kind of question counts relative to its error with evenly shared layers.

    With absolute errors, questions about single categories would be outweighed by those about half of all users.
    """
    even = known.mean(axis=1)
    errors = wanted @ np.divide(1, even, out=np.zeros_like(even), where=even > 0)
    kept = errors > 0
    shares = weights[kept] / errors[kept]
    return np.asarray(shares @ wanted[kept] / max(float(weights[kept].sum()), 1))


def _limit_precisions(precisions: Floats) -> Floats:
    """Replace infinite precision (known without noise) by one far above that of any report."""
    finite = precisions[np.isfinite(precisions)]
    return np.where(np.isfinite(precisions), precisions, 1e6 * float(finite.max(initial=1.0)))


def _pair_layers(shares: Sequence[Floats]) -> tuple[list[tuple[int, ...]], Floats]:
    """Return many combinations of separately planned layers, evenly spread, as frequent as the shares' product."""
    ends = [np.cumsum(one) / one.sum() for one in shares]
    steps = np.sqrt(np.array([2, 3, 5, 7, 11, 13, 17, 19])[: len(shares)])
    at = np.arange(MAX_ASSIGNMENTS)[:, None] * steps % 1
    drawn = [
        tuple(np.searchsorted(end, point, side="right") for end, point in zip(ends, row, strict=True)) for row in at
    ]
    counted: dict[tuple[int, ...], int] = {}
    for one in drawn:
        whole = tuple(int(i) for i in one)
        counted[whole] = counted.get(whole, 0) + 1
    return list(counted), np.array(list(counted.values())) / MAX_ASSIGNMENTS


def _round_shares(shares: Floats) -> list[int]:
    """Return the shares in 2^32nds, which add up exactly."""
    words = [int(share * WORDS) for share in shares]
    words[int(np.argmax(shares))] += WORDS - sum(words)
    return words


def _renumber_layers(spec: CollectionSpec, drafts: Sequence[ChannelDraft], kept: Sequence[Assignment]) -> Collection:
    """Return the collection with only those layers that some users report on."""
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
    return seal_collection(spec, tuple(channels), tuple(renamed))
