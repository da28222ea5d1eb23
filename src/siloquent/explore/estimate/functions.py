"""Functions of released values that keep or turn the order of numbers, with the ends of their intervals.

Roots, exponentials and logarithms are rounded in decimals, by the same rules on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction

_EXACT = Context(prec=40)
MAX_EXPONENT = 700
"""Of EXP: beyond it, the result is not a float."""


def take_root(number: Fraction) -> Fraction | None:
    """Return the square root; None of a negative number."""
    return None if number < 0 else _round(_EXACT.sqrt, number)


def take_logarithm(number: Fraction) -> Fraction | None:
    """Return the natural logarithm; None of a number that is not positive."""
    return None if number <= 0 else _round(_EXACT.ln, number)


def take_decimal_logarithm(number: Fraction) -> Fraction | None:
    """Return the logarithm to base 10; None of a number that is not positive."""
    return None if number <= 0 else _round(_EXACT.log10, number)


def raise_e(number: Fraction) -> Fraction | None:
    """Return e to this power; None if that is beyond all floats."""
    return None if number > MAX_EXPONENT else _round(_EXACT.exp, max(number, Fraction(-MAX_EXPONENT)))


def take_sign(number: Fraction) -> Fraction:
    """Return -1, 0 or 1."""
    return Fraction((number > 0) - (number < 0))


RISING: Mapping[str, Callable[[Fraction], Fraction | None]] = {
    "sqrt": take_root,
    "ln": take_logarithm,
    "log10": take_decimal_logarithm,
    "exp": raise_e,
    "sign": take_sign,
}
"""Functions that keep the order of numbers, so that those of the ends hold that of the true value."""
ROUNDED = frozenset(("sqrt", "ln", "log10", "exp"))
SPARE = Fraction(1, 10**38)
"""Of a rounded end, the part by which it is moved outwards, so that the true value stays inside."""
_LOWEST = {"sqrt": Fraction(0)}


def apply_rising(name: str, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
    """Return the ends of the function's interval; None if one of them has none."""
    ends = [RISING[name](max(end, _LOWEST[name]) if name in _LOWEST else end) for end in (low, high)]
    if ends[0] is None or ends[1] is None:
        return None
    if name not in ROUNDED:
        return ends[0], ends[1]
    return ends[0] - abs(ends[0]) * SPARE, ends[1] + abs(ends[1]) * SPARE


def _round(function: Callable[[Decimal], Decimal], number: Fraction) -> Fraction:
    return Fraction(function(_EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))))
