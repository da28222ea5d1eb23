"""Vectors of draws: plain Python for few, compiled for many, with the same distribution and the same use of bits."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.noise import reference
from siloquent.privacy.noise.bits import RandomBits, Source, draw_half_words
from siloquent.privacy.noise.distributions import GaussianDistribution, MagnitudeDistribution

T = TypeVar("T")
Kind = Literal["geometric", "laplace", "gaussian"]

#: This many draws in plain Python, of 2 to 4 microseconds each, take as long as loading the compiled samplers.
WORTH_LOADING = 100_000
#: Once these are loaded, one call of theirs takes as long as this many draws in plain Python.
FEW = 16
_COMPILED = "siloquent.privacy.noise.kernels"
_drawn = 0  # number of draws of this process in plain Python, before it loaded the compiled samplers
#: int64 is the answer's type. Clipping a sum to it is post-processing, so it costs no privacy; it happens with a
#: probability below e^-2048.
_LOW, _HIGH = -(2**63), 2**63 - 1


def add_draws(
    values: NDArray[np.int64],
    kind: Kind,
    law: MagnitudeDistribution | GaussianDistribution,
    *,
    source: Source = os.urandom,
) -> NDArray[np.int64]:
    """Return a copy of ``values`` (any shape) plus one independent draw of ``law`` per entry."""
    noisy = values.flatten()
    if are_few(noisy.size):
        bits = RandomBits(source)
        for i, value in enumerate(noisy.tolist()):
            noisy[i] = _clip(value + draw_one(kind, law, bits))
    else:
        _add_compiled(noisy, kind, law, source)
    return noisy.reshape(values.shape)


def are_few(count: int) -> bool:
    """Return whether ``count`` more are drawn in plain Python. Depends only on how many were drawn so far.

    A process loads the compiled samplers once it has spent the same time without them: at most twice the optimum,
    however long it lives. A command that draws a few thousand does not wait half a second.
    """
    global _drawn
    if _COMPILED in sys.modules:
        return count <= FEW
    _drawn += count
    return _drawn <= WORTH_LOADING


def draw_one(kind: Kind, law: MagnitudeDistribution | GaussianDistribution, bits: RandomBits) -> int:
    """Return one draw in plain Python."""
    if isinstance(law, GaussianDistribution):
        return reference.sample_gaussian(law, bits)
    return reference.sample_laplace(law, bits) if kind == "laplace" else reference.sample_magnitude(law, bits)


@dataclass(slots=True)
class WordBuffer:
    """The words that a compiled sampler reads, and its position in them (see ``kernels``)."""

    source: Source
    words: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    place: NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, dtype=np.int64))

    def refill(self, count: int) -> None:
        """Append ``count`` fresh words to the unread ones, so that the sampler can continue."""
        self._restart(np.concatenate([self.words[self.place[0] :], draw_half_words(count, source=self.source)]))

    def run_in_python(self, step: Callable[[RandomBits], T]) -> T:
        """Run ``step`` on the words from the current position; the sampler may then continue after them."""
        bits = RandomBits(self.source, self.words[self.place[0] :].tolist())
        result = step(bits)
        self._restart(bits.list_unread())
        return result

    def _restart(self, words: NDArray[np.uint32]) -> None:
        self.words, self.place[:2] = words, 0


def _add_compiled(
    noisy: NDArray[np.int64], kind: Kind, law: MagnitudeDistribution | GaussianDistribution, source: Source
) -> None:
    """Add draws in place."""
    # Numba takes 0.2 s to import and more to load its code, which is worthwhile only for many draws.
    from siloquent.privacy.noise import kernels

    feed, packed, done = WordBuffer(source), _pack_distribution(kind, law), 0
    while done < noisy.size:
        if feed.place[1] == kernels.BEYOND:
            value = int(noisy[done])
            noisy[done] = _clip(value + feed.run_in_python(lambda bits: draw_one(kind, law, bits)))
            done += 1
        else:
            # A draw takes 7 to 12 words; half a megabyte at a time stays in the processor's cache.
            feed.refill(min(8 * (noisy.size - done) + 64, 2**17))
        done = kernels.add(noisy, done, packed, feed.words, feed.place)


def _pack_distribution(kind: Kind, law: MagnitudeDistribution | GaussianDistribution) -> NDArray[np.int64]:
    """Return ``law`` in the form that the compiled samplers read (see ``kernels._one``)."""
    from siloquent.privacy.noise import kernels

    base = law.proposal if isinstance(law, GaussianDistribution) else law
    code = {"geometric": kernels.GEOMETRIC, "laplace": kernels.LAPLACE, "gaussian": kernels.GAUSSIAN}[kind]
    head = [code, base.t, (base.t - 1).bit_length(), base.s, base.t // base.s, base.t % base.s]
    if isinstance(law, GaussianDistribution):
        # (|Y| g - h)^2 m <= ROOM for every |Y| up to the last entry (h^2 m <= ROOM as well: h^2 m <= n d or n^2).
        farthest = math.isqrt(kernels.ROOM // law.m)
        head += [law.g, law.h, law.m, law.f, (law.f - 1).bit_length(), (farthest + law.h) // law.g]
    return np.array(head, dtype=np.int64)


def _clip(value: int) -> int:
    return min(max(value, _LOW), _HIGH)
