"""Bulk reports of single devices: sets and hashed values, drawn exactly as a device draws them one at a time.

A report is read from a stream of 64-bit words. ``collect/measure/device.py`` reads the same words in the same order, in
plain Python; a test checks that equal words give equal reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.privacy.checks import build_refusal, require_int64, require_whole
from siloquent.privacy.noise.bits import Source, draw_words

Words = NDArray[np.uint64]
MAX_BITS = 128
CHUNK = 1 << 16
SYSTEM: Source = os.urandom
"""The source of a device's bits; only tests and repeatable simulations pass another source."""


@dataclass(frozen=True, slots=True)
class SetDistribution:
    """A set of ``size`` out of ``nodes`` nodes; it contains the true one for ``truth`` of 2^64 words."""

    nodes: int
    size: int
    truth: int

    def __post_init__(self) -> None:
        require_whole("number of nodes", self.nodes, least=2, most=MAX_BITS)
        require_whole("size of a set", self.size, least=1, most=self.nodes - 1)
        require_whole("threshold", self.truth, least=1, most=2**64 - 1)


@dataclass(frozen=True, slots=True)
class HashDistribution:
    """A hash function onto ``size`` buckets and a bucket: the true one for ``truth`` of 2^64 words."""

    nodes: int
    size: int
    truth: int

    def __post_init__(self) -> None:
        require_whole("number of nodes", self.nodes, least=2, most=2**30)
        require_whole("number of buckets", self.size, least=2, most=2**20)
        require_whole("threshold", self.truth, least=1, most=2**64 - 1)


def draw_sets(nodes: NDArray[np.int64], law: SetDistribution, *, source: Source = SYSTEM) -> NDArray[np.uint64]:
    """Draw a set for each of ``nodes`` (n,), as 128 bits: shape (n, 2), node j is bit j % 64 of column j // 64.

    Privacy:
        Local, pure epsilon-DP in each node, with e^epsilon = (p / w) (k - w) / (1 - p), p = truth / 2^64.
    """
    _check(nodes, law.nodes)
    from siloquent.privacy.noise import local_kernels as kernels

    found = np.zeros((nodes.size, 2), dtype=np.uint64)
    expected = 1 + (law.size * 2 * 128) // (8 * 64)

    def step(start: int, words: Words) -> tuple[int, int]:
        done: tuple[int, int] = kernels.fill_sets(nodes, start, law.nodes, law.size, np.uint64(law.truth), words, found)
        return done

    _fill(step, nodes.size, expected, source)
    return found


def draw_hashes(nodes: NDArray[np.int64], law: HashDistribution, *, source: Source = SYSTEM) -> NDArray[np.int64]:
    """Draw a hash function and a bucket for each of ``nodes`` (n,): shape (n, 3), columns a, b, y.

    Privacy:
        Local, pure epsilon-DP in each node, with e^epsilon = p (g - 1) / (1 - p), p = truth / 2^64.
    """
    _check(nodes, law.nodes)
    from siloquent.privacy.noise import local_kernels as kernels

    found = np.zeros((nodes.size, 3), dtype=np.int64)

    def step(start: int, words: Words) -> tuple[int, int]:
        done: tuple[int, int] = kernels.fill_hashes(nodes, start, law.size, np.uint64(law.truth), words, found)
        return done

    _fill(step, nodes.size, 4, source)
    return found


def _check(nodes: NDArray[np.int64], size: int) -> None:
    exact = require_int64("nodes", nodes)
    if exact.size and not (exact.min() >= 0 and exact.max() < size):
        raise build_refusal(f"Nodes lie in [0, {size}).")


def _fill(step: Callable[[int, Words], tuple[int, int]], count: int, expected: int, source: Source) -> None:
    """Run a kernel to its end, adding fresh words whenever it needs them; unread words are used first."""
    done, words = 0, np.empty(0, dtype=np.uint64)
    while done < count:
        fresh = draw_words(min(count - done, CHUNK) * expected + 64, source=source)
        words = fresh if words.size == 0 else np.concatenate([words, fresh])
        done, read = step(done, words)
        words = words[read:]
