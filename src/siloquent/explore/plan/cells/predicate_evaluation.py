"""Evaluation of tests of one attribute for each declared cell, in three-valued logic, without rows.

A vector over cells has ``size + 1`` entries: the declared values, the cell for unlisted values, the cell for NULL
(where declared), and last OUTSIDE, for which every test is UNKNOWN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError, UnknownName
from siloquent.explore.plan.cells.functions import (
    CALLS,
    cut_text,
    format_dates,
    require_unit,
    shift_dates,
    truncate_dates,
)
from siloquent.explore.plan.cells.numbers import (
    COMPARE,
    Values,
    build_column_values,
    build_constant_values,
    compare_numbers,
    compute_absolute,
    compute_arithmetic,
    compute_rounded,
    compute_sign,
    is_fraction,
    round_to_places,
    round_values,
)
from siloquent.explore.spec.language.render_conditions import render_expression
from siloquent.explore.spec.predicate import (
    Arithmetic,
    Call,
    Column,
    Compare,
    CompareOp,
    Constant,
    Expression,
    InList,
    IsNull,
    Like,
    Through,
    Value,
    name_type,
)
from siloquent.schema import Attribute

Truth = NDArray[np.int8]
FALSE, UNKNOWN, TRUE = np.int8(0), np.int8(1), np.int8(2)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells of ``attribute`` at which an expression is evaluated; those from ``steps`` on hold no declared value."""

    attribute: Attribute
    places: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each cell holds a declared value."""
        return np.asarray((self.places >= 0) & (self.places < self.attribute.steps))

    @property
    def declared(self) -> NDArray[np.int64]:
        """The cells' indices, the first index for cells without a declared value."""
        return np.where(self.known, self.places, 0)


def evaluate_expression(
    expression: Expression, attribute: Attribute, places: NDArray[np.int64] | None = None
) -> Values:
    """Evaluate an expression of only ``attribute``: at ``places``, or for all cells and OUTSIDE.

    Raises:
        RequestError: types do not fit, numbers exceed 2^53, or all of more than 10^6 values are requested.
    """
    if not attribute.is_countable:
        raise RequestError(
            f"Attribute {attribute.name!r} is of type {attribute.kind}: it cannot be used in a condition or an answer.",
            fix="use a derived attribute",
        )
    return _evaluate(expression, _require_cells(attribute, places))


def _require_cells(attribute: Attribute, places: NDArray[np.int64] | None) -> Cells:
    if places is None and attribute.is_wide:
        raise RequestError(
            f"Attribute {attribute.name!r} has {attribute.steps:,} values, too many to check one by one.",
            fix="compare it with constants, or declare a coarser grid",
        )
    return Cells(attribute, np.arange(attribute.size + 1) if places is None else places)


@singledispatch
def _evaluate(expression: object, cells: Cells) -> Values:
    raise RequestError(f"{type(expression).__name__} is not an expression.")


@_evaluate.register
def _(expression: Column, cells: Cells) -> Values:
    attribute, known = cells.attribute, cells.known
    if attribute.is_numeric:
        return build_column_values(attribute, cells.declared, known)
    data = attribute.list_points(cells.declared)
    kind = {"category": "text", "boolean": "truth", "date": "day", "datetime": "moment"}[attribute.kind]
    category = attribute if attribute.kind == "category" else None
    return Values(data, known, kind, category, category)


@_evaluate.register
def _(expression: Through, cells: Cells) -> Values:
    inner = Cells(expression.attribute, map_through_key(expression)[cells.places])
    return replace(_evaluate(Column(expression.attribute.name), inner), listed=None)


def map_through_key(expression: Through) -> NDArray[np.int64]:
    """Map each cell of the key to the public attribute's cell, OUTSIDE last; OUTSIDE if there is no row."""
    known = _mapped.get(id(expression.places))
    if known is not None and known[0] is expression.places and known[1] == expression.attribute.size:
        return known[2]
    places = np.append(np.array(expression.places, dtype=np.int64), -1)
    found = np.where(places < 0, expression.attribute.size, places)
    found.setflags(write=False)
    while len(_mapped) >= _MOST_MAPPED:
        _mapped.pop(next(iter(_mapped)), None)
    _mapped[id(expression.places)] = (expression.places, expression.attribute.size, found)
    return found


_MOST_MAPPED = 64
_mapped: dict[int, tuple[tuple[int, ...], int, NDArray[np.int64]]] = {}
"""The maps of the newest public columns: one of a key with 10^6 values takes as long as many conditions on it."""


