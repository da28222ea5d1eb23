"""The samplers of ``reference``, compiled: only 64-bit integer arithmetic, bits read in the same order.

Numba is imported with this module, so callers import it inside the functions that need it. All compiled functions are
in this one file, because Numba's disk cache notices changes only of the file itself, not of its imports.

A compiled function cannot request words from the operating system, so it reads from an array. If the array is
exhausted, the function returns to the start of the current draw and reports ``SHORT``; the caller appends fresh words,
and the same bits are read again. The result equals that of one endless stream. A draw that 64 bits cannot hold
(probability below e^-60), or whose coin one word cannot decide (2^-32), reports ``BEYOND`` in the same way, and the
caller repeats it from the same bits in Python.

``place`` = [words read, status, step of the current selection].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba import boolean, int64, uint32
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
Words = NDArray[np.uint32]
Integers = NDArray[np.int64]

READY, SHORT, BEYOND = 0, 1, 2
GEOMETRIC, LAPLACE, GAUSSIAN = 0, 1, 2

#: Consecutive successes of one coin after which Python takes over.
RUN = 2048
#: As in ``reference``: one word suffices for a uniform number below SMALL.
SMALL = 2**26
MASK = 2**32 - 1
#: The first 32 binary digits of exp(-1); a test compares them with interval arithmetic.
E32 = 1580030168
#: Products are checked against this, so that a sum of two of them stays below 2^63.
ROOM = 2**62

_WORDS, _PLACE, _LAW, _VALUES = uint32[::1], int64[::1], int64[::1], int64[::1]


def compile_kernel(signature: Any) -> Callable[[F], F]:
    """Return a decorator that compiles now, for one signature, using the disk cache if possible.

    Numba keeps its cache next to this file, or else in the user's cache folder. If neither is writable (a read-only
    image without a home folder) it refuses to create the function, so we compile without a cache: slower to start, same
    distribution. A shared temporary folder is not an alternative, since anyone who can write there could plant code.
    """

    def make(function: F) -> F:
        try:
            made: F = numba.njit(signature, cache=True, nogil=True, forceinline=True)(function)
        except RuntimeError:
            made = numba.njit(signature, nogil=True, forceinline=True)(function)
        return made

    return make


@compile_kernel(int64(_WORDS, _PLACE))
def _next(words: Words, place: Integers) -> int:
    """Return the next 32 bits; 0 and SHORT if the words are exhausted."""
    at = place[0]
    if at >= words.size:
        place[1] = SHORT
        return 0
    place[0] = at + 1
    drawn: int = int64(words[at])
    return drawn


@compile_kernel(int64(int64, int64, _WORDS, _PLACE))
def _below(n: int, width: int, words: Words, place: Integers) -> int:
    """Draw uniformly in [0, n); ``width`` = bit length of n - 1.

    Returns a value below n even without words, so loops end.
    """
    if n == 1:
        return 0
    if n <= SMALL:
        while True:
            product = _next(words, place) * n
            part = product & MASK
            if part >= n or part >= (MASK + 1) % n or place[1] != READY:
                return product >> 32
    mask = (1 << width) - 1
    while True:
        drawn = (_next(words, place) << 32 | _next(words, place)) & mask
        if drawn < n:
            return drawn


@compile_kernel(boolean(_WORDS, _PLACE))
def _bernoulli_e(words: Words, place: Integers) -> bool:
    """Draw a coin of exp(-1). One word decides, except for one of its 2^32 values, where Python reads more digits."""
    drawn = _next(words, place)
    if drawn == E32:
        place[1] = BEYOND
    return drawn < E32 and place[1] == READY


@compile_kernel(boolean(int64, int64, int64, _WORDS, _PLACE))
def _bernoulli_exp_unit(a: int, d: int, width: int, words: Words, place: Integers) -> bool:
    """Draw a coin of exp(-a/d) for 0 <= a <= d; ``width`` = bit length of d - 1."""
    k = 1
    while True:
        if d <= SMALL and d * k <= SMALL:
            if _below(d * k, 0, words, place) >= a:
                break
        elif _below(k, 0, words, place) != 0 or _below(d, width, words, place) >= a:
            break
        if place[1] != READY:
            return False
        k += 1
        if k == RUN:
            place[1] = BEYOND
            return False
    return (k & 1) == 1 and place[1] == READY


@compile_kernel(boolean(int64, _WORDS, _PLACE))
def _run(length: int, words: Words, place: Integers) -> bool:
    """Return whether ``length`` coins of e^-1 are all heads."""
    for _ in range(length):  # noqa: SIM110 (generators do not compile)
        if not _bernoulli_e(words, place):
            return False
    return True


@compile_kernel(boolean(int64, int64, int64, _WORDS, _PLACE))
def _bernoulli_exp(a: int, d: int, width: int, words: Words, place: Integers) -> bool:
    """Draw a coin of exp(-a/d) for a >= 0."""
    if a <= d:
        return _bernoulli_exp_unit(a, d, width, words, place)
    whole = a // d
    return _run(whole, words, place) and _bernoulli_exp_unit(a - whole * d, d, width, words, place)


@compile_kernel(int64(_LAW, _WORDS, _PLACE))
def _magnitude(law: Integers, words: Words, place: Integers) -> int:
    """Draw a geometric magnitude of scale t / s; ``law`` as in ``_draw_one``."""
    t, width = law[1], law[2]
    low = _below(t, width, words, place)
    while not _bernoulli_exp_unit(low, t, width, words, place):
        if place[1] != READY:
            return 0
        low = _below(t, width, words, place)
    high = 0
    while _bernoulli_e(words, place):
        high += 1
        if high == RUN:
            place[1] = BEYOND
            return 0
    # (low + t high) // s without the product t high: t = (t // s) s + t % s. Here low < 2^60 and (t % s) high < 2^61,
    # so their sum stays below 2^62; and (t // s) high < 2^61, so the result stays below 2^63.
    size: int = law[4] * high + (low + law[5] * high) // law[3]
    return size


@compile_kernel(int64(_LAW, _WORDS, _PLACE))
def _draw_one(law: Integers, words: Words, place: Integers) -> int:
    """Draw one value of ``law`` = [kind, t, width of t, s, t // s, t % s, g, h, m, f, width of f, largest |Y|]."""
    while True:
        size = _magnitude(law, words, place)
        if law[0] == GEOMETRIC or place[1] != READY:
            return size
        negative = _next(words, place) & 1 == 1
        kept = not (negative and size == 0)  # otherwise zero would have two chances
        if kept and law[0] == GAUSSIAN:
            if size > law[11]:
                place[1] = BEYOND
                return 0
            distance = size * law[6] - law[7]
            kept = _bernoulli_exp(distance * distance * law[8], law[9], law[10], words, place)
        if kept or place[1] != READY:
            return -size if negative else size


@compile_kernel(int64(_VALUES, int64, _LAW, _WORDS, _PLACE))
def add(values: Integers, start: int, law: Integers, words: Words, place: Integers) -> int:
    """Add draws to ``values[start:]`` in place; return the first index not done.

    |value| <= 2^60 and |draw| < 2^60 + 2^61 + 2^50: the sum stays below 2^62.4.
    """
    for i in range(start, values.size):
        read = place[0]
        drawn = _draw_one(law, words, place)
        if place[1] != READY:
            place[0] = read
            return i
        values[i] += drawn
    return values.size


@compile_kernel(int64(_VALUES, int64, _VALUES, _VALUES, boolean, _LAW, _WORDS, _PLACE))
def select(
    chosen: Integers,
    start: int,
    gaps: Integers,
    order: Integers,
    again: bool,
    law: Integers,
    words: Words,
    place: Integers,
) -> int:
    """Fill ``chosen[start:]`` with selections among ``gaps`` >= 0; return the first index not done.

    A candidate is accepted with probability exp(-gap numerator / denominator). ``again``: a rejected one may be
    drawn again (exponential mechanism), otherwise not (permute-and-flip). ``order`` is any permutation of the
    candidates, since uniform swaps make any order uniform.
    ``law`` = [numerator, denominator, width of the denominator, largest gap]; gap x numerator <= 2^62 up to the last.
    """
    n = gaps.size
    while start < chosen.size:
        step = place[2]
        read = place[0]
        at = step + _below(n - step, 0, words, place)  # at most 2^26 candidates: no width needed
        gap = gaps[order[at]]
        if gap <= law[3]:
            accepted = _bernoulli_exp(gap * law[0], law[1], law[2], words, place)
        else:  # more than RUN coins of e^-1 must come up heads; if these do, Python takes over
            accepted = _run(RUN, words, place)
            if accepted:
                place[1] = BEYOND
        if place[1] != READY:
            place[0] = read
            return start
        if accepted:
            chosen[start] = order[at]
            start += 1
            place[2] = 0
        elif not again:
            order[at], order[step] = order[step], order[at]
            place[2] = step + 1
    return start
