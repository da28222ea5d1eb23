"""Computed attributes: the domain of an expression or test, derived from the declared ones. No data."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

from siloquent.errors import RequestError
from siloquent.explore.plan.computed.arithmetic import DAY_SECONDS
from siloquent.explore.plan.computed.compiler import Compiler
from siloquent.explore.plan.computed.narrowing import Cells
from siloquent.explore.plan.computed.values import EPOCH, PlannedValue
from siloquent.explore.spec.aggregates import name_expression
from siloquent.explore.spec.language.render_conditions import render_expression, render_predicate
from siloquent.explore.spec.predicate import MAX_NAME_LENGTH, Call, Expression, Predicate, Value
from siloquent.schema import Attribute, Domain
from siloquent.schema.attribute import MAX_FROM_ZERO, MAX_INTEGER, MAX_STEPS, OTHER
from siloquent.schema.computed import CellNode, Computed, Round

_DIGITS = 200


class TooFine(RequestError):
    """An expression has more values than can be summed exactly; rounded, it can be."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The expression of an attribute, its identity, and the attributes in it."""

    text: str
    identity: str
    inputs: tuple[str, ...]

    def build(self, node: CellNode, first: int, steps: int, null: int, *, is_test: bool = False) -> Computed:
        return Computed(self.text, self.identity, self.inputs, node, first, steps, null, is_test)


def _identify(expression: Expression | Predicate) -> str:
    return hashlib.sha256(repr(expression).encode()).hexdigest()


def build_value_attribute(expression: Expression, domain: Domain, cells: Cells) -> Attribute:
    """Build the attribute of an expression's value: a number, category, boolean, date or datetime.

    Args:
        cells: The cells that the rows that count can have.
    Raises:
        UnknownName, RequestError: it cannot be planned, or its numbers need more than 2^40 steps.
    """
    compiler = Compiler(domain, cells)
    value = compiler.plan_value(expression)
    text = render_expression(expression)
    name = name_expression(expression)
    source = _Source(text, _identify(expression), tuple(compiler.inputs))
    if value.kind == "number":
        return _build_number(value, name, source)
    if value.kind == "text":
        return _build_category(value, name, source)
    if value.kind == "truth":
        return _build_boolean(value.node, name, source, is_nullable=value.is_nullable)
    if value.kind == "null":
        raise RequestError(f"{text[:200]} is always NULL.", fix="give at least one value")
    return _build_moment(value, name, source)


def build_test_attribute(predicate: Predicate, domain: Domain, *, negated: bool = False) -> Attribute:
    """Build the boolean attribute of a condition; rows for which it is UNKNOWN have the cell of NULL.

    Raises:
        UnknownName, RequestError: it cannot be planned.
    """
    compiler = Compiler(domain, {})
    node = compiler.plan_test(predicate, negated=negated)
    text = render_predicate(predicate)
    source = _Source(text, _identify(predicate), tuple(compiler.inputs))
    return _build_boolean(node, name_test(text), source, is_nullable=True, is_test=True)


def name_test(text: str) -> str:
    """Name the column of a condition: its text, if it is short."""
    if len(text) <= MAX_NAME_LENGTH and text.isprintable() and '"' not in text:
        return text
    return f"condition {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _build_number(value: PlannedValue, name: str, source: _Source) -> Attribute:
    steps = value.high - value.low + 1
    is_decimal = _is_decimal(value.step)
    if not is_decimal or steps > MAX_STEPS or max(abs(value.low), abs(value.high)) > MAX_FROM_ZERO:
        why = "has no last decimal place"
        if is_decimal:
            far = f"is up to {max(abs(value.low), abs(value.high)):,} steps away from zero"
            why = f"has {steps:,} possible values" if steps > MAX_STEPS else far
        raise TooFine(
            f"{source.text[:200]} {why}, so its sums would not be exact.",
            fix=f"ROUND({source.text}, {_find_places(value)})",
        )
    is_whole = value.step.denominator == 1 and max(abs(value.lowest), abs(value.highest)) < MAX_INTEGER
    null = steps if value.is_nullable else -1
    return Attribute(
        name=name,
        kind="integer" if is_whole else "real",
        lo=_convert_to_decimal(value.lowest),
        hi=_convert_to_decimal(value.highest),
        grid=_convert_to_decimal(value.step),
        null="cell" if value.is_nullable else "drop",
        computed=source.build(value.node, value.low, steps, null),
    )


def _is_decimal(value: Fraction) -> bool:
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _convert_to_decimal(value: Fraction) -> Decimal:
    with localcontext(prec=_DIGITS):
        return Decimal(value.numerator) / Decimal(value.denominator)


def round_to_fit(expression: Expression, domain: Domain, cells: Cells) -> Expression:
    """Return ``expression`` rounded to the most decimal places with which its sums are exact."""
    places = _find_places(Compiler(domain, cells).plan_value(expression))
    return Call("round", expression, (Value(places),) if places else ())


def _find_places(value: PlannedValue) -> int:
    span = max(abs(value.lowest), abs(value.highest), value.highest - value.lowest)
    return min(6, math.floor(math.log10(float(MAX_STEPS) / max(float(span), 1e-6))))


def _build_category(value: PlannedValue, name: str, source: _Source) -> Attribute:
    if OTHER in value.texts:
        raise RequestError(
            f"{source.text[:200]} has the value {OTHER!r}, which stands for other values.", fix="rename it"
        )
    steps = len(value.texts)
    return Attribute(
        name=name,
        kind="category",
        values=value.texts,
        null="cell" if value.is_nullable else "drop",
        computed=source.build(value.node, 0, steps, steps if value.is_nullable else -1),
    )


def _build_boolean(
    node: CellNode, name: str, source: _Source, *, is_nullable: bool, is_test: bool = False
) -> Attribute:
    computed = source.build(node, 0, 2, 2 if is_nullable else -1, is_test=is_test)
    return Attribute(name=name, kind="boolean", null="cell" if is_nullable else "drop", computed=computed)


def _build_moment(value: PlannedValue, name: str, source: _Source) -> Attribute:
    grid = DAY_SECONDS if value.kind == "day" else 1
    node = Round(value.node, 1, grid, "floor") if grid > 1 else value.node
    low, high = value.low // grid, value.high // grid
    steps = high - low + 1
    if steps > MAX_STEPS:
        raise RequestError(f"{source.text[:200]} has too many possible values.", fix="compare with nearer dates")
    return Attribute(
        name=name,
        kind="date" if value.kind == "day" else "datetime",
        lo=EPOCH + timedelta(seconds=low * grid),
        hi=EPOCH + timedelta(seconds=high * grid),
        grid=Decimal(grid),
        null="cell" if value.is_nullable else "drop",
        computed=source.build(node, low, steps, steps if value.is_nullable else -1),
    )
