"""Bought rates at which pairs of rows break soft constraints: whole numbers of bounded sensitivity, with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.pairs.counting import count_violating_pairs
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.measure.selection import add_vector_noise
from siloquent.synth.spec.compiled import CompiledConstraint
from siloquent.synth.spec.measurements import NoisyCounts

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.synth.plan.budget import VectorNoise

STEPS = 200
"""A rate is counted in steps of 1 / (STEPS x the public number of rows)."""


def compute_scaled_rate(pairs: int, rows: int, least: int) -> int:
    """Return ``pairs`` broken pairs among ``rows`` rows as a whole number: floor(200 L V / C(max(n, L), 2)).

    Args:
        least: L, public and at least 2.
    Privacy:
        None: exact. Adding, removing or replacing a row changes it by at most 400. Proof: docs/explanation/synth.md.
    """
    return STEPS * least * pairs // math.comb(max(rows, least), 2)


def measure_rates(
    table: PrivateTable,
    permit: Permit,
    *,
    attributes: Sequence[str],
    constraints: Sequence[CompiledConstraint],
    least: int,
    noise: VectorNoise,
) -> list[NoisyCounts]:
    """Return the noisy scaled rates of soft constraints over two rows, with ``least`` itself as the last entry.

    Raises:
        NotAllowed, DataError: As ``PrivateTable.read_rows``.
    Privacy:
        ``noise.event``: each number changes by at most 400 for every row that a unit changes.
    """
    rows = _read_inside(table, permit, attributes)
    codes = {name: rows[:, place] for place, name in enumerate(attributes)}
    exact = [
        compute_scaled_rate(count_violating_pairs(build_pair_rule(one.form, codes, len(rows))), len(rows), least)
        for one in constraints
        if one.form is not None
    ]
    shown = add_vector_noise(np.array(exact, dtype=np.int64), noise)
    names = tuple(str(one.number) for one in constraints)
    return [NoisyCounts("rates", names, np.append(shown, least), noise.variance)]


def _read_inside(table: PrivateTable, permit: Permit, attributes: Sequence[str]) -> NDArray[np.int64]:
    """Read the rows that are never OUTSIDE, as cells, shape (rows, attributes): the same that all marginals count."""
    batches = [
        np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
        for batch in table.read_rows(list(attributes), permit, encoded=True)
    ]
    rows = np.concatenate(batches) if batches else np.zeros((0, len(attributes)), dtype=np.int64)
    return rows[(rows >= 0).all(axis=1)]
