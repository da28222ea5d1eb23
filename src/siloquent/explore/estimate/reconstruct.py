"""Rows of an answer from a measurement, a workload and a promise; no data, no noise, the same every time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from siloquent.errors import LedgerError
from siloquent.explore.plan.compiled import Compiled
from siloquent.explore.plan.reconstruction import PARTS_OF_A_STEP, reconstructions
from siloquent.explore.spec.measured import Measured
from siloquent.explore.spec.query import Query, Sum


@dataclass(frozen=True, slots=True)
class Estimate:
    """Columns and rows for people; ``notes`` say what to know about them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


def reconstruct(query: Query, compiled: Compiled, measured: Measured, *, alpha: Fraction) -> Estimate:
    """The answer's rows.

    wcq: key values, value, low, high for every declared group (filtered or sorted for free where asked); icq: the
    reported groups; tcq: the top groups in order.

    Raises:
        LedgerError: the measurement does not belong to the workload.
    """
    if measured.form == "chosen":
        ids = list(measured.values)
        _require(all(0 <= i < compiled.answers for i in ids))
        return Estimate(_keys(compiled), tuple(compiled.labels[i] for i in ids))
    values = _values(compiled, measured)
    if query.kind == "icq":
        assert query.having is not None
        passed = [i for i in range(compiled.answers) if _passes(query, values[i])]
        return Estimate(_keys(compiled), tuple(compiled.labels[i] for i in passed))
    if query.kind == "tcq":
        return Estimate(_keys(compiled), tuple(compiled.labels[i] for i in _top(query, values)))
    return _with_intervals(query, compiled, values, alpha)


def _require(holds: bool) -> None:
    if not holds:
        raise LedgerError("A stored answer does not belong to this question.", fix="siloquent ledger verify")


def _keys(compiled: Compiled) -> tuple[str, ...]:
    return compiled.keys or ("all",)


def _values(compiled: Compiled, measured: Measured) -> list[Fraction]:
    """The answers in value units: multiples of the grid, or of a small part of it where they were reconstructed."""
    if measured.form == "answers":
        _require(len(measured.values) == compiled.answers)
        return [value * compiled.grid for value in measured.values]
    _require([matrix.shape[1] for matrix in measured.strategy] == [part.columns for part in compiled.parts])
    backs = reconstructions(compiled, measured.strategy)
    _require(backs is not None and len(measured.values) == sum(len(matrix) for matrix in measured.strategy))
    assert backs is not None
    values = np.hstack(backs) @ np.array(measured.values, dtype=np.float64)
    return [Fraction(round(value * PARTS_OF_A_STEP), PARTS_OF_A_STEP) * compiled.grid for value in values.tolist()]


def _passes(query: Query, value: Fraction) -> bool:
    assert query.having is not None
    limit = Fraction(query.having.threshold)
    return value > limit if query.having.op == ">" else value >= limit


def _top(query: Query, values: list[Fraction]) -> list[int]:
    assert query.top is not None
    sign = -1 if query.top.largest else 1
    return sorted(range(len(values)), key=lambda i: (sign * values[i], i))[: query.top.k]


def _with_intervals(query: Query, compiled: Compiled, values: list[Fraction], alpha: Fraction) -> Estimate:
    chosen = list(range(compiled.answers))
    if query.having is not None:
        chosen = [i for i in chosen if _passes(query, values[i])]
    if query.top is not None:
        chosen = _top(query, values)
    name = query.alias or (f"sum_{compiled.attribute}" if isinstance(query.aggregate, Sum) else "count")
    rows = tuple((*compiled.labels[i], *_interval(values[i], alpha)) for i in chosen)
    return Estimate((*compiled.keys, name, "low", "high"), rows)


def _interval(value: Fraction, alpha: Fraction) -> tuple[int | float, int | float, int | float]:
    """value, low, high; whole where they are whole. The ends are rounded outwards, so that the interval still holds."""
    low, high = value - alpha, value + alpha
    if value.denominator == alpha.denominator == 1:
        return int(value), int(low), int(high)
    return float(value), _float_below(low), -_float_below(-high)


def _float_below(value: Fraction) -> float:
    """The largest float that is not above ``value``."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
