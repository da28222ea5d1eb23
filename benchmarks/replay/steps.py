"""Each step of a release of many steps by itself: the loss of a noise call over the price of its own event.

No neighbours are the worst ones for all steps at once: a choice is at its worst where one candidate gains and another
loses, a sum of distances where all of them grow. That each step's price is used up by some neighbours says that the sum
of prices is no more than adaptive composition asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from benchmarks.replay import losses
from benchmarks.replay.tape import CHOOSING, Call, Tape
from siloquent.privacy import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialSelect,
    PermuteAndFlip,
    SampledGaussian,
)

REPORTED = {1: "distances", 3: "right answers"}


def parts_of(event: Event) -> Iterator[Event]:
    """The events that a composition is made of."""
    if isinstance(event, Composed):
        for part in event.parts:
            yield from parts_of(part)
    else:
        yield event


def step_ratios(one: Tape, other: Tape, events: Sequence[Event], *, zcdp: bool, delta: float) -> dict[str, float]:
    """For each kind of step, the largest loss of one over its price."""
    parts = [part for event in events for part in parts_of(event)]
    found: dict[str, float] = {}
    pairs = list(zip(one.calls, other.calls, strict=True))
    chosen = [at for at, call in enumerate(one.calls) if call.name in CHOOSING or call.name == "sampled_gaussian"]
    for at, (call, again) in enumerate(pairs):
        if call.name == "sampled_gaussian":
            continue
        ratio = _ratio(call, again, parts, zcdp=zcdp)
        name = _name(at, call, chosen)
        found[name] = max(found.get(name, 0.0), ratio)
    sampled = [part for part in parts if isinstance(part, SampledGaussian)]
    if sampled:
        found["training"] = (losses.sampled_epsilon(one, other, delta=delta) / float(sampled[0].epsilon)) ** 2
    return found


def _name(at: int, call: Call, chosen: Sequence[int]) -> str:
    """By its place: counts come before all choices, a joint after each; then rates and the report."""
    if call.name in CHOOSING:
        return "choices"
    if at - 1 in chosen and call.exact.size > 1:
        return "joints"
    return REPORTED.get(call.exact.size, "others") if chosen and at > chosen[-1] else "counts"


def _ratio(call: Call, again: Call, parts: Sequence[Event], *, zcdp: bool) -> float:
    loss = losses.loss(call, again, zcdp=zcdp)
    prices: list[Fraction] = []
    for part in parts:
        if isinstance(part, DiscreteLaplace) and call.settings.get("scale") == part.scale:
            prices.append(Fraction(part.l1) / part.scale)
        elif isinstance(part, DiscreteGaussian) and call.settings.get("variance") == part.variance:
            prices.append(Fraction(part.l2_squared) / (2 * part.variance))
        elif isinstance(part, ExponentialSelect) and call.name == "select_exponential":
            prices.append(part.range**2 / 8 if zcdp else part.range)
        elif isinstance(part, PermuteAndFlip) and call.name == "permute_and_flip":
            prices.append(part.epsilon)
    return float(loss / max(prices))
