"""Records of releases, as values that a ledger can keep for decades.

An event states the mechanism and its exact parameters; accountants convert it to a cost. The meaning of a tag
and version never changes: a mechanism that changes gets a new event. Fractions are exact and written "num/den".
Sensitivities in an event already include the account's unit and adjacency. If a price is valid only for one adjacency
or unit, ``list_required_settings`` says so and the ledger refuses the event elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Union, get_args

from siloquent.errors import LedgerError, RequestError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.foreign.numbers import is_plain_number

ROW_ADD_REMOVE = "row, add-remove"
ADD_REMOVE = "add-remove"


def _require_positive(name: str, value: Fraction | int) -> None:
    if isinstance(value, float) or not value > 0:
        raise RequestError(f"{name} must be an exact number above 0, not {value!r}.")


def _require_at_least(name: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RequestError(f"{name} must be a whole number of at least {least}, not {value!r}.")


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Whole numbers plus discrete Laplace noise of ``scale``; ``l1`` bounds the L1 change by one unit."""

    tag: ClassVar[str] = "discrete-laplace/1"
    scale: Fraction
    l1: int

    def __post_init__(self) -> None:
        _require_positive("scale", self.scale)
        _require_at_least("l1", self.l1, 0)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Whole numbers plus discrete Gaussian noise of ``variance``; ``l2_squared`` bounds the squared L2 change."""

    tag: ClassVar[str] = "discrete-gaussian/1"
    variance: Fraction
    l2_squared: int

    def __post_init__(self) -> None:
        _require_positive("variance", self.variance)
        _require_at_least("l2_squared", self.l2_squared, 0)


@dataclass(frozen=True, slots=True)
class GeometricTopK:
    """The ordered ids of the ``k`` largest of counts plus one-sided geometric noise of ``scale``, all at once.

    ``linf`` bounds each count's change after a shift common to all counts, since ids depend only on differences.
    ``monotone`` (under add-remove, if after the shift no count decreases) halves the price; the ledger refuses it
    elsewhere.
    """

    tag: ClassVar[str] = "geometric-top-k/1"
    k: int
    scale: Fraction
    linf: int
    monotone: bool

    def __post_init__(self) -> None:
        _require_at_least("k", self.k, 1)
        _require_positive("scale", self.scale)
        _require_at_least("linf", self.linf, 0)


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """One choice among utilities by permute-and-flip, calibrated to ``epsilon``."""

    tag: ClassVar[str] = "permute-and-flip/1"
    epsilon: Fraction

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class ExponentialSelect:
    """``rounds`` choices by the exponential mechanism, each of bounded range ``range``."""

    tag: ClassVar[str] = "exponential-select/1"
    rounds: int
    range: Fraction

    def __post_init__(self) -> None:
        _require_at_least("rounds", self.rounds, 1)
        _require_positive("range", self.range)


@dataclass(frozen=True, slots=True)
class NoiseReduction:
    """Laplace answers of decreasing ``scales`` from one backward chain, stopped at ``stop`` (None: not known yet).

    Reserve with ``stop`` None (the price of the last scale); settle with the published stop.
    """

    tag: ClassVar[str] = "noise-reduction/1"
    scales: tuple[Fraction, ...]
    l1: int
    stop: int | None = None

    def __post_init__(self) -> None:
        if not self.scales or any(a <= b for a, b in zip(self.scales, self.scales[1:], strict=False)):
            raise RequestError("The scales of a noise reduction must be there and decrease.")
        _require_positive("the last scale", self.scales[-1])
        _require_at_least("l1", self.l1, 0)
        if self.stop is not None and not 0 <= self.stop < len(self.scales):
            raise RequestError(f"stop must be one of 0..{len(self.scales) - 1}, not {self.stop}.")


@dataclass(frozen=True, slots=True)
class SummedGaussian:
    """The sum of several parties' discrete Gaussian shares; ``honest`` parties are trusted to have added theirs."""

    tag: ClassVar[str] = "summed-gaussian/1"
    share: Fraction
    honest: int
    l2_squared: int
    length: int

    def __post_init__(self) -> None:
        if self.share.denominator != 1 or self.share < 9:
            raise RequestError(f"The variance of one share must be whole and at least 9, not {self.share}.")
        _require_at_least("honest", self.honest, 1)
        _require_at_least("l2_squared", self.l2_squared, 0)
        _require_at_least("length", self.length, 1)


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """``steps`` Gaussian steps on Poisson samples of ``rate``, with their proven (epsilon, delta)."""

    tag: ClassVar[str] = "sampled-gaussian/1"
    rate: Fraction
    multiplier: Fraction
    steps: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        for name in ("rate", "multiplier", "epsilon", "delta"):
            _require_positive(name, getattr(self, name))
        _require_at_least("steps", self.steps, 1)
        if self.rate > 1 or self.delta >= 1:
            raise RequestError("rate must be at most 1 and delta below 1.")


@dataclass(frozen=True, slots=True)
class StabilityThreshold:
    """Keys shown only above a noisy threshold; ``delta`` bounds the probability that a single unit's key appears."""

    tag: ClassVar[str] = "stability-threshold/1"
    delta: Fraction

    def __post_init__(self) -> None:
        _require_positive("delta", self.delta)


