"""Prediction of the accuracy of answers before any report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from siloquent.collect.plan.sets import list_question_kinds
from siloquent.collect.spec.collection import WORDS, Collection, ReportChannel
from siloquent.maths.local.consistency import compute_precision, list_components


@dataclass(frozen=True, slots=True)
class Prediction:
    """The typical standard error of one kind of question about one client's rows.

    ``relative``: as a share of all users (COUNT), or of users times the mean size of a value (SUM).
    """

    services: tuple[str, ...]
    question: str
    relative: float


def predict(collection: Collection, users: int) -> list[Prediction]:
    """Return the planned kinds of questions, each with its standard error if ``users`` report.

    Of questions to two joined services, it includes those with one condition on each, or on one and a sum of the other.
    """
    found: dict[tuple[tuple[str, ...], str], float] = {}
    for number, channel in enumerate(collection.channels):
        for words, square in _predict_channel(collection, number, channel, users):
            key = (channel.services, words)
            found[key] = min(square, found.get(key, math.inf))
    for one, other in combinations(range(len(collection.channels)), 2):
        services = collection.channels[one].services + collection.channels[other].services
        for words, square in _predict_pair(collection, (one, other), users):
            found[services, words] = min(square, found.get((services, words), math.inf))
    return [Prediction(services, words, math.sqrt(square)) for (services, words), square in found.items()]


def _predict_channel(
    collection: Collection, number: int, channel: ReportChannel, users: int
) -> Iterator[tuple[str, float]]:
    shares = [0.0] * len(channel.layers)
    for one in collection.assignments:
        shares[one.layers[number]] += one.words / WORDS
    roles = [role for _, role in collection.list_sensitive_attributes(number)]
    for attributes in channel.sets:
        own = [
            (layer, share)
            for layer, share in zip(channel.layers, shares, strict=True)
            if layer.attributes == attributes
        ]
        trees = [channel.trees[at] for at in attributes]
        block = channel.get_block(own[0][0])
        known = {
            component: sum(
                share * compute_precision([block], [layer.levels], [layer.oracle], component) for layer, share in own
            )
            for component in list_components(trees)
            if any(component) or channel.padded
        }
        for kind in list_question_kinds([roles[at] for at in attributes], trees):
            total = 0.0
            for component, reports in known.items():
                square = math.prod(e[k] for e, k in zip(kind.energies, component, strict=True))
                total += square / reports if reports > 0 else 0.0
            yield kind.words, channel.slots**2 * total / users


def _predict_pair(collection: Collection, pair: tuple[int, int], users: int) -> Iterator[tuple[str, float]]:
    channels = [collection.channels[number] for number in pair]
    shares: dict[tuple[int, ...], float] = {}
    for one in collection.assignments:
        layers = tuple(one.layers[number] for number in pair)
        shares[layers] = shares.get(layers, 0.0) + one.words / WORDS
    roles = [[role for _, role in collection.list_sensitive_attributes(number)] for number in pair]
    scale = math.prod(channel.slots for channel in channels) ** 2 / users
    for sets in product(*(channel.sets for channel in channels)):
        trees = [[channel.trees[at] for at in own] for channel, own in zip(channels, sets, strict=True)]
        known = _compute_joint_knowledge(channels, sets, shares)
        kinds = [
            list(list_question_kinds([own[at] for at in attributes], of))
            for own, attributes, of in zip(roles, sets, trees, strict=True)
        ]
        for first, second in product(*kinds):
            words = _join_descriptions(first.words, second.words)
            if words:
                energies = (*first.energies, *second.energies)
                yield (
                    words,
                    scale
                    * sum(
                        math.prod(e[k] for e, k in zip(energies, component, strict=True)) / reports
                        for component, reports in known.items()
                        if reports > 0
                    ),
                )


def _compute_joint_knowledge(
    channels: Sequence[ReportChannel], sets: tuple[tuple[int, ...], ...], shares: Mapping[tuple[int, ...], float]
) -> dict[tuple[int, ...], float]:
    """Return the precision of one user's reports to both channels for each component of the joint table of ``sets``."""
    known: dict[tuple[int, ...], float] = {}
    for layers, share in shares.items():
        plans = [channel.layers[at] for channel, at in zip(channels, layers, strict=True)]
        if tuple(plan.attributes for plan in plans) != sets:
            continue
        blocks = [channel.get_block(plan) for channel, plan in zip(channels, plans, strict=True)]
        levels, oracles = [plan.levels for plan in plans], [plan.oracle for plan in plans]
        for component in list_components([tree for block in blocks for tree in block.trees]):
            if any(component) or any(block.padded for block in blocks):
                own = compute_precision(blocks, levels, oracles, component)
                known[component] = known.get(component, 0.0) + share * own
    return known


def _join_descriptions(first: str, second: str) -> str:
    """Return a description of both questions together; empty unless each has at most one condition, one a count."""
    if " and " in first + second or "AVG" in first + second:
        return ""
    by = [one.removeprefix("COUNT by ") for one in (first, second) if one.startswith("COUNT by ")]
    if len(by) == 2:
        return f"COUNT by {by[0]} and {by[1]}"
    other = second if first.startswith("COUNT by ") else first
    return f"{other} by {by[0]}" if by and " by " not in other else ""
