"""Drawing of hash functions from a public seed, as whole numbers.

A row's code of a record is ``(A . k + B) >> t`` for the record's cells k, in whole numbers below 2^53: int64 loops and
float64 matrix products then give the same codes everywhere. Kernels with tuples as codes have several components.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.lsh.families import Angular, Hamming, Kernel, Laplacian, Power, Product, PStable, Surrogate

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Buckets = Literal["range", "bits", "hash"]
Projections = Literal["sobol", "iid"]

SIGN = 62
"""The shift that leaves only a number's sign: -1 or 0."""
LARGEST = 2**53
MAX_SHIFT = 30
MAX_SOBOL = 64
LINES = 4
"""The number of attributes that compiled loops take at a time."""
_CAUCHY, _NORMAL = 2.0**24, 2.0**4


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """The attributes' cells: the number ``steps`` of each, and kernel units of its first cell and of one step; (d,)."""

    steps: Integers
    lo: Floats
    grid: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Hashes:
    """R hash functions, each to buckets 0..width-1.

    ``A`` (R, m, e), ``B`` and ``shift`` (R, m): component c of row r is ``(A[r, c] . k + B[r, c]) >> shift[r, c]``.
    If ``column[r, c]`` >= 0, the component reads only that attribute, and only A[r, c, 0] counts.
    ``bucket``: "range": code - low[r]; "bits": the components' last bits; "hash": a mix of all components and key[r].
    """

    A: Floats
    B: Floats
    shift: Integers
    column: Integers
    low: Integers
    key: NDArray[np.uint64]
    bucket: Buckets
    width: int

    @property
    def rows(self) -> int:
        """R."""
        return len(self.A)

    @property
    def is_exact(self) -> bool:
        """Whether different codes never share a bucket."""
        return self.bucket != "hash"

    def require_within(self, steps: Integers) -> None:
        """Validate hash functions from a file: every record with cells below ``steps`` has a bucket in each row.

        Compiled loops rely on this: otherwise numbers in a file could make them access memory out of bounds.

        Raises:
            ValueError: Numbers are not whole or too large, refer to another attribute, or lead beyond the buckets.
        """
        if not (np.rint(self.A) == self.A).all() or not (np.rint(self.B) == self.B).all():
            raise ValueError("projections are not whole")
        d, full, single = len(steps), self.column < 0, self.column >= 0
        wide = -(-d // LINES) * LINES if full.any() else 1
        if self.column.min() < -1 or self.column.max() >= d or self.A.shape[2] < wide:
            raise ValueError("projections name another attribute")
        ends = np.zeros(self.A.shape[2])
        ends[: min(d, len(ends))] = steps[: len(ends)] - 1
        reach = np.where(full[..., None], self.A * ends, 0.0)
        reach[..., 0] += np.where(single, self.A[..., 0] * (steps[np.maximum(self.column, 0)] - 1), 0.0)
        if (np.abs(reach).sum(axis=2) + np.abs(self.B) >= LARGEST).any():
            raise ValueError("projections are too large")
        if self.bucket == "range":
            if self.A.shape[1] != 1 or (full.any() and single.any()):
                raise ValueError("a range of codes has one component")
            low, high = (np.clip(reach, *side).sum(axis=2) + self.B for side in ((None, 0), (0, None)))
            first, last = ((end.astype(np.int64) >> self.shift)[:, 0] - self.low for end in (low, high))
            if first.min() < 0 or last.max() >= self.width:
                raise ValueError("codes lie beyond the buckets")
        elif self.width & (self.width - 1) or (self.bucket == "bits" and self.width != 2 ** self.A.shape[1]):
            raise ValueError("the width does not fit")

    def take_every(self, start: int, step: int) -> Hashes:
        """Return only rows start, start + step, ... ."""
        chosen = slice(start, None, step)
        parts = {name: getattr(self, name)[chosen] for name in ("A", "B", "shift", "column", "low", "key")}
        return replace(self, **parts)

    def compute_buckets(self, places: Integers | Floats) -> Integers:
        """Return the bucket of each record in each row; ``places`` (records, d) -> (records, R)."""
        from siloquent.maths.lsh import compiled

        found = np.empty((self.rows, len(places)), dtype=np.int64)
        compiled.fill_buckets(pack_columns(places), *self.list_arrays(), found)
        return found.T

    def list_arrays(self) -> tuple[Floats, Floats, Integers, Integers, Integers, NDArray[np.uint64], int, int]:
        """Return the arguments of compiled loops, in their order."""
        mode = ("range", "bits", "hash").index(self.bucket)
        return self.A, self.B, self.shift, self.column, self.low, self.key, mode, self.width


def pack_columns(places: Integers | Floats) -> Floats:
    """Return cells as compiled loops read them: a line of doubles an attribute, zero-padded to a multiple of four."""
    columns = np.zeros((-(-places.shape[1] // LINES) * LINES, len(places)))
    columns[: places.shape[1]] = places.T
    return columns


def draw_hashes(
    kernel: Kernel,
    axes: Axes,
    *,
    rows: int,
    seed: int,
    width: int | None,
    projections: Projections = "sobol",
) -> Hashes:
    """Draw R hash functions of ``kernel`` over cells.

    Args:
        seed: Public; the same one gives the same functions in this version of numpy. Files keep the drawn numbers.
        width: Buckets a row, a power of two; None: as many as there are codes, if these are a range or bits.
        projections: "sobol": rows are spread evenly (scrambled Sobol points; each row has the right distribution, so
            means stay unbiased); "iid": independent rows.
    Raises:
        ValueError: ``rows`` is not a power of two with "sobol", ``width`` is not, or codes do not fit the kernel.
        TooNarrow: Codes would pass 2^53.
    Source:
        "Quasi-Monte Carlo Feature Maps for Shift-Invariant Kernels" (ICML 2014) spreads random features this way.
    """
    if width is not None and (width < 2 or width & (width - 1)):
        raise ValueError(f"width must be a power of two, at least 2, not {width}")
    random = np.random.default_rng(seed)
    needed = count_uniforms(kernel, len(axes.steps))
    if projections == "sobol" and needed <= MAX_SOBOL:
        uniform = _draw_sobol(random, rows, needed)
    else:
        uniform = random.random((rows, needed))
    drawn = _DrawnHashes(rows, axes, np.clip(uniform, 2.0**-32, 1 - 2.0**-32), random)
    for part in _iter_components(kernel):
        drawn.add(part)
    return drawn.finish(kernel, width)


def _draw_sobol(random: np.random.Generator, rows: int, needed: int) -> Floats:
    from scipy.stats import qmc

    if rows & (rows - 1):
        raise ValueError(f"Sobol projections need a number of rows that is a power of two, not {rows}")
    points: Floats = qmc.Sobol(needed, scramble=True, rng=random).random(rows)
    return points


def _iter_components(kernel: Kernel) -> Iterator[Kernel]:
    """Iterate over the simple kernels whose codes form the tuple."""
    if isinstance(kernel, Power):
        for _ in range(kernel.times):
            yield from _iter_components(kernel.kernel)
    elif isinstance(kernel, Product):
        for part in kernel.kernels:
            yield from _iter_components(part)
    else:
        yield kernel


def count_uniforms(kernel: Kernel, d: int) -> int:
    """Return the number of uniform numbers that one hash function of ``d`` attributes takes."""
    return sum(_count_uniforms(part, d) for part in _iter_components(kernel))


def _count_uniforms(kernel: Kernel, d: int) -> int:
    if isinstance(kernel, PStable):
        return d + 1
    if isinstance(kernel, Laplacian):
        return 2 * d
    if isinstance(kernel, Angular | Surrogate):
        return kernel.bits * d
    if isinstance(kernel, Hamming):
        return kernel.bits
    raise ValueError(f"{type(kernel).__name__} compares sets, which have no places")


class TooNarrow(ValueError):
    """A kernel whose codes pass 2^53 over the domain."""


class _DrawnHashes:
    """Components under construction: real coefficients first, whole numbers at the end."""

    def __init__(self, rows: int, axes: Axes, uniform: Floats, random: np.random.Generator) -> None:
        self.rows, self.axes, self.uniform, self.random = rows, axes, uniform, random
        self.used = 0
        self.parts: list[tuple[Floats, Floats, Integers, Integers]] = []

    def take(self, count: int) -> Floats:
        """Return the next ``count`` uniform numbers of every row, shape (rows, count)."""
        self.used += count
        return self.uniform[:, self.used - count : self.used]

    def add(self, kernel: Kernel) -> None:
        d = len(self.axes.steps)
        if isinstance(kernel, PStable):
            from scipy.special import ndtri

            u = self.take(d)
            a = ndtri(u) if kernel.order == 2 else np.clip(np.tan(math.pi * (u - 0.5)), -_CAUCHY, _CAUCHY)
            self._require_room(kernel, _NORMAL if kernel.order == 2 else _CAUCHY)
            scaled = a * self.axes.grid / kernel.bandwidth
            self._add_affine(scaled, self.take(1)[:, 0])
        elif isinstance(kernel, Laplacian):
            from scipy.special import gammaincinv

            for j in range(d):
                u = self.take(2)
                pitch = np.maximum(kernel.sigma * gammaincinv(2.0, u[:, 0]), self.axes.grid[j] * 2.0**-20)
                self._add_affine((self.axes.grid[j] / pitch)[:, None], u[:, 1], column=np.full(self.rows, j))
        elif isinstance(kernel, Angular | Surrogate):
            from scipy.special import ndtri

            for _ in range(kernel.bits):
                a = ndtri(self.take(d))
                self._add_sign(a * self.axes.grid, a @ self.axes.lo)
        elif isinstance(kernel, Hamming):
            for _ in range(kernel.bits):
                column = np.minimum((self.take(1)[:, 0] * d).astype(np.int64), d - 1)
                one = np.ones((self.rows, 1))
                self.parts.append((one, np.zeros(self.rows), np.zeros(self.rows, dtype=np.int64), column))

    def _require_room(self, kernel: PStable, most: float) -> None:
        """Refuse a bandwidth by the largest factor that could be drawn, so that no seed decides."""
        with np.errstate(over="ignore"):
            reach = most * float((self.axes.grid * self.axes.steps).sum() / np.float64(kernel.bandwidth))
        if not reach + float(self.axes.steps.sum()) + 5 < LARGEST:
            raise TooNarrow("the bandwidth is too small for the declared ranges")

    def _add_affine(self, a: Floats, b: Floats, *, column: Integers | None = None) -> None:
        """Add a component floor(a . k + b), b uniform in [0, 1): its distribution does not depend on where k begins."""
        steps = self.axes.steps.astype(np.float64) if column is None else self.axes.steps[column][:, None]
        with np.errstate(over="ignore"):
            reach = (np.abs(a) * steps).sum(axis=1) + 1
        if not (reach + float(self.axes.steps.sum()) + 4 < LARGEST).all():
            raise TooNarrow("the bandwidth is too small for the declared ranges")
        # |rint(2^t a) k + rint(2^t b)| + 2^t < 2^53 for every k of the domain, with half a unit of rounding each.
        room = (LARGEST - float(self.axes.steps.sum()) - 2) / (reach + 1)
        shift = np.clip(np.floor(np.log2(np.maximum(room, 1))), 0, MAX_SHIFT).astype(np.int64)
        scale = 2.0**shift
        whole = np.rint(a * scale[:, None]), np.rint(b * scale)
        none = np.full(self.rows, -1, dtype=np.int64)
        self.parts.append((*whole, shift, none if column is None else column))

    def _add_sign(self, a: Floats, b: Floats) -> None:
        """Add a component that is the sign of a . k + b; the scale is free, so it is the largest that fits."""
        reach = (np.abs(a) * self.axes.steps).sum(axis=1) + np.abs(b)
        scale = 2.0 ** np.floor(np.log2((LARGEST - float(self.axes.steps.sum()) - 2) / np.maximum(reach, 1e-300)) - 1)
        whole = np.rint(a * scale[:, None]), np.rint(b * scale)
        shift, none = (np.full(self.rows, value, dtype=np.int64) for value in (SIGN, -1))
        self.parts.append((*whole, shift, none))

    def finish(self, kernel: Kernel, width: int | None) -> Hashes:
        wide = max(1 if column[0] >= 0 else -(-a.shape[1] // LINES) * LINES for a, _, _, column in self.parts)
        A = np.zeros((self.rows, len(self.parts), wide))
        for c, (a, *_) in enumerate(self.parts):
            A[:, c, : a.shape[1]] = a
        B = np.stack([part[1] for part in self.parts], axis=1)
        shift, column = (np.stack([part[i] for part in self.parts], axis=1).astype(np.int64) for i in (2, 3))
        key = self.random.integers(0, 2**64, self.rows, dtype=np.uint64)
        low = np.zeros(self.rows, dtype=np.int64)
        made = Hashes(A, B, shift, column, low, key, "hash", width or 0)
        if width is not None:
            return made
        if isinstance(kernel, Angular | Surrogate):
            return replace(made, bucket="bits", width=2**kernel.bits)
        if len(self.parts) > 1 or (isinstance(kernel, PStable) and kernel.order == 1):
            raise ValueError("the codes of this kernel are not a range: give a width")
        a = self.parts[0][0]
        reach = a * (self.axes.steps - 1 if column[0, 0] < 0 else self.axes.steps[column[:, :1]] - 1)
        ends = [(np.clip(reach, *side).sum(axis=1) + B[:, 0]).astype(np.int64) for side in ((None, 0), (0, None))]
        low, high = (end >> shift[:, 0] for end in ends)
        return replace(made, bucket="range", low=low, width=max(2, int((high - low).max()) + 1))
