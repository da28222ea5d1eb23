"""Proof by enumeration that a document keeps its guarantee: exact likelihood ratios from the whole thresholds.

All numbers are fractions. They are compared with e^epsilon by an enclosure far finer than any threshold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb, prod

from siloquent.collect.plan.thresholds import is_at_most_exp, round_log_up
from siloquent.collect.spec.collection import WORDS, Collection, LayerPlan


@dataclass(frozen=True, slots=True)
class DesignFinding:
    """One check. ``epsilon``: the largest log-ratio found, rounded up; 0 for what must not vary."""

    what: str
    epsilon: float
    allowed: Fraction
    holds: bool


def check(collection: Collection) -> list[DesignFinding]:
    """Check every oracle on every layer of every client, the shares of layers, and the composition over clients.

    A user's reports consist of layers that depend only on the user's id, a slot drawn evenly whatever the rows, and for
    each client one draw given one node. Ratios of single draws bound those of mixtures over slots, and multiply over
    clients. So the largest product over layers that are used together bounds the whole.
    """
    found = []
    ratios: list[list[Fraction]] = []
    for number, channel in enumerate(collection.channels):
        ratios.append([compute_largest_ratio(layer) for layer in channel.layers])
        worst = max(ratios[-1])
        name = " and ".join(channel.services)
        found.append(_build_finding(f"any report of {name}", worst, channel.epsilon))
        length = collection.get_report_length(number)
        found.append(DesignFinding(f"length of reports of {name}: {length} bytes", 0.0, Fraction(0), True))
    whole = max(
        prod((own[layer] for own, layer in zip(ratios, one.layers, strict=True)), start=Fraction(1))
        for one in collection.assignments
    )
    found.append(_build_finding("everything that one user sends", whole, collection.spec.epsilon))
    total = sum(one.words for one in collection.assignments)
    found.append(DesignFinding("shares of layers add up to 1", 0.0, Fraction(0), total == WORDS))
    return found


def _build_finding(what: str, ratio: Fraction, epsilon: Fraction) -> DesignFinding:
    return DesignFinding(what, round_log_up(ratio), epsilon, is_at_most_exp(ratio, epsilon=epsilon))


def compute_largest_ratio(layer: LayerPlan) -> Fraction:
    """Return the largest ratio of one report's probabilities over two nodes, by enumerating kinds of reports."""
    chances = list(list_probabilities(layer))
    return max(a / b for a in chances for b in chances)


def list_probabilities(layer: LayerPlan) -> Iterator[Fraction]:
    """Yield the probability of a single report that supports a node, and of one that does not, given that node."""
    truth, k, w = Fraction(layer.truth, 2**64), layer.nodes, layer.size
    if layer.kind == "hash":
        yield truth
        yield (1 - truth) / (w - 1)
    else:
        yield truth / comb(k - 1, w - 1)
        yield (1 - truth) / comb(k - 1, w)
