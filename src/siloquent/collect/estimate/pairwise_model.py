"""Counts under more conditions than any layer covers together: maximum entropy over pairs of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from siloquent.collect.spec.query import Box
from siloquent.errors import RequestError
from siloquent.maths.local.max_entropy import MAX_CONDITIONS, compute_conjunction_probability

if TYPE_CHECKING:
    from siloquent.collect.estimate.linear import ReportTables


@dataclass(frozen=True, slots=True)
class ModelledCount:
    """A count, its standard error from the pairs' own errors, and the number of reports it rests on."""

    value: float
    error: float
    reports: int


def estimate_modelled_count(tables: ReportTables, box: Box) -> ModelledCount:
    """Estimate the rows in ``box`` from all pairs of its conditions.

    Raises:
        RequestError: more than 12 conditions, or a pair that no layer covers together.
    """
    columns = list(box.masks)
    if len(columns) > MAX_CONDITIONS:
        raise RequestError(f"A query takes conditions on at most {MAX_CONDITIONS} attributes.")
    rows = tables.compute_moments([Box({})], None, tables.find_covering([])).count
    single, error, reports = np.zeros(len(columns)), np.zeros(len(columns)), 0
    pairs = np.zeros((len(columns),) * 2)
    errors = np.zeros_like(pairs)
    for i, column in enumerate(columns):
        found = tables.compute_moments([Box({column: box.masks[column]})], None, tables.find_covering([column]))
        single[i], error[i] = found.count / rows, np.sqrt(found.variance_count) / rows
    for i, j in combinations(range(len(columns)), 2):
        sets = tables.find_covering([columns[i], columns[j]])
        if not sets:
            raise RequestError(
                f"No layer covers both {columns[i]} and {columns[j]}.",
                fix="join the services whose attributes are named",
            )
        chosen = {columns[k]: box.masks[columns[k]] for k in (i, j)}
        found = tables.compute_moments([Box(chosen)], None, sets)
        pairs[i, j], errors[i, j] = found.count / rows, np.sqrt(found.variance_count) / rows
        reports += found.reports
    value = compute_conjunction_probability(single, pairs)
    squares = 0.0
    for i in range(len(columns)):
        moved = single.copy()
        moved[i] += error[i]
        squares += (compute_conjunction_probability(moved, pairs) - value) ** 2
    for i, j in combinations(range(len(columns)), 2):
        changed = pairs.copy()
        changed[i, j] += errors[i, j]
        squares += (compute_conjunction_probability(single, changed) - value) ** 2
    return ModelledCount(value * rows * box.sign, float(np.sqrt(squares)) * rows, min(reports, tables.users))