@_evaluate.register
def _(expression: Value, cells: Cells) -> Values:
    value, size = expression.value, len(cells.places)
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        number = build_constant_values(Fraction(value), np.full(size, True), fractional=is_fraction(value))
        return replace(number, is_constant=True)
    data, kind = _convert_constant(value)
    filled = np.empty(size, dtype=object if kind == "text" else np.asarray(data).dtype)
    filled[:] = data
    return Values(filled, np.full(size, value is not None), kind, is_constant=True)


@_evaluate.register
def _(expression: Arithmetic, cells: Cells) -> Values:
    left, right = _evaluate(expression.left, cells), _evaluate(expression.right, cells)
    if (left.kind, right.kind) != ("number", "number"):
        raise RequestError(f"{expression.op} takes numbers, not {name_type(left.kind)} and {name_type(right.kind)}.")
    return compute_arithmetic(expression.op, left, right)


@_evaluate.register
def _(expression: Call, cells: Cells) -> Values:
    inner = _evaluate(expression.argument, cells)
    if expression.more:
        return _evaluate_parametric(expression, inner)
    if expression.function == "round" and inner.kind == "truth":  # a cast: TRUE is 1
        return Values(inner.data.astype(np.int64), inner.known, "number")
    if expression.function in _OF_NUMBERS and inner.kind == "number":
        return _OF_NUMBERS[expression.function](inner)
    if expression.function in _OF_NUMBERS:
        raise RequestError(f"{expression.function} takes a number, not {name_type(inner.kind)}.")
    wanted, result, function = CALLS[expression.function]
    if inner.kind not in wanted:
        raise RequestError(
            f"{expression.function} takes {' or '.join(map(name_type, wanted))}, not {name_type(inner.kind)}."
        )
    return Values(function(inner.data), inner.known, result)


_OF_NUMBERS: dict[str, Callable[[Values], Values]] = {
    "abs": compute_absolute,
    "sign": compute_sign,
    "round": round_values,
    "floor": lambda values: round_values(values, "floor"),
    "ceil": lambda values: round_values(values, "ceil"),
    **{name: partial(compute_rounded, function=name) for name in ("sqrt", "ln", "log10", "exp")},
}


def _evaluate_parametric(call: Call, inner: Values) -> Values:
    """Evaluate a function with constant parameters."""
    constants = [one.value for one in call.more if isinstance(one, Value)]
    if call.function == "round":
        if inner.kind != "number" or not isinstance(constants[0], int):
            raise RequestError("round takes a number and a whole number of decimal places.", fix="round(cost, 1)")
        return round_to_places(inner, constants[0])
    if call.function == "substring":
        if inner.kind != "text" or not all(isinstance(one, int) for one in constants):
            raise RequestError("substring takes text and whole numbers.", fix="substring(ward, 1, 2)")
        start, *length = constants
        texts = [cut_text(text, start, *(length or [None])) for text in inner.data]  # type: ignore[arg-type]
        return Values(np.array(texts, dtype=object), inner.known, "text")
    if inner.kind not in ("day", "moment"):
        raise RequestError(f"{call.function} takes a date, not {name_type(inner.kind)}.")
    if call.function == "strftime":
        return Values(format_dates(inner.data, constants[0]), inner.known, "text")
    unit = require_unit(constants[-1])
    if call.function == "date_trunc":
        return Values(truncate_dates(inner.data, unit), inner.known, inner.kind)
    shifted = shift_dates(inner.data, int(constants[0]), unit)  # type: ignore[arg-type]
    is_day = inner.kind == "day" and unit in ("year", "quarter", "month", "week", "day")
    return Values(shifted.astype("datetime64[D]") if is_day else shifted, inner.known, "day" if is_day else "moment")


def _convert_constant(value: Constant) -> tuple[Any, str]:
    """Convert a non-numeric constant for comparison by numpy; return it and its kind."""
    if isinstance(value, bool):
        return value, "truth"
    if isinstance(value, datetime):
        return np.datetime64(value, "s"), "moment"
    if isinstance(value, date):
        return np.datetime64(value, "D"), "day"
    return value, "text"


