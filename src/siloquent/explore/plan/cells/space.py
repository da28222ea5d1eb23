"""The product of the classes of some attributes, in which tests are evaluated and groups separated, without data.

A test of one attribute never multiplies with another attribute's domain: a value matters only by the tests it passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.cells.classes import Cuts, Runs, Test, build_classes, build_runs_from, check_work
from siloquent.explore.plan.cells.compiled import Integers
from siloquent.explore.plan.cells.numbers import Values, align_values
from siloquent.explore.plan.cells.predicate_evaluation import (
    FALSE,
    TRUE,
    Truth,
    check_comparable,
    compare_cells,
    evaluate_expression,
)
from siloquent.explore.plan.limits import passes
from siloquent.explore.spec.predicate import And, Column, Compare, Expression, IsNull, Not, Or, Predicate
from siloquent.explore.spec.rewriting.normal_form import find_attribute
from siloquent.schema import Block, Classes, Domain

MAX_TRUTHS = 2 * 10**9
"""The maximum number of tests times the cells in which they are combined."""
max_truths: ContextVar[int] = ContextVar("max_truths", default=MAX_TRUTHS)
"""The same limit for the current context; lower for plans requested by the public."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupKey:
    """A partition of an attribute's cells: ``groups`` of each cell and OUTSIDE, -1 for none."""

    attribute: str
    groups: Runs
    labels: tuple[Any, ...]
    name: str


def iter_tests(predicate: Predicate) -> Iterator[Test]:
    """Yield the tests of ``predicate``, in order."""
    if isinstance(predicate, (And, Or)):
        for part in predicate.parts:
            yield from iter_tests(part)
    elif isinstance(predicate, Not):
        yield from iter_tests(predicate.part)
    else:
        yield predicate


def _list_sides(test: Test) -> tuple[Expression, ...]:
    return (test.left, test.right) if isinstance(test, Compare) else (test.expression,)


def iter_attributes(predicate: Predicate, domain: Domain) -> Iterator[str]:
    """Yield the declared names of the attributes that ``predicate`` uses."""
    for test in iter_tests(predicate):
        for side in _list_sides(test):
            name = find_attribute(side)
            if name is not None:
                yield domain[name].name


def _rank_among(values: Values, other: Values) -> Integers:
    """Rank each value among all of ``other``, shape (size + 1,): values in one gap compare alike with any."""
    data, others = (side.data.astype(str) if side.kind == "text" else side.data for side in (values, other))
    edges = np.unique(others[other.known])
    below, upto = (np.searchsorted(edges, data, side=side) for side in ("left", "right"))
    return np.where(values.known, below + upto, -1)


