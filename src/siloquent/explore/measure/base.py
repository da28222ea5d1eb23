"""The interface of every mechanism: a price without data, and one run on exact numbers at that price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cells.compiled import CompiledWorkload, SummedAttribute, WorkloadPart
from siloquent.explore.plan.reuse.reconstruction import Matrix
from siloquent.explore.spec.query import Kind
from siloquent.explore.spec.stored_measurement import Form
from siloquent.maths.strategies.sparse import Sparse
from siloquent.privacy import Event

Integers = NDArray[np.int64]
Affords = Callable[[Event], bool]
LARGEST_VALUE = 2**60
LARGEST_DEVIATION = 2**25
SAFE = 2**62
_HALVINGS = 60
_BITS = 13
SCALE_BITS, VARIANCE_BITS = 34, 20
"""The number of binary digits after the point of a drawable scale and of a variance."""


@dataclass(frozen=True, slots=True)
class ErrorRequirement:
    """A promise in grid steps: an error of ``m`` or more (alpha = ``alpha`` steps) has probability at most ``beta``.

    ``threshold``: icq reports values above it (whole steps). ``k``: that of tcq; ``sign`` is -1 for the k smallest.
    ``joint``: both kinds of error of an icq or tcq are promised together; ``beta``, which is for each, is half of that.
    ``affords``: for a query with a BUDGET, whether it covers an event; the noise is then the least within the budget.
    """

    kind: Kind
    alpha: Fraction
    m: int
    beta: float
    threshold: int = 0
    k: int = 0
    sign: int = 1
    joint: bool = False
    affords: Affords | None = None

    @property
    def together(self) -> float:
        """The miss rate for distributions covering both kinds of error at once. Proof: docs/explanation/planner.md."""
        return 2 * self.beta if self.joint else self.beta

    @property
    def two_sided(self) -> bool:
        """Whether errors in both directions count."""
        return self.kind == "wcq"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The release of one run: ``values`` and their ``event``, which may cost less than the planned one."""

    values: Integers
    event: Event


Run = Callable[[CompiledWorkload, list[Integers]], Outcome]


@dataclass(frozen=True, slots=True, eq=False)
class PricedMechanism:
    """A mechanism with fixed parameters, before any data.

    ``event`` is the worst case of a run; ``least`` the best case of an ex-post mechanism, if it is one.
    ``run`` takes the compiled workload and each part's exact folded numbers, and returns what may be released.
    ``reusable``: the released numbers are linear measurements.
    """

    name: str
    form: Form
    event: Event
    run: Run
    reusable: bool
    calibration: str = "exact"
    strategy: tuple[Matrix, ...] = ()
    least: Event | None = None


def sharpen_noise(
    largest: Fraction,
    event_of: Callable[[Fraction], Event],
    affords: Affords | None,
    *,
    bits: int = SCALE_BITS,
    least: Fraction = Fraction(0),
) -> Fraction:
    """Return the least noise that a budget covers, where the promise allows ``largest``; less noise keeps it too.

    Args:
        largest: A scale or a variance.
        event_of: The event for a parameter; its cost decreases as the parameter grows.
        affords: None without a budget; then, and if the budget does not cover ``largest``, ``largest`` is returned.
        bits: The number of binary digits after the point that are drawable.
        least: The least parameter for which the promise is proved.
    Returns:
        A parameter within one part in 2^13 of the least, at most ``largest``.
    """
    if affords is None or not affords(event_of(largest)):
        return largest
    high = largest
    for _ in range(_HALVINGS):
        if high / 2 < least or not affords(event_of(high / 2)):
            break
        high /= 2
    places = min(max(_BITS - math.floor(math.log2(high / 2)), 0), bits)
    low, top = max(math.floor(high / 2 * 2**places), 0), math.floor(high * 2**places)
    if top * Fraction(1, 2**places) < high and not (top and affords(event_of(Fraction(top, 2**places)))):
        return high if high == largest else min(Fraction(top + 1, 2**places), largest)
    while top - low > 1:
        middle = (low + top) // 2
        found = Fraction(middle, 2**places)
        low, top = (low, middle) if found >= least and affords(event_of(found)) else (middle, top)
    return min(Fraction(top, 2**places), largest)


def sum_units(summed: SummedAttribute, part: WorkloadPart, index_sums: Integers, counts: Integers) -> Integers:
    """Sum a part's columns exactly, each rounded to the nearest unit, shape (columns,).

    One row of value v changes a column by at most v / quantum units, rounded up: by ``summed.largest``.

    Args:
        index_sums: Sums of indices, shape (cells of the part's block,).
        counts: The numbers of rows in them.
    """
    # Sums of 2^31 rows of 2^48 steps exceed 64 bits, and an overflow would break the guarantee.
    total = float(np.abs(index_sums.astype(np.float64)).sum()) + (abs(summed.offset) + 1) * float(counts.sum())
    kind = np.int64 if total < SAFE else object
    exact = part.fold(index_sums.astype(kind) + summed.offset * counts.astype(kind))
    return np.asarray((exact + summed.quantum // 2) // summed.quantum, dtype=np.int64)


def multiply_clipped(matrix: NDArray[np.signedinteger[Any]] | Sparse, x: Integers) -> Integers:
    """Compute ``matrix @ x`` without overflow, each entry clipped to +-2^60.

    Clipping never increases the distance of two results, so it costs no privacy; and no error reveals a large number.
    """
    if isinstance(matrix, Sparse):
        exact = matrix.apply(x)
    else:
        largest = int(np.abs(matrix).sum(axis=1, dtype=np.int64).max(initial=0)) * max(int(np.abs(x).max(initial=0)), 1)
        exact = matrix @ x if largest < SAFE else matrix.astype(object) @ x.astype(object)
    return np.asarray(np.clip(exact, -LARGEST_VALUE, LARGEST_VALUE), dtype=np.int64)


def compute_answers(compiled: CompiledWorkload, columns: list[Integers]) -> Integers:
    """Compute the exact answers W x of a workload, clipped to +-2^60, shape (answers,)."""
    total = np.zeros(compiled.answers, dtype=np.int64)
    for part, x in zip(compiled.parts, columns, strict=True):
        # Each answer belongs to one part, so this sum cannot overflow.
        if part.weights is not None:
            total += multiply_clipped(part.weights, x)
        elif part.running:
            kind = np.int64 if float(np.abs(x.astype(np.float64)).sum()) < SAFE else object
            total += np.clip(np.cumsum(x.astype(kind)), -LARGEST_VALUE, LARGEST_VALUE).astype(np.int64)
        else:
            total += np.clip(x, -LARGEST_VALUE, LARGEST_VALUE)
    return total
