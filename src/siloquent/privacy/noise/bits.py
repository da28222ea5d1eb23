"""Random bits from the operating system only: no seed, no state that outlives one call.

A sampler reads its bits in order, as 32-bit words. A fork copies no unread words, because every public function creates
its own :class:`RandomBits` (or its own array of words) and drops it at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

#: The source of random bytes: takes a number and returns that many bytes. Only tests replace ``os.urandom``.
Source = Callable[[int], bytes]


def draw_words(count: int, *, source: Source = os.urandom) -> NDArray[np.uint64]:
    """Draw ``count`` independent, uniform 64-bit words, shape (count,)."""
    words = np.frombuffer(source(8 * count), dtype=np.uint64)
    return words.copy()  # frombuffer is read-only


def draw_half_words(count: int, *, source: Source = os.urandom) -> NDArray[np.uint32]:
    """Draw ``count`` independent, uniform 32-bit words, shape (count,), for the samplers."""
    words = np.frombuffer(source(4 * count), dtype=np.uint32)
    return words.copy()


class RandomBits:
    """A stream of random 32-bit words.

    Args:
        source: The source of fresh words.
        words: Words to read before any fresh one.
    """

    __slots__ = ("_source", "_words")

    CHUNK = 128  # number of fresh words fetched at a time

    def __init__(self, source: Source = os.urandom, words: Iterable[int] = ()) -> None:
        self._source = source
        self._words = list(words)[::-1]

    def take_word(self) -> int:
        """Return the next 32 bits as an integer in [0, 2^32)."""
        if not self._words:
            self._words = draw_half_words(self.CHUNK, source=self._source).tolist()[::-1]
        return self._words.pop()

    def take(self, count: int) -> int:
        """Return ``count`` bits as an integer in [0, 2^count), from an even number of words, high words first."""
        taken = 0
        for _ in range(-(-count // 64)):
            taken = taken << 64 | self.take_word() << 32 | self.take_word()
        return taken & ((1 << count) - 1)

    def list_unread(self) -> NDArray[np.uint32]:
        """Return the words that were fetched but not read."""
        return np.array(self._words[::-1], dtype=np.uint32)
