"""Questions to a collection: counts, sums and averages under conditions, over services joined by their user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError

Mask = NDArray[np.bool_]
Function = Literal["COUNT", "SUM", "AVG"]
MAX_TERMS = 64
MAX_GROUPS = 10_000


@dataclass(frozen=True, slots=True, order=True)
class ServiceColumn:
    """An attribute of a service."""

    service: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One number of an answer: a count of rows, or the sum or average of a measure over them."""

    function: Function
    measure: ServiceColumn | None = None

    def __str__(self) -> str:
        return f"{self.function.lower()}_{self.measure}" if self.measure else "count"


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Rows whose columns all lie in their masks (cells,), counted ``sign`` times."""

    masks: dict[ServiceColumn, Mask]
    sign: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class AggregateQuery:
    """A question.

    Attributes:
        services: Joined on their user, in the order in which they are named.
        where: Signed boxes that add up to the condition; one box without masks if there is none.
        sql: The text that it was parsed from.
    """

    services: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    where: tuple[Box, ...] = (Box({}),)
    group_by: tuple[ServiceColumn, ...] = ()
    sql: str = ""

    def list_columns(self) -> list[ServiceColumn]:
        """Return every column that the answer depends on, without repetition, in order of appearance."""
        named = [column for box in self.where for column in box.masks]
        named += [one.measure for one in self.aggregates if one.measure is not None]
        return list(dict.fromkeys([*named, *self.group_by]))


Conjunction = dict[ServiceColumn, Mask]


def combine_any(parts: Sequence[list[Conjunction]]) -> list[Conjunction]:
    """Return the disjunction of disjunctions; single-column terms on the same column are merged."""
    found: list[Conjunction] = []
    single: dict[ServiceColumn, int] = {}
    for term in (term for part in parts for term in part):
        if len(term) == 1:
            ((column, mask),) = term.items()
            if column in single:
                place = single[column]
                found[place] = {column: found[place][column] | mask}
                continue
            single[column] = len(found)
        found.append(term)
    return _require_few_terms(found)


def combine_all(parts: Sequence[list[Conjunction]]) -> list[Conjunction]:
    """Return the conjunction of disjunctions, multiplied out."""
    found: list[Conjunction] = [{}]
    for part in parts:
        found = _require_few_terms([_intersect_terms(one, other) for one, other in product(found, part)])
    return found


def _intersect_terms(one: Conjunction, other: Conjunction) -> Conjunction:
    met = dict(one)
    for column, mask in other.items():
        met[column] = met[column] & mask if column in met else mask
    return met


def build_boxes(terms: Sequence[Conjunction]) -> tuple[Box, ...]:
    """Return signed boxes that count each row of the disjunction of ``terms`` once: inclusion and exclusion.

    Raises:
        RequestError: more than 64 boxes.
    """
    if 2 ** len(terms) - 1 > MAX_TERMS:
        raise _build_too_many_error()
    found = []
    for size in range(1, len(terms) + 1):
        for chosen in combinations(terms, size):
            met: Conjunction = {}
            for term in chosen:
                met = _intersect_terms(met, term)
            if all(mask.any() for mask in met.values()):
                found.append(Box(met, 1 if size % 2 else -1))
    return tuple(found)


def _require_few_terms(terms: list[Conjunction]) -> list[Conjunction]:
    if len(terms) > MAX_TERMS:
        raise _build_too_many_error()
    return terms


def _build_too_many_error() -> RequestError:
    return RequestError(
        f"The condition expands to too many terms: the limit is {MAX_TERMS} after expanding OR and NOT.",
        fix="query its parts separately, or use IN and BETWEEN on one attribute",
    )
