"""Exact numbers of expressions: integer numerators over one denominator, so that 0.06 - 0.01 is 0.05."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import ArithmeticOp, CompareOp
from siloquent.explore.spec.rewriting.normal_form import FLIPPED
from siloquent.schema import Attribute

LARGEST = 2**53
MOST = 2**62
"""The bound below which numerators stay, so that two of them can be added in an int64."""
_SAMPLE = 64
MAX_PLACES = 12
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """An expression's value for each cell; ``known`` is False if it is NULL or unknown.

    ``kind``: number, text, truth, day or moment. A number is ``data`` over ``denominator``, and written with a point if
    ``fractional``; ``fixed`` is the value of a constant number. ``listed``: the expression is a category itself,
    whose unlisted cell (``other``) differs from every listed constant. ``choices``: the category whose values these
    are, listed or seen through a key. ``is_constant``: the expression is written as a constant.
    """

    data: NDArray[Any]
    known: NDArray[np.bool_]
    kind: str
    listed: Attribute | None = None
    choices: Attribute | None = None
    denominator: int = 1
    fractional: bool = False
    fixed: Fraction | None = None
    is_constant: bool = False

    def to_list(self, data: NDArray[Any]) -> list[Any]:
        """Return some of ``data`` as Python values."""
        found = data.tolist() if self.kind in ("text", "number") else [value.item() for value in data]
        return [one / self.denominator for one in found] if self.fractional else found


def build_column_values(attribute: Attribute, places: NDArray[np.int64], known: NDArray[np.bool_]) -> Values:
    """Return the declared values of a numeric attribute at ``places``.

    Raises:
        RequestError: as for ``Attribute.list_numerators``.
    """
    data, denominator = attribute.list_numerators(places)
    return Values(data, known, "number", denominator=denominator, fractional=denominator != 1)


def build_constant_values(value: Fraction, known: NDArray[np.bool_], *, fractional: bool) -> Values:
    """Return the same number, of any size, in every cell."""
    data = np.full(len(known), value.numerator, dtype=np.int64 if abs(value.numerator) < MOST else object)
    return Values(data, known, "number", denominator=value.denominator, fractional=fractional, fixed=value)


def is_fraction(value: object) -> bool:
    """Return whether a constant number makes results computed with it fractional."""
    return isinstance(value, Decimal) or (isinstance(value, int) and abs(value) > LARGEST)


def compute_arithmetic(op: ArithmeticOp, left: Values, right: Values) -> Values:
    """Compute ``left op right``; // truncates, % has the sign of its left side, and division by zero gives NULL.

    Raises:
        RequestError: a numerator exceeds 2^53.
    """
    known = left.known & right.known
    whole = op in ("//", "%")
    if whole:
        known = known & (right.data != 0)
    # Integers whose product could exceed 2^53 are written with a point, as in all versions.
    wide = not whole and max(_find_max(left.data), 1) * max(_find_max(right.data), 1) > LARGEST
    fractional = left.fractional or right.fractional or wide
    if left.fixed is not None and right.fixed is not None:
        value = _compute_constant(op, left.fixed, right.fixed) if known.any() else Fraction(0)
        if abs(value) > LARGEST:
            raise _build_too_large(op, value.denominator)
        return build_constant_values(value, known, fractional=fractional)
    data, denominator = _multiply(left, right, known) if op == "*" else _align(op, left, right, known)
    data, denominator = _reduce(data, denominator)
    if _find_max(data) > LARGEST:
        raise _build_too_large(op, denominator)
    return Values(data, known, "number", denominator=denominator, fractional=fractional)


def _compute_constant(op: ArithmeticOp, left: Fraction, right: Fraction) -> Fraction:
    if op in ("//", "%"):
        times = math.trunc(left / right)
        return Fraction(times) if op == "//" else left - times * right
    if op == "*":
        return left * right
    return left + right if op == "+" else left - right


def _align(op: ArithmeticOp, left: Values, right: Values, known: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    denominator = math.lcm(left.denominator, right.denominator)
    a, b = (np.where(known, _rescale(side, denominator, op), 0) for side in (left, right))
    if op in ("+", "-"):
        return (a + b if op == "+" else a - b), denominator
    b[~known] = 1
    rest = np.fmod(a, b)
    return (rest, denominator) if op == "%" else ((a - rest) // b, 1)


def _multiply(left: Values, right: Values, known: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    if max(_find_max(left.data), _find_max(right.data)) >= MOST:
        raise _build_too_large("*", left.denominator * right.denominator)
    a, below_b = _reduce(np.where(known, left.data, 0), right.denominator)
    b, below_a = _reduce(np.where(known, right.data, 0), left.denominator)
    if np.abs(a.astype(float) * b.astype(float)).max(initial=0) > MOST / 2:
        raise _build_too_large("*", below_a * below_b)
    return a * b, below_a * below_b


def _rescale(values: Values, denominator: int, op: str) -> NDArray[np.int64]:
    """Return the numerators over a multiple of the denominator.

    Raises:
        RequestError: they do not fit.
    """
    factor = denominator // values.denominator
    if factor == 1 and values.data.dtype != object:
        return values.data
    most = _find_max(values.data)
    if most * factor >= MOST:
        raise _build_too_large(op, denominator)
    return values.data * factor if most else values.data


def _reduce(data: NDArray[np.int64], denominator: int) -> tuple[NDArray[np.int64], int]:
    """Reduce ``data`` and ``denominator`` by a common divisor; inspecting a few values is usually enough."""
    shared = math.gcd(denominator, *data[:_SAMPLE].tolist())
    if shared > 1:
        shared = math.gcd(shared, int(np.gcd.reduce(data)))
    if shared == 1:
        return data, denominator
    return (data // shared if data.any() else data), denominator // shared


def _find_max(data: NDArray[Any]) -> int:
    return int(np.abs(data).max(initial=0))


def _build_too_large(op: str, denominator: int) -> RequestError:
    steps = f", in steps of 1/{denominator}," if 1 < denominator <= LARGEST else ""
    return RequestError(
        f"A number in the condition{steps} exceeds 2^53, so it would not be exact: {op}.",
        fix="compute with smaller numbers, or with constants of fewer digits",
    )


def compute_absolute(values: Values) -> Values:
    """Return the absolute values."""
    if values.fixed is not None:
        return build_constant_values(abs(values.fixed), values.known, fractional=values.fractional)
    return replace(values, data=np.abs(values.data))


def compute_sign(values: Values) -> Values:
    """Return -1, 0 or 1."""
    return replace(values, data=np.sign(values.data), denominator=1, fixed=None, fractional=False)


Rounding = Literal["nearest", "floor", "ceil"]


def round_values(values: Values, how: Rounding = "nearest") -> Values:
    """Round to integers, halves away from zero; or down, or up."""
    if values.fixed is not None:
        nearest = math.floor(abs(values.fixed) + Fraction(1, 2))
        found = {"floor": math.floor(values.fixed), "ceil": math.ceil(values.fixed)}
        value = Fraction(found.get(how, -nearest if values.fixed < 0 else nearest))
        return build_constant_values(value, values.known, fractional=values.fractional)
    if values.denominator == 1:
        return values
    data = values.data if values.denominator < MOST else values.data.astype(object)
    if how != "nearest":
        whole = data // values.denominator if how == "floor" else -(-data // values.denominator)
        return replace(values, data=whole.astype(np.int64), denominator=1)
    size = np.abs(data)
    nearest, rest = size // values.denominator, size % values.denominator
    nearest = nearest + (rest >= values.denominator - rest)
    return replace(values, data=np.where(values.data < 0, -nearest, nearest).astype(np.int64), denominator=1)


def round_to_places(values: Values, places: int) -> Values:
    """Round to multiples of 10^-``places``, halves away from zero.

    Raises:
        RequestError: more than 12 places to either side of the point, or numbers of more than 2^53 such steps.
    """
    if abs(places) > MAX_PLACES:
        raise RequestError(f"Numbers are rounded to at most {MAX_PLACES} places.", fix="round(cost, 2)")
    power = build_constant_values(Fraction(10) ** places, values.known, fractional=places < 0)
    back = build_constant_values(Fraction(10) ** -places, values.known, fractional=places > 0)
    return compute_arithmetic("*", round_values(compute_arithmetic("*", values, power)), back)


def align_values(left: Values, right: Values) -> tuple[Values, Values]:
    """Bring two numbers to one denominator, so that their data compare alike; return other kinds unchanged.

    Raises:
        RequestError: their numerators do not fit.
    """
    if left.denominator == right.denominator:
        return left, right
    denominator = math.lcm(left.denominator, right.denominator)
    one, two = (
        replace(side, data=_rescale(side, denominator, "a comparison"), denominator=denominator)
        for side in (left, right)
    )
    return one, two


def compare_numbers(left: Values, op: CompareOp, right: Values) -> NDArray[np.bool_]:
    """Compute ``left op right`` of numbers, cell by cell (arrays may broadcast), exactly.

    Raises:
        RequestError: as for ``align_values``.
    """
    if right.fixed is not None:
        return _compare_with_bound(left.data, op, right.fixed * left.denominator)
    if left.fixed is not None:
        return compare_numbers(right, FLIPPED[op], left)
    one, two = align_values(left, right)
    return np.asarray(COMPARE[op](one.data, two.data), dtype=bool)


def _compare_with_bound(numerators: NDArray[Any], op: CompareOp, bound: Fraction) -> NDArray[np.bool_]:
    if op in ("=", "!=") and bound.denominator != 1:
        return np.full(numerators.shape, op == "!=")
    nearest = math.ceil(bound) if op in ("<", ">=") else math.floor(bound)
    return np.asarray(COMPARE[op](numerators, min(max(nearest, -MOST), MOST)), dtype=bool)


_ROUNDED: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "sqrt": np.sqrt, "ln": np.log, "log10": np.log10, "exp": np.exp
}  # fmt: skip
ROUNDED_PLACES = 6


def compute_rounded(values: Values, function: str) -> Values:
    """Compute a function of numbers to six decimal places; unknown where it has no value, such as a root of -1.

    Raises:
        RequestError: a result exceeds 2^53 such steps.
    """
    with np.errstate(all="ignore"):
        found = _ROUNDED[function](values.data.astype(np.float64) / values.denominator)
    known = values.known & np.isfinite(found)
    steps = np.where(known, found, 0.0) * 10**ROUNDED_PLACES
    if np.abs(steps).max(initial=0.0) >= MOST:
        raise RequestError(f"{function} of the largest declared value is too large.", fix="choose rows by WHERE")
    data = np.rint(steps).astype(np.int64)
    return Values(data, known, "number", denominator=10**ROUNDED_PLACES, fractional=True)
