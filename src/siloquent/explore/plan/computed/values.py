"""Values of expressions as they are planned: a program, and bounds that hold for every row. No data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Literal

import numpy as np

from siloquent.errors import RequestError
from siloquent.explore.spec.predicate import CompareOp, name_type
from siloquent.schema.computed import CellComparison, CellNode, Combine, Fixed, Opposite, Recode, Scale

Kind = Literal["number", "text", "truth", "day", "moment", "null"]
LARGEST = 2**62
"""The bound of whole numbers in programs, so that two of them can be added in 64 bits."""
MAX_TEXTS = 10**6
EPOCH = datetime(1970, 1, 1)  # moments have no time zone


@dataclass(frozen=True, slots=True, eq=False)
class PlannedValue:
    """A value of each row: ``node`` counts steps of ``step``, between ``low`` and ``high``.

    A number is that many steps; a day or moment, seconds since 1970; a truth value, 0 or 1; a text, its place among
    ``texts``. ``is_nullable``: the value can be NULL. ``constant``: the text or number that it is in every row.
    """

    node: CellNode
    kind: Kind
    low: int = 0
    high: int = 0
    step: Fraction = Fraction(1)
    texts: tuple[str, ...] = ()
    is_nullable: bool = False
    constant: str | Fraction | None = None

    @property
    def lowest(self) -> Fraction:
        """The lower bound of a number."""
        return self.low * self.step

    @property
    def highest(self) -> Fraction:
        """The upper bound of a number."""
        return self.high * self.step


def plan_number(value: Fraction) -> PlannedValue:
    """Plan a constant number."""
    steps, step = (0, Fraction(1)) if not value else (1 if value > 0 else -1, abs(value))
    return PlannedValue(Fixed(steps), "number", steps, steps, step, constant=value)


def plan_text(value: str) -> PlannedValue:
    """Plan a constant text."""
    return PlannedValue(Fixed(0), "text", texts=(value,), constant=value)


def require_fits(low: int, high: int, text: str) -> None:
    """Refuse whole numbers that do not fit into 64 bits.

    Raises:
        RequestError: they do not fit.
    """
    if max(abs(low), abs(high)) >= LARGEST:
        raise RequestError(
            f"{text[:200]} may need whole numbers of {max(abs(low), abs(high)).bit_length()} bits to be exact; the "
            "limit is 62.",
            fix="round its parts, as in ROUND(cost, 0), or compare with constants of fewer digits",
        )


def rescale(value: PlannedValue, step: Fraction, text: str) -> PlannedValue:
    """Return a number in steps of ``step``, of which its own step is a multiple.

    Raises:
        RequestError: it does not fit.
    """
    factor = value.step / step
    assert factor.denominator == 1
    if factor == 1:
        return value
    times = factor.numerator
    require_fits(value.low * times, value.high * times, text)
    node = Fixed(value.low * times) if isinstance(value.node, Fixed) else Scale(value.node, times)
    return replace(value, node=node, low=value.low * times, high=value.high * times, step=step)


def compute_common_step(steps: Sequence[Fraction]) -> Fraction:
    """Compute the largest number of which all ``steps`` are multiples."""
    denominator = math.lcm(*(step.denominator for step in steps))
    return Fraction(math.gcd(*(int(step * denominator) for step in steps)), denominator)


def unify(values: Sequence[PlannedValue], text: str) -> list[PlannedValue]:
    """Return values of one kind, with one step or one list of texts, so that their nodes' numbers compare as they do.

    Raises:
        RequestError: their kinds differ, or they do not fit.
    """
    kinds = {value.kind for value in values} - {"null"}
    if kinds & {"day", "moment"} and "text" in kinds:
        values = [_read_moment(value) for value in values]
        kinds = {value.kind for value in values} - {"null"}
    if len(kinds) > 1 and not kinds <= {"day", "moment"}:
        one, other = sorted(kinds)[:2]
        raise RequestError(
            f"{text[:200]} mixes {name_type(one)} with {name_type(other)}.", fix="use values of one type"
        )
    if not kinds:
        raise RequestError(f"{text[:200]} is always NULL.", fix="give at least one value")
    kind = "moment" if "moment" in kinds else kinds.pop()
    known = [value for value in values if value.kind != "null"]
    if kind == "number":
        step = compute_common_step([value.step for value in known])
        known = [rescale(value, step, text) for value in known]
    elif kind == "text":
        texts = tuple(sorted({text for value in known for text in value.texts}))
        if len(texts) > MAX_TEXTS:
            raise RequestError(f"{text[:200]} has more than {MAX_TEXTS:,} values.", fix="combine fewer texts")
        places = {text: place for place, text in enumerate(texts)}
        known = [_recode(value, texts, places) for value in known]
    found = iter(known)
    first = known[0]
    filled = [next(found) if value.kind != "null" else value for value in values]
    return [
        replace(value, kind=kind, step=first.step, texts=first.texts)
        if value.kind != "null"
        else replace(value, kind=kind, step=first.step, texts=first.texts, low=first.low, high=first.low)
        for value in filled
    ]


def _recode(value: PlannedValue, texts: tuple[str, ...], places: dict[str, int]) -> PlannedValue:
    if value.texts == texts:
        return value
    found = np.array([places[text] for text in value.texts], dtype=np.int64)
    node = Fixed(int(found[0])) if isinstance(value.node, Fixed) else Recode(value.node, found)
    return replace(value, node=node, texts=texts)


def map_texts(value: PlannedValue, function: Callable[[str], str]) -> PlannedValue:
    """Plan a function of a text, by its result for each text that it may be."""
    results = [function(text) for text in value.texts]
    texts = tuple(sorted(set(results)))
    places = {text: place for place, text in enumerate(texts)}
    node = Recode(value.node, np.array([places[text] for text in results], dtype=np.int64))
    return replace(value, node=node, texts=texts, low=0, high=len(texts) - 1, constant=None)


def join_texts(left: PlannedValue, right: PlannedValue, text: str) -> PlannedValue:
    """Plan one text behind another.

    Raises:
        RequestError: there are more than 10^6 pairs of texts.
    """
    if len(left.texts) * len(right.texts) > MAX_TEXTS:
        raise RequestError(f"{text[:200]} has more than {MAX_TEXTS:,} values.", fix="compare each text by itself")
    results = [one + other for one in left.texts for other in right.texts]
    texts = tuple(sorted(set(results)))
    places = {text: place for place, text in enumerate(texts)}
    pair = Combine(Scale(left.node, len(right.texts)), "+", right.node)
    node = Recode(pair, np.array([places[text] for text in results], dtype=np.int64))
    is_nullable = left.is_nullable or right.is_nullable
    return PlannedValue(node, "text", 0, len(texts) - 1, texts=texts, is_nullable=is_nullable)


def _read_moment(value: PlannedValue) -> PlannedValue:
    """Read a constant text as the moment that it is compared with."""
    if value.kind != "text" or not isinstance(value.constant, str):
        return value
    try:
        moment = datetime.fromisoformat(value.constant).replace(tzinfo=None)
    except ValueError:
        raise RequestError(f"{value.constant[:40]!r} is not a date.", fix="DATE '2024-01-31'") from None
    seconds = int((moment - EPOCH).total_seconds())
    return PlannedValue(Fixed(seconds), "moment", seconds, seconds)


def plan_comparison(left: PlannedValue, op: CompareOp, right: PlannedValue, text: str) -> CellNode:
    """Plan ``left op right``, exactly.

    Raises:
        RequestError: as for ``unify``; or booleans are compared by size.
    """
    if op in (">", ">="):
        return plan_comparison(right, "<" if op == ">" else "<=", left, text)
    if op == "!=":
        return Opposite(plan_comparison(left, "=", right, text))
    if "truth" in (left.kind, right.kind) and op != "=":
        raise RequestError("A boolean can only be compared with = or !=.", fix="smoker = TRUE")
    if left.kind == right.kind == "number" and isinstance(right.constant, Fraction):
        return _compare_with_bound(left, op, right.constant)
    if left.kind == right.kind == "number" and isinstance(left.constant, Fraction):
        return _compare_bound_with(left.constant, op, right)
    one, other = unify([left, right], text)
    return CellComparison(one.node, op, other.node)  # type: ignore[arg-type]


def _clip(value: int) -> Fixed:
    return Fixed(min(max(value, -LARGEST), LARGEST))


def _compare_with_bound(value: PlannedValue, op: CompareOp, constant: Fraction) -> CellNode:
    bound = constant / value.step
    if op == "=" and bound.denominator != 1:
        return CellComparison(value.node, "=", Fixed(LARGEST))
    if op == "<":
        return CellComparison(value.node, "<", _clip(math.ceil(bound)))
    return CellComparison(value.node, op, _clip(math.floor(bound)))  # type: ignore[arg-type]


def _compare_bound_with(constant: Fraction, op: CompareOp, value: PlannedValue) -> CellNode:
    bound = constant / value.step
    if op == "=" and bound.denominator != 1:
        return CellComparison(Fixed(LARGEST), "=", value.node)
    if op == "<":
        return CellComparison(_clip(math.floor(bound)), "<", value.node)
    return CellComparison(_clip(math.ceil(bound)), op, value.node)  # type: ignore[arg-type]
