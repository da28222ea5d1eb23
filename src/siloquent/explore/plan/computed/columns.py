"""The cells of one attribute as values: as declared, or through a function that is looked up for each cell."""

from __future__ import annotations

import math
from datetime import datetime
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.cuts import find_run_starts
from siloquent.explore.plan.cells.numbers import Values
from siloquent.explore.plan.cells.predicate_evaluation import evaluate_expression
from siloquent.explore.plan.computed.values import EPOCH, PlannedValue, require_fits
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.predicate import Expression
from siloquent.schema import Attribute
from siloquent.schema.computed import KNOWN, NULL, UNKNOWN, Cell, Lookup

Range = tuple[int, int]
_NEVER = -2


def plan_column(attribute: Attribute, cells: Range) -> PlannedValue:
    """Plan the value of ``attribute`` itself, of rows whose cells lie in ``cells``.

    Raises:
        RequestError: it has no cells.
    """
    if not attribute.is_countable:
        raise RequestError(
            f"Attribute {attribute.name!r} is of type {attribute.kind}: it cannot be used in a condition or an answer.",
            fix="use a derived attribute",
        )
    null = attribute.size - 1 if attribute.null == "cell" else _NEVER
    nullable = attribute.null == "cell"
    if attribute.kind == "category":
        return _plan_category(attribute)
    if attribute.kind == "boolean":
        return PlannedValue(Cell(attribute.name, 2, 0, 1, null), "truth", 0, 1, is_nullable=nullable)
    if attribute.is_numeric:
        step = Fraction(attribute.grid or 1)
        first, scale = int(Fraction(attribute.lo) / step), 1  # type: ignore[arg-type]
    else:
        step, scale = Fraction(1), int(attribute.grid or 1)
        assert isinstance(attribute.lo, datetime)
        first = int((attribute.lo - EPOCH).total_seconds())
    low, high = (first + scale * cell for cell in cells)
    require_fits(low, high, attribute.name)
    node = Cell(attribute.name, attribute.steps, first, scale, null)
    kind = {"date": "day", "datetime": "moment"}.get(attribute.kind, "number")
    return PlannedValue(node, kind, low, high, step, is_nullable=nullable)  # type: ignore[arg-type]


def _plan_category(attribute: Attribute) -> PlannedValue:
    texts = tuple(sorted(attribute.values))
    places = {text: place for place, text in enumerate(texts)}
    data = np.zeros(attribute.size + 1, dtype=np.int64)
    data[: attribute.steps] = [places[text] for text in attribute.values]
    states = _list_states(attribute, np.arange(attribute.size + 1), np.arange(attribute.size + 1) < attribute.steps)
    node = Lookup(attribute.name, attribute.size, np.arange(attribute.size + 1), data, states)
    return PlannedValue(node, "text", 0, len(texts) - 1, texts=texts, is_nullable=attribute.null == "cell")


def _list_states(attribute: Attribute, cells: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int8]:
    """List the state of each cell: a declared value without a result is NULL, as a quotient by 0."""
    is_null = (cells < attribute.steps) | ((attribute.null == "cell") & (cells == attribute.size - 1))
    return np.where(known, KNOWN, np.where(is_null, NULL, UNKNOWN)).astype(np.int8)


def plan_table(expression: Expression, attribute: Attribute, cells: Range) -> PlannedValue:
    """Plan a function of one attribute by its value in each cell, or in each run of equal values.

    Raises:
        RequestError: types do not fit, or it changes too often to be looked up.
    """
    starts = np.arange(attribute.size + 1)
    if attribute.is_wide:
        starts = np.append(find_run_starts(expression, attribute), np.arange(attribute.steps, attribute.size + 1))
    values = evaluate_expression(expression, attribute, starts)
    states = _list_states(attribute, starts, values.known)
    ends = np.append(starts[1:], attribute.size + 1)
    possible = values.known & (starts <= cells[1]) & (ends > cells[0])
    data, step, texts = _number_values(values)
    data = np.where(values.known, data, 0)
    chosen = data[possible] if possible.any() else data[values.known]
    low, high = (int(chosen.min()), int(chosen.max())) if len(chosen) else (0, 0)
    require_fits(low, high, render_expression(expression))
    node = Lookup(attribute.name, attribute.size, starts.astype(np.int64), data, states)
    kind: Any = values.kind
    return PlannedValue(node, kind, low, high, step, texts, is_nullable=bool((states == NULL).any()))


def _number_values(values: Values) -> tuple[NDArray[np.int64], Fraction, tuple[str, ...]]:
    """Return whole numbers for values, their step, and the texts that they stand for."""
    if values.kind == "number":
        shared = math.gcd(values.denominator, *(int(one) for one in np.unique(values.data[values.known])[:64]))
        shared = math.gcd(shared, int(np.gcd.reduce(values.data[values.known], initial=shared)))
        shared = max(shared, 1)
        return (values.data // shared).astype(np.int64), Fraction(shared, values.denominator), ()
    if values.kind == "text":
        texts = tuple(sorted(set(values.data[values.known].tolist()))) or ("",)
        places = {text: place for place, text in enumerate(texts)}
        return np.array([places.get(text, 0) for text in values.data], dtype=np.int64), Fraction(1), texts
    if values.kind == "truth":
        return values.data.astype(np.int64), Fraction(1), ()
    return values.data.astype("datetime64[s]").astype(np.int64), Fraction(1), ()
