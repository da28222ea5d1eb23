"""MinHash: the least hash of a set's elements, for kernels of sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh.families import Jaccard, Kernel, Power, is_of_sets

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Tokens = NDArray[np.uint32]

_LANES = 64


@dataclass(frozen=True, slots=True, eq=False)
class MinHashes:
    """R hash functions of sets, each to ``width`` buckets; ``seed`` and ``odd`` have shape (components, R)."""

    seed: Tokens
    odd: Tokens
    width: int

    @property
    def rows(self) -> int:
        """R."""
        return int(self.seed.shape[1])

    @property
    def is_exact(self) -> bool:
        """Whether different minima never share a bucket: false, they do."""
        return False

    def take_every(self, start: int, step: int) -> MinHashes:
        """Return only rows start, start + step, ... ."""
        return MinHashes(self.seed[:, start::step], self.odd[:, start::step], self.width)

    @property
    def bits(self) -> int:
        """log2 of the width."""
        return self.width.bit_length() - 1

    def pad_lanes(self) -> tuple[Tokens, Tokens]:
        """Return seeds and factors padded to a whole number of lanes; the padding is never read."""
        more = -self.rows % _LANES
        seed, odd = (np.pad(part, ((0, 0), (0, more)), constant_values=1) for part in (self.seed, self.odd))
        return np.ascontiguousarray(seed), np.ascontiguousarray(odd)

    def compute_buckets(self, tokens: Tokens, ends: Integers) -> Integers:
        """Return the bucket of each set in each row, shape (sets, R); -1 for empty sets."""
        from siloquent.maths.lsh import compiled

        found = np.empty((len(ends) - 1, self.rows), dtype=np.int64)
        compiled.fill_set_buckets(tokens, ends, *self.pad_lanes(), self.bits, found)
        return found


def draw_minhashes(kernel: Kernel, *, rows: int, seed: int, width: int) -> MinHashes:
    """Draw R hash functions of ``Jaccard`` or a power of it.

    Raises:
        ValueError: Another kernel, or a width that is not a power of two.
    """
    if not is_of_sets(kernel):
        raise ValueError(f"{type(kernel).__name__} is not a kernel of sets")
    if width < 2 or width & (width - 1):
        raise ValueError(f"width must be a power of two, at least 2, not {width}")
    random = np.random.default_rng(seed)
    shape = (_count_codes(kernel), rows)
    drawn = random.integers(0, 2**32, (2, *shape), dtype=np.uint32)
    return MinHashes(drawn[0], drawn[1] | np.uint32(1), width)


def _count_codes(kernel: Kernel) -> int:
    if isinstance(kernel, Power):
        return kernel.times * _count_codes(kernel.kernel)
    assert isinstance(kernel, Jaccard)
    return 1


def hash_ids(ids: Integers, *, key: int) -> Tokens:
    """Map declared ids to scattered 32-bit tokens, bijectively below 2^32: consecutive ids leave no structure."""
    h = (ids.astype(np.uint64) + np.uint64(key & 0xFFFFFFFF)).astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    return h ^ (h >> np.uint32(16))


def count_sets(
    hashes: MinHashes,
    tokens: Tokens,
    ends: Integers,
    classes: Integers,
    *,
    class_count: int = 1,
    hits: int | None = None,
    words: NDArray[np.uint64] | None = None,
) -> Integers:
    """Count sets, shape (classes, R, width); set i holds ``tokens[ends[i]:ends[i + 1]]``; empty ones are skipped.

    Args:
        hits, words: As ``count_sparse``; None: every set counts in every row.
    """
    from siloquent.maths.lsh import compiled

    counters = np.zeros((class_count, hashes.rows, hashes.width), dtype=np.int64)
    if hits is None or words is None:
        compiled.count_all_sets(tokens, ends, classes, *hashes.pad_lanes(), hashes.bits, counters)
    else:
        compiled.count_some_sets(tokens, ends, classes, words, hits, *hashes.pad_lanes(), hashes.bits, counters)
    return counters


def compute_set_sums(hashes: MinHashes, counters: Integers, tokens: Tokens, ends: Integers) -> tuple[Floats, Floats]:
    """Return, for each queried set, the sums of its cells over rows, and of their squares; both (classes, sets)."""
    from siloquent.maths.lsh import compiled

    sums, squares = (np.zeros((len(counters), len(ends) - 1)) for _ in range(2))
    compiled.look_up_sets(tokens, ends, *hashes.pad_lanes(), hashes.bits, counters, sums, squares)
    return sums, squares
