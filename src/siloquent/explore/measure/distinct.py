"""Exact numbers for COUNT(DISTINCT a): the units of each group, or its values that occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siloquent.explore.plan.cells.compiled import CompiledWorkload, DistinctUnits, DistinctValues, Integers

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit


def count_distinct(
    compiled: CompiledWorkload, distinct: DistinctUnits | DistinctValues, table: PrivateTable, permit: Permit
) -> Integers:
    """Count the units, or the values that occur, of each answer, shape (answers,).

    Privacy:
        Exact, hence only for this stage. One unit changes the numbers by at most ``compiled.sensitivity``. Proof:
        docs/explanation/distinct.md.
    """
    (part,) = compiled.parts
    if isinstance(distinct, DistinctUnits):
        is_bounded = distinct.groups_each < compiled.answers
        each = distinct.groups_each if is_bounded else None
        return table.count_units_by_group(part.block, distinct.groups, compiled.answers, permit, groups_each=each)
    (cells,) = table.count_by_cell([part.block], permit)
    occurs = part.fold(cells).reshape(compiled.answers, distinct.values) > 0
    return np.asarray(occurs.sum(axis=1), dtype=np.int64)
