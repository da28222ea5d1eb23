"""Moments of records in a ball, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.models.moments import compute_moments, round_into_ball, scale_to_unit

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.sketch.plan.moments import MomentsPlan

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MomentBatch:
    """The kernel of a fold: records to count, sums and second moments, concatenated, shape (1 + d + d d,).

    ``low``, ``steps``: of each number, whose indices become -1 to 1 over its declared range.
    """

    names: tuple[str, ...]
    steps: tuple[int, ...]
    radius: float
    quanta: int

    def __call__(self, batch: pa.RecordBatch) -> Integers:
        columns = [np.asarray(batch.column(name).to_numpy(zero_copy_only=False)) for name in self.names]
        places = np.stack(columns, axis=1).astype(np.int64)
        places = places[(places >= 0).all(axis=1) & (places < np.array(self.steps)).all(axis=1)]
        whole = round_into_ball(scale_to_unit(places, self.steps), self.radius, self.quanta)
        count, sums, second = compute_moments(whole)
        return np.concatenate([[count], sums, second.ravel()])


def measure_moments(plan: MomentsPlan, table: PrivateTable, permit: Permit) -> tuple[Integers, Integers, Integers]:
    """Measure noisy count (1,), sums (d,) and symmetric second moments (d, d), in whole steps.

    Privacy:
        ``plan.event`` in the account's unit and adjacency: every record lies in a ball of integers, and count,
        sums and second moments each get noise, for the change of all of them by one unit. Proof:
        docs/explanation/sketch.md.
    """
    kernel = MomentBatch(plan.names, plan.steps, plan.radius, plan.quanta)
    exact = table.fold(kernel, np.add, list(plan.names), permit, encoded=True)
    d = len(plan.names)
    return add_moment_noise(plan, int(exact[0]), exact[1 : 1 + d], exact[1 + d :].reshape(d, d))


def add_moment_noise(
    plan: MomentsPlan, count: int, sums: Integers, second: Integers
) -> tuple[Integers, Integers, Integers]:
    """Add noise to exact moments; off-diagonal entries get half the variance, as the event's sensitivity counts them.

    Privacy:
        ``plan.event``, for the unit that ``plan`` was made for.
    """
    d = len(sums)
    upper = np.triu_indices(d, 1)
    first, middle, last = plan.parameters
    noisy = np.zeros((d, d), dtype=np.int64)
    noisy[upper] = _add_noise(plan, second[upper], last if plan.noise == "laplace" else last / 2)
    noisy += noisy.T
    noisy[np.diag_indices(d)] = _add_noise(plan, np.ascontiguousarray(np.diag(second)), last)
    return _add_noise(plan, np.array([count], dtype=np.int64), first), _add_noise(plan, sums, middle), noisy


def _add_noise(plan: MomentsPlan, values: Integers, parameter: Fraction) -> Integers:
    from siloquent.privacy.noise import add_gaussian, add_laplace

    exact = np.ascontiguousarray(values)
    if plan.noise == "gaussian":
        return add_gaussian(exact, variance=parameter)
    return add_laplace(exact, scale=parameter)
