"""Expressions over an answer's aggregates, computed from their released values: free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from siloquent.errors import RequestError
from siloquent.explore.spec.numbers import check_number
from siloquent.explore.spec.predicate import CompareOp, check_name

MAX_DECIMALS = 15
DerivedOp = Literal["+", "-", "*", "/"]
MAX_POWER = 16
FunctionName = Literal[
    "round", "floor", "ceil", "abs", "coalesce", "nullif",
    "sqrt", "ln", "log10", "exp", "sign", "power", "greatest", "least",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """The aggregate at this position among the measured ones."""

    place: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    number: Decimal

    def __post_init__(self) -> None:
        check_number(self.number, "A number")


@dataclass(frozen=True, slots=True)
class Operation:
    """``left op right``; division by zero gives NULL."""

    left: Derived
    op: DerivedOp
    right: Derived


@dataclass(frozen=True, slots=True)
class Function:
    """A function of one or more expressions; ``decimals``: of ROUND."""

    name: FunctionName
    arguments: tuple[Derived, ...]
    decimals: int = 0

    def __post_init__(self) -> None:
        if self.name == "power" and not _is_power(self.arguments[-1]):
            raise RequestError(f"POWER takes a whole exponent from 0 to {MAX_POWER}.", fix="POWER(COUNT(*), 2)")
        if abs(self.decimals) > MAX_DECIMALS:
            raise RequestError(
                f"ROUND takes -{MAX_DECIMALS} to {MAX_DECIMALS} decimal places.", fix="ROUND(AVG(cost), 1)"
            )


@dataclass(frozen=True, slots=True)
class OverGroups:
    """A window over all groups that HAVING leaves: the sum of ``value``, or the rank of each group by it."""

    name: Literal["sum", "rank", "dense_rank", "row_number"]
    value: Derived
    descending: bool = False

    def __post_init__(self) -> None:
        if any(iter_windows(self.value)):
            raise RequestError("A window cannot be inside another.", fix="RANK() OVER (ORDER BY COUNT(*))")


Derived = Measured | Number | Operation | Function | OverGroups


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A column of the answer: its name and its value."""

    name: str
    value: Derived

    def __post_init__(self) -> None:
        check_name(self.name, "column")


@dataclass(frozen=True, slots=True)
class ShownCondition:
    """A condition of HAVING on released values; NULL passes none."""

    left: Derived
    op: CompareOp
    right: Derived


def _is_power(value: Derived) -> bool:
    is_whole = isinstance(value, Number) and value.number == value.number.to_integral_value()
    return is_whole and isinstance(value, Number) and 0 <= value.number <= MAX_POWER


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions joined by OR; those of each part are joined by AND."""

    parts: tuple[tuple[Kept, ...], ...]


Kept = ShownCondition | AnyOf


def iter_conditions(kept: Iterable[Kept]) -> Iterator[ShownCondition]:
    """Yield all conditions in ``kept``, however they are joined."""
    for one in kept:
        if isinstance(one, ShownCondition):
            yield one
        else:
            for part in one.parts:
                yield from iter_conditions(part)


def iter_values(value: Derived) -> Iterator[Derived]:
    """Yield ``value`` and all values that it is computed from."""
    yield value
    if isinstance(value, Operation):
        yield from iter_values(value.left)
        yield from iter_values(value.right)
    elif isinstance(value, Function):
        for argument in value.arguments:
            yield from iter_values(argument)
    elif isinstance(value, OverGroups):
        yield from iter_values(value.value)


def iter_measured(value: Derived) -> Iterator[int]:
    """Yield the places of the aggregates in ``value``."""
    return (one.place for one in iter_values(value) if isinstance(one, Measured))


def iter_windows(value: Derived) -> Iterator[OverGroups]:
    """Yield the windows in ``value``."""
    return (one for one in iter_values(value) if isinstance(one, OverGroups))


def replace_windows(value: Derived, place: Callable[[OverGroups], int]) -> Derived:
    """Return ``value`` with a measured value at ``place`` for each window."""
    if isinstance(value, OverGroups):
        return Measured(place(value))
    if isinstance(value, Operation):
        return replace(value, left=replace_windows(value.left, place), right=replace_windows(value.right, place))
    if isinstance(value, Function):
        return replace(value, arguments=tuple(replace_windows(one, place) for one in value.arguments))
    return value