def evaluate_atom(
    predicate: Compare | InList | Like | IsNull, attribute: Attribute, places: NDArray[np.int64] | None = None
) -> Truth:
    """Evaluate a test of only ``attribute`` at ``places``, or for all cells and OUTSIDE.

    Raises:
        RequestError: types do not fit, or no row could ever pass the test.
        UnknownName: a category is compared with a value that is not declared.
    """
    if places is None and (through := _find_through(predicate)) is not None:
        public = through.attribute
        if public.size < attribute.size:  # once for each of its values, not for each of the key's
            same = Through(public.name, public, tuple(range(public.size)))
            truth = evaluate_atom(_replace_through(predicate, same), public)
            return np.asarray(truth[map_through_key(through)])
    if isinstance(predicate, IsNull):
        return _is_null(predicate, attribute, places)
    if isinstance(predicate, Like):
        tested = evaluate_expression(predicate.expression, attribute, places)
        if tested.kind != "text":
            raise RequestError("LIKE takes a category.", fix=_instead_of_like(predicate.expression, tested))
        return _evaluate_like(tested, predicate.pattern)
    if isinstance(predicate, InList):
        tests = [Compare(predicate.expression, "=", Value(value)) for value in predicate.values]
        return np.asarray(np.max([_compare(test, attribute, places) for test in tests], axis=0), dtype=np.int8)
    return _compare(predicate, attribute, places)


def _find_through(test: Compare | InList | Like | IsNull) -> Through | None:
    """Find the public column that is compared with constants."""
    if isinstance(test, Compare):
        return test.left if isinstance(test.left, Through) and isinstance(test.right, Value) else None
    return test.expression if isinstance(test.expression, Through) else None


def _replace_through(test: Compare | InList | Like | IsNull, column: Through) -> Compare | InList | Like | IsNull:
    return replace(test, left=column) if isinstance(test, Compare) else replace(test, expression=column)


def _compare(test: Compare, attribute: Attribute, places: NDArray[np.int64] | None) -> Truth:
    _check_labels(test, attribute)
    left, right = evaluate_expression(test.left, attribute, places), evaluate_expression(test.right, attribute, places)
    left, right = _cast_to_date(left, right), _cast_to_date(right, left)
    truth = compare_cells(left, right, test.op)
    for values, other in ((left, test.right), (right, test.left)):
        listed, choices = values.listed, values.choices
        if choices is None or not isinstance(other, Value) or test.op not in ("=", "!="):
            continue
        if other.value not in choices.values:
            raise UnknownName(f"value of {choices.name!r}", str(other.value), (*choices.values, *_list_labels(choices)))
        if listed is not None and listed.other == "cell":
            unlisted = slice(listed.steps, listed.steps + 1) if places is None else places == listed.steps
            truth[unlisted] = FALSE if test.op == "=" else TRUE
    return truth


def _check_labels(test: Compare, attribute: Attribute) -> None:
    """Refuse a text that does not label any value of a labelled number or boolean."""
    if not attribute.labels or attribute.kind == "category":
        return
    for side, other in ((test.left, test.right), (test.right, test.left)):
        if isinstance(side, Column) and isinstance(other, Value) and isinstance(other.value, str):
            raise UnknownName(f"value of {attribute.name!r}", other.value, _list_labels(attribute))


def _list_labels(attribute: Attribute) -> list[str]:
    return [label for _, label in attribute.labels]


def compare_cells(left: Values, right: Values, op: CompareOp) -> Truth:
    """Compute ``left op right`` cell by cell (arrays may broadcast); UNKNOWN if a side is not known.

    Raises:
        RequestError: as for ``check_comparable``.
    """
    check_comparable(left, right, op)
    found = compare_numbers(left, op, right) if left.kind == "number" else COMPARE[op](left.data, right.data)
    truth = np.where(np.asarray(found, dtype=bool), TRUE, FALSE)
    return np.where(left.known & right.known, truth, UNKNOWN).astype(np.int8)


def check_comparable(left: Values, right: Values, op: str) -> None:
    """Refuse sides of different kinds, and comparisons of booleans by size.

    Raises:
        RequestError: they cannot be compared.
    """
    if left.kind != right.kind and not {left.kind, right.kind} <= {"day", "moment"}:
        raise RequestError(
            f"Cannot compare {name_type(left.kind)} with {name_type(right.kind)}.", fix=_suggest_cast(left, right)
        )
    if left.kind == "truth" and op not in ("=", "!="):
        raise RequestError("A boolean can only be compared with = or !=.")


def _suggest_cast(left: Values, right: Values) -> str:
    """Suggest the constant's spelling in the other side's kind: 30 instead of '30'."""
    constant, other = (right, left) if right.is_constant else (left, right)
    text = _format_constant(constant)
    if other.kind == "number":
        with suppress(ArithmeticError):
            if Decimal(text).is_finite():
                return f"{Decimal(text):f}"
    if other.kind == "truth":
        return _TRUTHS.get(text.casefold(), "TRUE or FALSE")
    if other.kind == "text":
        return "'{}'".format(_correct_value(text, other).replace("'", "''"))
    return _find_example(other)