class Space:
    """The product of the classes of some attributes, in which tests can be evaluated.

    A class holds the cells of an attribute that all tests (and keys) treat alike.
    """

    def __init__(self, tests: Sequence[Test], domain: Domain, keys: Sequence[GroupKey]) -> None:
        self.domain = domain
        signatures: dict[str, list[Runs]] = {key.attribute: [] for key in keys}
        for key in keys:
            signatures[key.attribute].append(key.groups)
        self._atoms: dict[tuple[Test, str], Runs] = {}
        self._pairs: dict[tuple[Test, str], Values] = {}
        named = [(test, name) for test in tests for name in sorted(self._list_names(test))]
        found = check_work([(test, self.domain[name]) for test, name in named])
        cuts = dict(zip(named, found, strict=True))
        for test in tests:
            self._prepare(test, signatures, cuts)
        order = {name: place for place, name in enumerate((*domain.names, *(one.name for one in domain.computed)))}
        self.names = tuple(sorted(signatures, key=order.__getitem__))
        self._first: dict[str, Integers] = {}
        classes: list[Classes] = []
        for name in self.names:
            parted, self._first[name] = build_classes(signatures[name], domain[name].size)
            classes.append(parted)
        computed = tuple(domain[name] for name in self.names if domain[name].computed is not None)
        self.block = Block(self.names, tuple(classes), computed)
        if passes(len(tests) * self.block.size, max_truths.get()):
            raise RequestError(
                f"{len(tests):,} conditions over {self.block.size:,} cells of {', '.join(self.names)} exceed the "
                "limit.",
                fix="use fewer conditions or fewer attributes",
            )

    def _list_names(self, test: Test) -> set[str]:
        return {self.domain[name].name for side in _list_sides(test) if (name := find_attribute(side)) is not None}

    def _prepare(
        self, test: Test, signatures: dict[str, list[Runs]], cuts: Mapping[tuple[Test, str], Cuts | None]
    ) -> None:
        names = self._list_names(test)
        if len(names) == 1:
            (name,) = names
            self._atoms[test, name] = build_runs_from(cuts[test, name], test, self.domain[name])
            signatures.setdefault(name, []).append(self._atoms[test, name])
            return
        assert isinstance(test, Compare)
        sides = [(self.domain[find_attribute(side) or ""].name, side) for side in _list_sides(test)]
        found = {name: evaluate_expression(side, self.domain[name]) for name, side in sides}
        one, two = found.values()
        check_comparable(one, two, test.op)
        found = dict(zip(found, align_values(one, two), strict=True))
        for name, values in found.items():
            self._pairs[test, name] = values
            (other,) = (found[left] for left in found if left != name)
            signatures.setdefault(name, []).append(Runs.from_vector(_rank_among(values, other)))

    def lay_groups(self, key: GroupKey) -> Integers:
        """Lay the groups of ``key``, one entry per class, along its attribute's axis of the block."""
        return self._reshape_along(key.attribute, key.groups.get_values(self._first[key.attribute]))

    def lay_along(self, name: str, vector: NDArray[Any]) -> NDArray[Any]:
        """Lay a vector over an attribute's cells, one entry per class, along the attribute's axis of the block."""
        return self._reshape_along(name, vector[self._first[name]])

    def _reshape_along(self, name: str, vector: NDArray[Any]) -> NDArray[Any]:
        shape = [1] * len(self.names)
        shape[self.names.index(name)] = -1
        return vector.reshape(shape)

    def evaluate(self, predicate: Predicate, *, negated: bool = False) -> Truth:
        """Evaluate a predicate for each cell of the block, broadcastable to its shape (Kleene's logic).

        Args:
            negated: Whether a NOT stands around it.
        """
        if isinstance(predicate, Not):
            return np.asarray(TRUE - self.evaluate(predicate.part, negated=True), dtype=np.int8)
        if isinstance(predicate, (And, Or)):
            both = np.minimum if isinstance(predicate, And) else np.maximum
            result: Truth = np.full(
                (1,) * len(self.names), TRUE if isinstance(predicate, And) else FALSE, dtype=np.int8
            )
            for part in predicate.parts:
                result = both(result, self.evaluate(part, negated=negated))
            return result
        if isinstance(predicate, IsNull) and not negated:
            self._check_null(predicate)
        return self._test(predicate)

    def _check_null(self, test: IsNull) -> None:
        """Refuse a count of NULL if the declaration leaves such rows out; rows with a value can be counted."""
        name = test.expression.name if isinstance(test.expression, Column) else None
        if name is not None and self.domain[name].null != "cell":
            attribute = self.domain[name]
            raise RequestError(
                f"{attribute.name!r} is never NULL: it is declared with null = {attribute.null!r}; only null = 'cell' "
                "counts the rows without it."
            )

    def _test(self, test: Test) -> Truth:
        names = [self.domain[name].name for side in _list_sides(test) if (name := find_attribute(side)) is not None]
        if len(set(names)) == 1:
            return self._reshape_along(names[0], self._atoms[test, names[0]].refine_to(self._first[names[0]]))
        assert isinstance(test, Compare)
        left, right = (self._pairs[test, name] for name in names)
        # An unlisted value of a category is unknown, so the comparison is UNKNOWN there: two of them may be equal.
        sides = [
            replace(values, data=self.lay_along(name, values.data), known=self.lay_along(name, values.known))
            for name, values in zip(names, (left, right), strict=True)
        ]
        return compare_cells(sides[0], sides[1], test.op)
