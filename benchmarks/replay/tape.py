"""Keeps what every noise call of a release got and gave, and makes the calls of a second release give the same.

The functions at the noise floor are replaced, so the product's own path runs, from rows to what is released.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from siloquent.data import PrivateTable
from siloquent.federation import measure as federated
from siloquent.privacy import noise
from siloquent.privacy.noise import distributed
from siloquent.sketch import measure as sketch_measure
from siloquent.sketch.measure import CountBatch
from siloquent.synth.measure import chain

Array = NDArray[Any]
ADDITIVE = ("add_laplace", "add_gaussian", "add_geometric")
CHOOSING = ("permute_and_flip", "select_exponential", "select_exponential_top_k")
READING = ("count_by_cell", "sum_by_cell", "measure_together", "count_units_by_group", "fold", "read_rows")
FAR = 2**40


class Differs(AssertionError):
    """Neighbours are told apart by the number, order or shape of calls."""


@dataclass(slots=True, eq=False)
class Call:
    """One call at the noise floor: exact numbers in, parameters, what came out."""

    name: str
    exact: Array
    settings: dict[str, Any]
    given: Any = None

    @property
    def form(self) -> tuple[Any, ...]:
        """All of the call that must be the same for neighbours."""
        return self.name, self.exact.shape, tuple(sorted(self.settings.items()))


_told: list[int] = []


def sum_terms(honest: int) -> None:
    """Note, of the secure sum that a release is part of, how many shares of noise are surely hidden in it."""
    _told.append(honest)


@dataclass(slots=True, eq=False)
class Tape:
    """The calls of one release, and what it read.

    Attributes:
        first: The release whose noise outputs are given again.
        stops: Of each noise chain of ``first``, the last look that was paid for: later looks are drawn otherwise.
        side: Where those later looks lie, +1 or -1.
    """

    first: Tape | None = None
    stops: list[int] = field(default_factory=list)
    side: int = 1
    calls: list[Call] = field(default_factory=list)
    reads: list[tuple[str, str]] = field(default_factory=list)
    rates: list[Fraction] = field(default_factory=list)
    honest: int | None = None

    def __call__(self, name: str, exact: Array, settings: dict[str, Any], draw: Callable[[], Any]) -> Any:
        """Note a call; what it gives is drawn, or what the first release got."""
        call = Call(name, np.array(exact, copy=True), settings)
        before = self._before(call)
        self.calls.append(call)
        call.given = draw() if before is None else before.given
        return np.array(call.given) if isinstance(call.given, np.ndarray) else call.given

    def chain(self, exact: Array, scales: tuple[Fraction, ...], drawn: Array) -> Array:
        """Note the numbers that a noise chain was added to: noisy numbers, shape (looks, k)."""
        call = Call("draw_noise_chain", np.array(exact, copy=True), {"scales": scales})
        before = self._before(call)
        self.calls.append(call)
        if before is None:
            call.given = exact + drawn
        else:
            assert self.first is not None
            number = sum(one.name == "draw_noise_chain" for one in self.calls) - 1
            call.given = np.array(before.given)
            call.given[self.stops[number] + 1 :] += self.side * FAR
        return np.array(call.given)

    def _before(self, call: Call) -> Call | None:
        if self.first is None:
            return None
        if len(self.calls) >= len(self.first.calls):
            raise Differs(f"one more call: {call.form}")
        before = self.first.calls[len(self.calls)]
        if before.form != call.form:
            raise Differs(f"{before.form} / {call.form}")
        return before


class _Chain(np.ndarray[Any, Any]):
    """A noise chain that keeps the numbers it is added to."""

    def __radd__(self, exact: Any) -> Any:
        return self.tape.chain(np.asarray(exact), self.scales, self.view(np.ndarray))  # type: ignore[attr-defined]

    __add__ = __radd__


@contextmanager
def recorded(tape: Tape) -> Iterator[Tape]:
    """All noise calls and all reads of rows go over ``tape``."""
    _told.clear()
    with ExitStack() as stack:

        def put(place: Any, name: str, made: Any) -> None:
            stack.enter_context(patch.object(place, name, made))

        def over(real: Callable[..., Any], name: str) -> Callable[..., Any]:
            return lambda exact, **settings: tape(name, np.asarray(exact), settings, lambda: real(exact, **settings))

        for name in (*ADDITIVE, *CHOOSING):
            put(noise, name, over(getattr(noise, name), name))
        for name in ("add_laplace", "add_gaussian"):
            if hasattr(federated, name):
                put(federated, name, getattr(noise, name))
        for name in ("add_laplace_share", "add_gaussian_share"):
            put(distributed, name, over(getattr(distributed, name), name))
        put(chain, "add_gaussian", over(noise.additive.add_gaussian, "sampled_gaussian"))
        put(chain, "draw_coins", _coins(tape))
        put(noise, "draw_words", _words)
        put(sketch_measure, "CountBatch", CoupledCountBatch)
        put(noise, "draw_noise_chain", _chains(tape, noise.draw_noise_chain))
        for name in READING:
            put(PrivateTable, name, _read(tape, name, getattr(PrivateTable, name)))
        yield tape
    tape.honest = _told[0] if _told else None
    if tape.first is not None and len(tape.calls) != len(tape.first.calls) and sys.exc_info()[0] is None:
        raise Differs(f"{len(tape.first.calls)} / {len(tape.calls)} noise calls")


def _chains(tape: Tape, real: Callable[..., Array]) -> Callable[..., Array]:
    def noise_chain(size: int, *, scales: tuple[Fraction, ...]) -> Array:
        found = real(size, scales=scales).view(_Chain)
        found.tape, found.scales = tape, scales  # type: ignore[attr-defined]
        return found

    return noise_chain


def _coins(tape: Tape) -> Callable[..., Array]:
    """Every row is in every sample: a coupling under which the one row that differs is there each time."""

    def coins(weight: Any, *, size: int) -> NDArray[np.bool_]:
        tape.rates.append(Fraction(weight.enclose(64)[0], 2**64))
        return np.ones(size, dtype=np.bool_)

    return coins


def _words(count: int) -> NDArray[np.uint64]:
    """The rows of a sketch that count a record: the same word for all, so that order and number do not matter."""
    return np.full(count, 0x9E3779B97F4A7C15, dtype=np.uint64)


class CoupledCountBatch(CountBatch):
    """The kernel of a sketch, which draws the same word for all records, also in another process, as on Spark."""

    def __call__(self, batch: Any) -> NDArray[np.int64]:
        with patch.object(noise, "draw_words", _words):
            return super().__call__(batch)


def _read(tape: Tape, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def read(table: PrivateTable, *given: Any, **named: Any) -> Any:
        if sys._getframe(1).f_globals["__name__"] != PrivateTable.__module__:  # counts are folds inside
            tape.reads.append((name, repr([_plain(one) for one in (*given, *named.values())])))
        return real(table, *given, **named)

    return read


def _plain(value: Any) -> Any:
    """A read's argument without what is random (permits) and without addresses in memory."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "blocks"):
        return _plain([*value.blocks, value.summed])
    if hasattr(value, "attributes") and hasattr(value, "shape"):
        return tuple(value.attributes), tuple(value.shape)
    return value if isinstance(value, (str, int, bool)) else type(value).__name__