@dataclass(frozen=True, slots=True)
class ThresholdedGaussian:
    """Keys with at least ``threshold`` units after discrete Gaussian noise of ``variance`` on each key's exact count.

    A unit counts for at most ``keys`` keys, and ``l2_squared`` bounds the squared L2 change of the counts. ``delta``
    bounds the probability that a key of a single unit passes. Proof: docs/explanation/discover.md.
    """

    tag: ClassVar[str] = "thresholded-gaussian/1"
    variance: Fraction
    keys: int
    l2_squared: int
    threshold: int
    delta: Fraction

    def __post_init__(self) -> None:
        _require_positive("variance", self.variance)
        _require_at_least("keys", self.keys, 1)
        _require_at_least("l2_squared", self.l2_squared, self.keys)
        _require_at_least("threshold", self.threshold, 2)
        _require_positive("delta", self.delta)
        if self.delta >= 1:
            raise RequestError("delta must be below 1.")


@dataclass(frozen=True, slots=True)
class LocalReport:
    """A report whose rows the device itself perturbed; ``epsilon`` per device and epoch."""

    tag: ClassVar[str] = "local-report/1"
    epsilon: Fraction

    def __post_init__(self) -> None:
        _require_positive("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class Composed:
    """All of ``parts`` on the same rows: prices add up."""

    tag: ClassVar[str] = "composed/1"
    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Disjoint:
    """``parts`` on declared, disjoint cells: a row is in one part, so the highest price counts.

    Valid only for row units under add-remove; the ledger refuses it elsewhere.
    """

    tag: ClassVar[str] = "disjoint/1"
    parts: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A protocol revealed ``reveals`` to its peers. Not differential privacy; kept for the record."""

    tag: ClassVar[str] = "disclosure/1"
    protocol: str
    reveals: str


Event = Union[  # noqa: UP007 - the classes refer to the union before it exists
    DiscreteLaplace,
    DiscreteGaussian,
    GeometricTopK,
    PermuteAndFlip,
    ExponentialSelect,
    NoiseReduction,
    SummedGaussian,
    SampledGaussian,
    StabilityThreshold,
    ThresholdedGaussian,
    LocalReport,
    Composed,
    Disjoint,
    Disclosure,
]

FREE = Composed(())
"""The event of an answer that reads no row: it releases nothing new."""

_BY_TAG: dict[str, type[Any]] = {kind.tag: kind for kind in get_args(Event)}


def list_required_settings(event: Event) -> frozenset[str]:
    """Return the settings (``ADD_REMOVE``, ``ROW_ADD_REMOVE``) that the price of ``event`` requires."""
    if isinstance(event, GeometricTopK) and event.monotone:
        return frozenset({ADD_REMOVE})
    if isinstance(event, Disjoint):
        return frozenset({ROW_ADD_REMOVE}) | _collect_settings(event.parts)
    if isinstance(event, Composed):
        return _collect_settings(event.parts)
    return frozenset()


def _collect_settings(parts: tuple[Event, ...]) -> frozenset[str]:
    return frozenset(setting for part in parts for setting in list_required_settings(part))


def _to_plain(value: object) -> object:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if type(value) in _BY_TAG.values():
        return {"event": value.tag, **{f.name: _to_plain(getattr(value, f.name)) for f in fields(value)}}  # type: ignore[arg-type, attr-defined]
    return value


def event_to_json(event: Event) -> str:
    """Return ``event`` as canonical JSON: sorted keys, whole numbers and strings only.

    >>> event_to_json(DiscreteLaplace(scale=Fraction(3, 2), l1=1))
    '{"event":"discrete-laplace/1","l1":1,"scale":"3/2"}'
    """
    return json.dumps(_to_plain(event), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parse_fraction(told: object) -> Fraction:
    """Parse a number from an external document, as ``str(Fraction)`` or JSON write it.

    ``1e999999999`` is refused, since its value would fill all memory.

    >>> parse_fraction("3/2"), parse_fraction(2)
    (Fraction(3, 2), Fraction(2, 1))

    Raises:
        ValueError: it is not such a number.
    """
    if isinstance(told, str) and ("e" in told.lower() or not is_plain_number(told)):
        raise ValueError("a number is written out, or as a fraction")
    if isinstance(told, str | int) or (isinstance(told, float) and math.isfinite(told)):
        return Fraction(told)
    raise ValueError("not a number")


_FRACTIONS = frozenset({"scale", "variance", "epsilon", "delta", "range", "share", "rate", "multiplier"})
_CONVERT: Mapping[str, Callable[[Any], object]] = {
    "scales": lambda texts: tuple(parse_fraction(text) for text in texts),
    "parts": lambda parts: tuple(_from_plain(part) for part in parts),
}


def _from_plain(plain: Mapping[str, Any]) -> Event:
    kind = _BY_TAG.get(str(plain.get("event")))
    if kind is None:
        raise LedgerError(
            f"This version does not know the event {plain.get('event')!r}.", fix="pip install --upgrade siloquent"
        )
    values = {
        name: parse_fraction(value) if name in _FRACTIONS else _CONVERT[name](value) if name in _CONVERT else value
        for name, value in plain.items()
        if name != "event"
    }
    event: Event = kind(**values)
    return event


def event_from_json(text: str) -> Event:
    """Parse the event that ``text`` was written from.

    Raises:
        LedgerError: an unknown tag or version (never read as free), or text that is not an event.
    """
    return _short_event(text) if len(text) <= _SHORT else _read_event(text)


def _read_event(text: str) -> Event:
    try:
        return _from_plain(load_json(text))
    except (ValueError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as broken:
        raise LedgerError("A stored event cannot be read.", fix=run("ledger verify")) from broken


_SHORT = 1_000  # characters; cached because a charge parses the same event four times
_short_event = lru_cache(1_000)(_read_event)
