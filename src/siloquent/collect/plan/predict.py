"""How exact answers will be, before anybody sends anything."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from siloquent.collect.plan.sets import kinds_of
from siloquent.collect.spec.collection import WORDS, Channel, Collection
from siloquent.maths.consistency import components_of, precision


@dataclass(frozen=True, slots=True)
class Prediction:
    """The typical standard error of one kind of question about one client's rows.

    ``relative``: as a share of all users (COUNT), or of users times the mean size of a value (SUM).
    """

    services: tuple[str, ...]
    question: str
    relative: float


def predict(collection: Collection, users: int) -> list[Prediction]:
    """The kinds of questions that were planned for, each with its standard error if ``users`` report."""
    found: dict[tuple[tuple[str, ...], str], float] = {}
    for number, channel in enumerate(collection.channels):
        for words, square in _of_channel(collection, number, channel, users):
            key = (channel.services, words)
            found[key] = min(square, found.get(key, math.inf))
    return [Prediction(services, words, math.sqrt(square)) for (services, words), square in found.items()]


def _of_channel(collection: Collection, number: int, channel: Channel, users: int) -> Iterator[tuple[str, float]]:
    shares = [0.0] * len(channel.layers)
    for one in collection.assignments:
        shares[one.layers[number]] += one.words / WORDS
    roles = [role for _, role in collection.attributes(number)]
    for attributes in channel.sets:
        own = [
            (layer, share)
            for layer, share in zip(channel.layers, shares, strict=True)
            if layer.attributes == attributes
        ]
        trees = [channel.trees[at] for at in attributes]
        block = channel.block(own[0][0])
        known = {
            component: sum(
                share * precision([block], [layer.levels], [layer.oracle], component) for layer, share in own
            )
            for component in components_of(trees)
            if any(component) or channel.padded
        }
        for kind in kinds_of([roles[at] for at in attributes], trees):
            total = 0.0
            for component, reports in known.items():
                square = math.prod(e[k] for e, k in zip(kind.energies, component, strict=True))
                total += square / reports if reports > 0 else 0.0
            yield kind.words, channel.slots**2 * total / users
