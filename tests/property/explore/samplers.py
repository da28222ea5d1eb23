"""What reaches the samplers of ``siloquent.privacy.noise``, and which share of an event's price two neighbours use up.

The recorders stand where noise is drawn: they keep what comes in and add nothing, so that two runs on neighbours can be
compared exactly. Everything before them is the real path, from rows to the sampler's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from siloquent.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialSelect,
    GeometricTopK,
    NoiseReduction,
    PermuteAndFlip,
    noise,
)


@dataclass(frozen=True, slots=True)
class Draw:
    """One call of a sampler: whole numbers, as Python's own so that nothing overflows, and its parameters."""

    sampler: str
    vector: tuple[int, ...]
    settings: tuple[tuple[str, Any], ...]


Draws = Sequence[Draw]


class _Chain(np.ndarray[Any, Any]):
    """A noise chain of zeros that keeps the numbers it is added to."""

    def __radd__(self, exact: Any) -> NDArray[np.int64]:
        self.draws.append(Draw("draw_noise_chain", tuple(map(int, exact)), self.settings))
        return np.asarray(exact + self.view(np.ndarray))

    __add__ = __radd__


@contextmanager
def recorded() -> Iterator[list[Draw]]:
    """All that reaches a sampler, in order; nothing is drawn."""
    draws: list[Draw] = []

    def kept(sampler: str, vector: NDArray[np.int64], settings: dict[str, Any]) -> NDArray[np.int64]:
        draws.append(Draw(sampler, tuple(map(int, vector)), tuple(sorted(settings.items()))))
        return np.array(vector, dtype=np.int64)

    def chain(size: int, **settings: Any) -> _Chain:
        zeros = np.zeros((len(settings["scales"]), size), dtype=np.int64).view(_Chain)
        zeros.draws, zeros.settings = draws, tuple(settings.items())  # type: ignore[attr-defined]
        return zeros

    with pytest.MonkeyPatch.context() as patch:
        for name in ("add_laplace", "add_gaussian", "add_geometric"):
            patch.setattr(noise, name, lambda vector, *, name=name, **settings: kept(name, vector, settings))
        for name in ("permute_and_flip", "select_exponential"):
            patch.setattr(
                noise, name, lambda vector, *, name=name, **settings: int(kept(name, vector, settings).argmax())
            )
        patch.setattr(
            noise,
            "select_exponential_top_k",
            lambda vector, **settings: np.argsort(-kept("select_exponential_top_k", vector, settings))[: settings["k"]],
        )
        patch.setattr(noise, "draw_noise_chain", chain)
        yield draws


def used(event: Any, one: Draws, other: Draws) -> Fraction:
    """The share of the price of ``event`` that the two runs need: above 1, the run breaks what its event claims.

    Raises:
        AssertionError: the samplers were not called as the event says.
    """
    assert [(d.sampler, d.settings, len(d.vector)) for d in one] == [
        (d.sampler, d.settings, len(d.vector)) for d in other
    ], "neighbours are told apart by how samplers are called"
    return _used(event, one, other)


@singledispatch
def _used(event: Any, one: Draws, other: Draws) -> Fraction:
    raise AssertionError(f"nothing is known about what {event} needs")


@_used.register
def _(event: DiscreteLaplace, one: Draws, other: Draws) -> Fraction:
    _called(one, "add_laplace", scale=event.scale)
    return Fraction(sum(map(abs, _moved(one, other))), event.l1)


@_used.register
def _(event: DiscreteGaussian, one: Draws, other: Draws) -> Fraction:
    _called(one, "add_gaussian", variance=event.variance)
    return Fraction(sum(move * move for move in _moved(one, other)), event.l2_squared)


@_used.register
def _(event: NoiseReduction, one: Draws, other: Draws) -> Fraction:
    _called(one, "draw_noise_chain", scales=event.scales)
    return Fraction(sum(map(abs, _moved(one, other))), event.l1)


@_used.register
def _(event: GeometricTopK, one: Draws, other: Draws) -> Fraction:
    _called(one, "add_geometric", scale=event.scale)
    moved = _moved(one, other)
    # Ids hang on differences: a change that all answers have in common tells nothing.
    return Fraction(max(moved) - min(moved), event.linf * (1 if event.monotone else 2))


@_used.register
def _(event: PermuteAndFlip, one: Draws, other: Draws) -> Fraction:
    """One choice, or independent ones whose prices add up."""
    need = Fraction(0)
    for first, second in zip(one, other, strict=True):
        rate = _called([first], "permute_and_flip", rate=None)
        need += 2 * rate * max(map(abs, _moved([first], [second])))
    return need / event.epsilon


@_used.register
def _(event: ExponentialSelect, one: Draws, other: Draws) -> Fraction:
    """The range of a choice is that of the moves times the rate; those of independent choices add up."""
    need = Fraction(0)
    for first, second in zip(one, other, strict=True):
        if first.sampler == "select_exponential":
            assert event.rounds == 1
            rate = _called([first], "select_exponential", rate=None)
        else:
            rate = _called(one, "select_exponential_top_k", rate=None, k=event.rounds)
        moved = _moved([first], [second])
        need += rate * (max(moved) - min(moved))
    return need / event.range


def _called(draws: Draws, sampler: str, **expected: Any) -> Fraction:
    """The rate of the one call, which is of ``sampler`` with the ``expected`` settings; None expects any value."""
    (draw,) = draws
    found = dict(draw.settings)
    assert draw.sampler == sampler
    assert found.keys() == expected.keys()
    differing = {name: value for name, value in expected.items() if value is not None and found[name] != value}
    assert not differing, f"the event says {differing}, the sampler got {found}"
    return Fraction(found.get("rate", 0))


def _moved(one: Draws, other: Draws) -> list[int]:
    (first,), (second,) = one, other
    return [a - b for a, b in zip(first.vector, second.vector, strict=True)]
