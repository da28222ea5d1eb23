"""Quantiles from noisy ranks: the first value up to which the given share of rows lies. Free post-processing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from siloquent.errors import LedgerError
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.fixes import run
from siloquent.maths.strategies.base import reconstruct


def read_off(compiled: CompiledWorkload, measured: StoredMeasurement, share: Fraction) -> list[int]:
    """Return the index of each group's quantile.

    If no n(<= v) - share n is off by more than alpha, no rank is. Proof: docs/explanation/quantiles.md.

    Raises:
        LedgerError: the measurement does not belong to the workload.
    """
    groups, columns = compiled.answers, compiled.parts[0].columns
    matrix = measured.strategy[0] if len(measured.strategy) == 1 else None
    if not isinstance(matrix, np.ndarray) or matrix.shape != (len(measured.values), columns) or len(matrix) % groups:
        raise LedgerError("A stored answer does not belong to this query.", fix=run("ledger verify"))
    asked, values = len(matrix) // groups, columns // groups
    back = reconstruct(np.tril(np.ones((values, values))), matrix[:asked, :values])
    if back is None:
        raise LedgerError("A stored answer does not belong to this query.", fix=run("ledger verify"))
    noisy = np.array(measured.values, dtype=np.float64).reshape(groups, asked)
    upto = (
        np.rint(noisy @ back.T * PARTS_OF_A_STEP).astype(np.int64).astype(object)
    )  # exact from here on, for any number of rows
    reached = share.denominator * upto >= share.numerator * upto[:, -1:]
    reached[:, -1] = True
    return [int(place) for place in np.argmax(reached.astype(bool), axis=1)]