def _find_example(values: Values) -> str:
    """Return one of ``values``, from their middle, as written in a query; empty if none is known."""
    known = np.flatnonzero(values.known)
    if not len(known):
        return ""
    found = values.data[known[len(known) // 2]]
    if values.kind == "number":
        return f"{Decimal(int(found)) / Decimal(values.denominator):f}"
    return render_expression(Value(found.item() if isinstance(found, np.generic) else found))


_TRUTHS = dict.fromkeys(("1", "true", "t", "yes", "y"), "TRUE") | dict.fromkeys(("0", "false", "f", "no", "n"), "FALSE")


def _format_constant(values: Values) -> str:
    """Return a constant as text; a boolean as in SQL."""
    if values.fixed is not None:
        exact = values.fixed
        return str(exact.numerator) if exact.denominator == 1 else f"{float(exact):g}"
    return str(values.data[0]).upper() if values.kind == "truth" else str(values.data[0])


def _correct_value(text: str, other: Values) -> str:
    """Return the declared value that ``text`` stands for: a postcode written as a number lacks its leading zeros."""
    if other.choices is None or text in (known := other.choices.values):
        return text
    near = (value for value in known if value.lstrip("0") == text.lstrip("0") and value.isascii())
    return next(near, known[len(known) // 2])


def _cast_to_date(values: Values, other: Values) -> Values:
    """Parse a text constant that is compared with a date as a date: day = '2024-01-31'."""
    if values.kind == "text" and values.choices is None and other.kind in ("day", "moment"):
        try:
            data = np.array([np.datetime64(datetime.fromisoformat(str(text)), "s") for text in values.data[:1]])
        except ValueError:
            raise RequestError(f"{str(values.data[0])[:40]!r} is not a date.", fix=_find_example(other)) from None
        return Values(np.repeat(data, len(values.data)), values.known, "moment")
    return values


def _instead_of_like(expression: Expression, tested: Values) -> str:
    """Suggest a condition on a non-text expression, with one of its own values."""
    name, example = render_expression(expression), _find_example(tested)
    if tested.kind == "truth" or not example:
        return name
    if tested.kind == "number":
        return f"{name} >= {example}"
    year, month = re.findall(r"[0-9]+", example)[:2]
    return f"year({name}) = {int(year)} AND month({name}) = {int(month)}"


def match_pattern(texts: Sequence[str], pattern: str) -> NDArray[np.bool_]:
    """Return whether each text is LIKE ``pattern``, shape (texts,)."""
    pieces = pattern.split("%")
    compiled = [_compile_piece(piece) for piece in pieces]
    return np.array([_is_like(text, compiled, len(pieces[-1])) for text in texts], dtype=bool)


def _evaluate_like(values: Values, pattern: str) -> Truth:
    found = match_pattern(values.data.tolist(), pattern)
    return np.where(values.known, np.where(np.asarray(found, dtype=bool), TRUE, FALSE), UNKNOWN).astype(np.int8)


def _compile_piece(text: str) -> re.Pattern[str]:
    """Compile a part of a pattern without %: letters, and _ for any one letter."""
    return re.compile("".join("." if letter == "_" else re.escape(letter) for letter in text), re.DOTALL)


def _is_like(text: str, pieces: list[re.Pattern[str]], last: int) -> bool:
    """Return whether the pieces occur in ``text`` in order, first and last (``last`` letters long) at its ends.

    Taking each piece at its earliest position is sufficient, so there is no backtracking and no pattern takes long.
    """
    if len(pieces) == 1:
        return bool(pieces[0].fullmatch(text))
    at = 0
    for place, piece in enumerate(pieces[:-1]):
        found = piece.match(text) if place == 0 else piece.search(text, at)
        if found is None:
            return False
        at = found.end()
    return len(text) - last >= at and bool(pieces[-1].fullmatch(text, len(text) - last))


def _is_null(predicate: IsNull, attribute: Attribute, places: NDArray[np.int64] | None) -> Truth:
    cells = _require_cells(attribute, places).places
    values = evaluate_expression(predicate.expression, attribute, cells)
    truth = np.where(values.known, FALSE, TRUE).astype(np.int8)
    if attribute.other == "cell":
        truth[cells == attribute.steps] = FALSE if isinstance(predicate.expression, Column) else UNKNOWN
    if attribute.null == "cell":
        truth[cells == attribute.size - 1] = TRUE
    truth[cells == attribute.size] = UNKNOWN
    return truth
