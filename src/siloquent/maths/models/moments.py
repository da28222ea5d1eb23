"""Moments of the first and second order in whole numbers, and the linear models that follow from them.

(count, sums, second moments) form a semi-ring: tables over the same records add up, products of independent parts
follow from them. Arrays in, arrays out; the caller adds noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.sensitivity.joint import JointRelease
from siloquent.maths.sensitivity.record_pairs import RecordPairs

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

QUANTA = 127
"""The number of whole steps from 0 to the ball's radius: sums of products are exact doubles for 2^39 records."""
_LEAST = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Of records z with d numbers: ``count``, ``sums`` (d,), ``second`` (d, d), symmetric; exact or noisy."""

    count: float
    sums: Floats
    second: Floats

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both tables' records together."""
        return Moments(self.count + other.count, self.sums + other.sums, self.second + other.second)

    def __mul__(self, other: Moments) -> Moments:
        """Return the moments of all pairs of a record here and one there, with their numbers concatenated."""
        a, b = self, other
        cross = np.outer(a.sums, b.sums)
        second = np.block([[b.count * a.second, cross], [cross.T, a.count * b.second]])
        return Moments(a.count * b.count, np.concatenate([b.count * a.sums, a.count * b.sums]), second)


def round_into_ball(scaled: Floats, radius: float, quanta: int = QUANTA) -> Integers:
    """Return records as whole numbers of length at most ``quanta``, shape (records, d); longer ones are shortened.

    Args:
        scaled: Numbers in -1..1, shape (records, d).
        radius: The length that is mapped to ``quanta``.
    """
    lengths = np.sqrt((scaled**2).sum(axis=1))
    # Rounding towards zero makes no record longer.
    factor = quanta / np.maximum(lengths, radius)
    return np.asarray(np.trunc(scaled * factor[:, None]), dtype=np.int64)


def compute_moments(whole: Integers) -> tuple[int, Integers, Integers]:
    """Return count, sums (d,) and second moments (d, d) of whole records, exactly."""
    second = whole.astype(np.float64).T @ whole.astype(np.float64)
    return len(whole), np.asarray(whole.sum(axis=0), dtype=np.int64), second.astype(np.int64)


def build_joint_release(
    numbers: int,
    radius: float,
    *,
    records: int = 1,
    replaced: bool = False,
    quanta: int = QUANTA,
    chosen: int = 0,
    pairs: RecordPairs | None = None,
) -> JointRelease:
    """Return the sensitivity of count, sums and second moments of records from ``round_into_ball`` to one unit.

    Args:
        numbers: The most non-zero numbers of a record; the columns of ``chosen`` of them depend on the record.
        radius: Each number of a record lies in -1..1; longer records are shortened to it.
        pairs: All possible records, if they are few.
    """
    # A number becomes trunc(quanta / radius) at most, by the same division as in ``round_into_ball``.
    corner = math.trunc(quanta / radius)
    longest = min(quanta**2, numbers * corner**2)
    return JointRelease(
        longest=longest if pairs is None else pairs.longest,
        replaced=replaced,
        records=records,
        one_place=True,
        numbers=numbers,
        chosen=chosen,
        cut=radius < math.sqrt(numbers),
        pairs=pairs,
    )


def fit_linear_model(moments: Moments, *, deviation: float, intercept: bool = True) -> tuple[Floats, float]:
    """Return weights and intercept that predict the last number from the others, shape (d - 1,), all in whole steps.

    Args:
        deviation: Of the noise on one entry; 0 for exact moments. It sets the ridge, so that noise cannot inflate a
            weight: the noise's largest eigenvalue is below 2 deviation sqrt(d) with near certainty.
    Source:
        "Revisiting Differentially Private Linear Regression" (UAI 2018), AdaSSP: a ridge only as large as the shortfall
        of the least eigenvalue. We take the eigenvalue from the same noisy matrix, at no cost.
    """
    count = max(moments.count, 1.0)
    if intercept:
        mean = moments.sums / count
        centred = moments.second - count * np.outer(mean, mean)
    else:
        mean, centred = np.zeros_like(moments.sums), moments.second
    A, b = centred[:-1, :-1], centred[:-1, -1]
    values, vectors = np.linalg.eigh(A)
    floor = 2 * deviation * math.sqrt(len(b)) + _LEAST * max(float(np.abs(values).max(initial=0.0)), 1.0)
    ridge = max(0.0, floor - float(values[0])) if deviation else 0.0
    weights = vectors @ ((vectors.T @ b) / np.maximum(values + ridge, floor))
    return np.asarray(weights), float(mean[-1] - mean[:-1] @ weights)


def scale_to_unit(places: Integers, steps: tuple[int, ...]) -> NDArray[np.float64]:
    """Scale cells over their declared ranges to -1..1, shape (records, d)."""
    return np.asarray(2 * places / np.maximum(np.array(steps) - 1, 1) - 1)
