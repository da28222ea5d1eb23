"""How often pairs of rows break soft constraints, bought: whole numbers of bounded change, with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.pairs import violating_pairs
from siloquent.synth.estimate.keep_counts import pair_rule
from siloquent.synth.measure.selection import noisy
from siloquent.synth.spec.compiled import CompiledConstraint
from siloquent.synth.spec.measured import Noisy

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.synth.plan.budget import Noise

STEPS = 200
"""A rate is counted in steps of 1 / (STEPS x the public number of rows)."""


def scaled_rate(pairs: int, rows: int, least: int) -> int:
    """``pairs`` broken pairs among ``rows`` rows as a whole number: floor(200 L V / C(max(n, L), 2)).

    Args:
        least: L, public and at least 2.
    Privacy:
        None: exact. A row that comes, goes or is replaced changes it by at most 400. Proof: docs/explanation/synth.md.
    """
    return STEPS * least * pairs // math.comb(max(rows, least), 2)


def measured_rates(
    table: PrivateTable,
    permit: Permit,
    *,
    attributes: Sequence[str],
    constraints: Sequence[CompiledConstraint],
    least: int,
    noise: Noise,
) -> list[Noisy]:
    """The noisy scaled rates of soft constraints over two rows, and in the last place ``least`` itself.

    Raises:
        NotAllowed, DataError: As ``PrivateTable.rows``.
    Privacy:
        ``noise.event``: each number changes by at most 400 for every row that a unit changes.
    """
    rows = _inside(table, permit, attributes)
    codes = {name: rows[:, place] for place, name in enumerate(attributes)}
    exact = [
        scaled_rate(violating_pairs(pair_rule(one.form, codes, len(rows))), len(rows), least)
        for one in constraints
        if one.form is not None
    ]
    shown = noisy(np.array(exact, dtype=np.int64), noise)
    names = tuple(str(one.number) for one in constraints)
    return [Noisy("rates", names, np.append(shown, least), noise.variance)]


def _inside(table: PrivateTable, permit: Permit, attributes: Sequence[str]) -> NDArray[np.int64]:
    """The rows that are OUTSIDE nowhere, as cells, shape (rows, attributes): the same that all marginals count."""
    batches = [
        np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
        for batch in table.rows(list(attributes), permit, encoded=True)
    ]
    rows = np.concatenate(batches) if batches else np.zeros((0, len(attributes)), dtype=np.int64)
    return rows[(rows >= 0).all(axis=1)]
