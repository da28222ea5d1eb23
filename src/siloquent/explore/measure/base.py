"""What every mechanism offers: a price without data, and one run on exact numbers against that price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.compiled import CompiledWorkload, SummedAttribute, WorkloadPart
from siloquent.explore.plan.reconstruction import Matrix
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
"""Binary digits after the point that samplers take of a scale, and of a variance."""


@dataclass(frozen=True, slots=True)
class ErrorRequirement:
    """A promise in grid steps: an error of ``m`` or more (alpha = ``alpha`` steps) happens with ``beta`` at most.

    ``threshold``: icq reports what is above it (whole steps). ``k``: tcq's; ``sign`` is -1 for the k smallest.
    ``joint``: both kinds of error of an icq or tcq are promised together; ``beta``, which is for each, is half of that.
    ``affords``: of a question with a BUDGET, whether it pays for an event; the noise is then the least that it buys.
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
        """The miss rate for laws that cover both kinds of error at once. Proof: docs/explanation/planner.md."""
        return 2 * self.beta if self.joint else self.beta

    @property
    def two_sided(self) -> bool:
        """Whether an error counts to either side."""
        return self.kind == "wcq"


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one run releases: ``values``, and the ``event`` that this is, which may cost less than the planned one."""

    values: Integers
    event: Event


Run = Callable[[CompiledWorkload, list[Integers]], Outcome]


@dataclass(frozen=True, slots=True, eq=False)
class PricedMechanism:
    """A mechanism with its parameters fixed, before any data.

    ``event`` is the worst that a run releases; ``least`` the best that an ex-post one can turn out to be, if it is one.
    ``run`` takes the compiled workload and the exact folded numbers of each part, and returns what may be released.
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
    """The least noise that a budget pays for, where the promise allows ``largest``: less noise keeps it as well.

    Args:
        largest: A scale or a variance.
        event_of: What is released with one; it costs less the larger that is.
        affords: None without a budget; then, and where not even ``largest`` is paid for, it stays.
        bits: So many binary digits after the point are drawn.
        least: Below it the promise was not proved.
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
    """Exact sums of a part's columns, each rounded to the nearest unit, shape (columns,).

    One row of value v moves a column by v / quantum units, rounded up, at most: by ``summed.largest``.

    Args:
        index_sums: Sums of places, shape (cells of the part's block,).
        counts: How many rows they add up.
    """
    # Sums of 2^31 rows of 2^48 steps pass 64 bits, and a number that wrapped round would break the guarantee.
    total = float(np.abs(index_sums.astype(np.float64)).sum()) + (abs(summed.offset) + 1) * float(counts.sum())
    kind = np.int64 if total < SAFE else object
    exact = part.fold(index_sums.astype(kind) + summed.offset * counts.astype(kind))
    return np.asarray((exact + summed.quantum // 2) // summed.quantum, dtype=np.int64)


def multiply_clipped(matrix: NDArray[np.signedinteger[Any]] | Sparse, x: Integers) -> Integers:
    """``matrix @ x`` without overflow, each entry cut to +-2^60.

    Cutting moves no two results further apart, so it costs no privacy; and no error can tell that a number was large.
    """
    if isinstance(matrix, Sparse):
        exact = matrix.apply(x)
    else:
        largest = int(np.abs(matrix).sum(axis=1, dtype=np.int64).max(initial=0)) * max(int(np.abs(x).max(initial=0)), 1)
        exact = matrix @ x if largest < SAFE else matrix.astype(object) @ x.astype(object)
    return np.asarray(np.clip(exact, -LARGEST_VALUE, LARGEST_VALUE), dtype=np.int64)


def compute_answers(compiled: CompiledWorkload, columns: list[Integers]) -> Integers:
    """The exact answers W x of a workload, cut to +-2^60, shape (answers,)."""
    total = np.zeros(compiled.answers, dtype=np.int64)
    for part, x in zip(compiled.parts, columns, strict=True):
        # Each answer belongs to one part, so adding up overflows nothing.
        if part.weights is not None:
            total += multiply_clipped(part.weights, x)
        elif part.running:
            kind = np.int64 if float(np.abs(x.astype(np.float64)).sum()) < SAFE else object
            total += np.clip(np.cumsum(x.astype(kind)), -LARGEST_VALUE, LARGEST_VALUE).astype(np.int64)
        else:
            total += np.clip(x, -LARGEST_VALUE, LARGEST_VALUE)
    return total
