"""Rows of an answer from a measurement, a workload and a guarantee: no data, no noise, always the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from siloquent.errors import LedgerError
from siloquent.explore.plan.cells.compiled import CompiledWorkload
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP, apply_reconstruction
from siloquent.explore.spec.aggregates import Distinct, Sum, name_column
from siloquent.explore.spec.query import Having, Query, Top
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.fixes import run

LARGEST_WHOLE_STEP = 2**12


@dataclass(frozen=True, slots=True)
class EstimatedRows:
    """Columns and rows for display; ``notes`` explain them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


def reconstruct(
    query: Query, compiled: CompiledWorkload, measured: StoredMeasurement, *, alpha: Fraction
) -> EstimatedRows:
    """Reconstruct the answer's rows.

    wcq: key values, value, low, high for every declared group (filtered or sorted for free on request); icq: the
    reported groups; tcq: the top groups in order.

    Raises:
        LedgerError: the measurement does not belong to the workload.
    """
    if query.kind != "wcq":
        return EstimatedRows(
            _list_key_names(compiled), tuple(compiled.labels[i] for i in select_reported(query, compiled, measured))
        )
    whole = are_whole(compute_step(compiled, measured), alpha)
    return _add_intervals(query, compiled, compute_values(compiled, measured), alpha, whole=whole)


def select_reported(query: Query, compiled: CompiledWorkload, measured: StoredMeasurement) -> list[int]:
    """Return the indices of the groups that an icq or tcq reports.

    Raises:
        LedgerError: the measurement does not belong to the workload.
    """
    if measured.form == "chosen":
        ids = list(measured.values)
        _require(all(0 <= i < compiled.answers for i in ids))
        return ids
    return apply_choice(query.having or query.top, compute_values(compiled, measured))


def apply_choice(choice: Having | Top | None, values: Sequence[Fraction]) -> list[int]:
    """Return the indices of the values that a choice selects; free, since the values were released."""
    places = range(len(values))
    if isinstance(choice, Having):
        limit = Fraction(choice.threshold)
        return [i for i in places if (values[i] > limit if choice.op == ">" else values[i] >= limit)]
    if isinstance(choice, Top):
        sign = -1 if choice.largest else 1
        return sorted(places, key=lambda i: (sign * values[i], i))[: choice.k]
    return list(places)


def _require(holds: bool) -> None:
    if not holds:
        raise LedgerError("A stored answer does not belong to this query.", fix=run("ledger verify"))


def _list_key_names(compiled: CompiledWorkload) -> tuple[str, ...]:
    return compiled.keys or ("all",)


def compute_values(compiled: CompiledWorkload, measured: StoredMeasurement) -> list[Fraction]:
    """Compute the answers in value units: multiples of the grid, or of a small part of it if reconstructed.

    Raises:
        LedgerError: the measurement does not belong to the workload.
    """
    if measured.form == "answers":
        _require(len(measured.values) == compiled.answers)
        return [value * compiled.grid for value in measured.values]
    if measured.form == "combined":
        _require(len(measured.estimate) == compiled.answers)
        return [Fraction(value, PARTS_OF_A_STEP) * compiled.grid for value in measured.estimate]
    _require([matrix.shape[1] for matrix in measured.strategy] == [part.columns for part in compiled.parts])
    values = apply_reconstruction(compiled, measured.strategy, np.array(measured.values, dtype=np.int64))
    _require(values is not None)
    assert values is not None
    step = compiled.grid / PARTS_OF_A_STEP
    parts = (round(value * PARTS_OF_A_STEP) for value in values.tolist())
    return [Fraction(part * step.numerator, step.denominator) for part in parts]


def compute_step(compiled: CompiledWorkload, measured: StoredMeasurement) -> Fraction:
    """Compute the step of the values: the workload's grid, or a small part of it if they were combined."""
    whole = measured.form in ("answers", "chosen")
    return compiled.grid if whole else compiled.grid / PARTS_OF_A_STEP


def are_whole(step: Fraction, alpha: Fraction) -> bool:
    """Return whether values and intervals are shown as integers: depends on their grid, never on the noise.

    Steps above 2^12 belong to sums that may exceed 64 bits.
    """
    return step.denominator == alpha.denominator == 1 and step <= LARGEST_WHOLE_STEP


def _add_intervals(
    query: Query, compiled: CompiledWorkload, values: list[Fraction], alpha: Fraction, *, whole: bool
) -> EstimatedRows:
    chosen = apply_choice(query.having or query.top, values)
    is_named = isinstance(query.aggregate, (Distinct, Sum))
    name = query.alias or (name_column(query.aggregate) if is_named else "count")
    rows = tuple((*compiled.labels[i], *_round_interval(values[i], alpha, whole=whole)) for i in chosen)
    return EstimatedRows((*compiled.keys, name, "low", "high"), rows)


def _round_interval(value: Fraction, alpha: Fraction, *, whole: bool) -> tuple[int | float, int | float, int | float]:
    """Do the same as ``round_for_display`` for value - alpha and value + alpha, without fractions, for many answers."""
    if whole:
        return round_for_display(value, value - alpha, value + alpha, whole=True)
    bottom = value.denominator * alpha.denominator
    middle, room = value.numerator * alpha.denominator, alpha.numerator * value.denominator
    return float(value), _divide_below(middle - room, bottom), -_divide_below(-middle - room, bottom)


def round_for_display(
    value: Fraction, low: Fraction, high: Fraction, *, whole: bool
) -> tuple[int | float, int | float, int | float]:
    """Return value, low, high as integers (``whole``) or floats. Ends are rounded outwards, so the interval holds."""
    if whole:
        return int(value), int(low), int(high)
    return float(value), round_down_to_float(low), -round_down_to_float(-high)


def round_down_to_float(value: Fraction) -> float:
    """Return the largest float that is not above ``value``."""
    return _divide_below(value.numerator, value.denominator)


def _divide_below(top: int, bottom: int) -> float:
    near = top / bottom
    over, under = near.as_integer_ratio()
    return near if over * bottom <= top * under else math.nextafter(near, -math.inf)
