"""The product of the classes of some attributes: where tests are evaluated and groups are told apart, without data.

A test of one attribute never multiplies with another attribute's domain: a value matters only by which tests it passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.atoms import FALSE, TRUE, Truth, check_comparable, compared, values_of
from siloquent.explore.plan.classes import Runs, Test, check_work, classes_of, runs_of
from siloquent.explore.plan.compiled import Integers
from siloquent.explore.plan.limits import passes
from siloquent.explore.plan.numbers import Values, commensurate
from siloquent.explore.spec.forms import attribute_of
from siloquent.explore.spec.predicate import And, Compare, Expression, Not, Or, Predicate
from siloquent.schema import Block, Classes, Domain

MAX_TRUTHS = 2 * 10**9
"""Tests times the cells in which they are put together."""
max_truths: ContextVar[int] = ContextVar("max_truths", default=MAX_TRUTHS)
"""Lower where strangers ask for plans."""


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """One way to part the cells of an attribute: ``groups`` of each cell and OUTSIDE, -1 for none."""

    attribute: str
    groups: Runs
    labels: tuple[Any, ...]
    name: str


def tests_in(predicate: Predicate) -> Iterator[Test]:
    """The tests of ``predicate``, in order."""
    if isinstance(predicate, (And, Or)):
        for part in predicate.parts:
            yield from tests_in(part)
    elif isinstance(predicate, Not):
        yield from tests_in(predicate.part)
    else:
        yield predicate


def _sides(test: Test) -> tuple[Expression, ...]:
    return (test.left, test.right) if isinstance(test, Compare) else (test.expression,)


def attributes_in(predicate: Predicate, domain: Domain) -> Iterator[str]:
    """The declared names of the attributes that ``predicate`` looks at."""
    for test in tests_in(predicate):
        for side in _sides(test):
            name = attribute_of(side)
            if name is not None:
                yield domain[name].name


def _places_among(values: Values, other: Values) -> Integers:
    """Where each value stands among all of ``other``, shape (size + 1,): those in one gap compare alike with any."""
    data, others = (side.data.astype(str) if side.kind == "text" else side.data for side in (values, other))
    edges = np.unique(others[other.known])
    below, upto = (np.searchsorted(edges, data, side=side) for side in ("left", "right"))
    return np.where(values.known, below + upto, -1)


class Space:
    """The product of the classes of some attributes, in which tests can be evaluated.

    A class holds the cells of an attribute that all tests (and keys) treat alike.
    """

    def __init__(self, tests: Sequence[Test], domain: Domain, keys: Sequence[Key]) -> None:
        self.domain = domain
        signatures: dict[str, list[Runs]] = {key.attribute: [] for key in keys}
        for key in keys:
            signatures[key.attribute].append(key.groups)
        self._atoms: dict[tuple[Test, str], Runs] = {}
        self._pairs: dict[tuple[Test, str], Values] = {}
        check_work([(test, self.domain[name]) for test in tests for name in sorted(self._names(test))])
        for test in tests:
            self._prepare(test, signatures)
        order = {name: place for place, name in enumerate(domain.names)}
        self.names = tuple(sorted(signatures, key=order.__getitem__))
        self._first: dict[str, Integers] = {}
        classes: list[Classes] = []
        for name in self.names:
            found, self._first[name] = classes_of(signatures[name], domain[name].size)
            classes.append(found)
        self.block = Block(self.names, tuple(classes))
        if passes(len(tests) * self.block.size, max_truths.get()):
            raise RequestError(
                f"{len(tests):,} conditions over {self.block.size:,} cells of {', '.join(self.names)} are too many.",
                fix="ask fewer conditions at once, or about fewer attributes",
            )

    def _names(self, test: Test) -> set[str]:
        return {self.domain[name].name for side in _sides(test) if (name := attribute_of(side)) is not None}

    def _prepare(self, test: Test, signatures: dict[str, list[Runs]]) -> None:
        names = self._names(test)
        if len(names) == 1:
            (name,) = names
            self._atoms[test, name] = runs_of(test, self.domain[name])
            signatures.setdefault(name, []).append(self._atoms[test, name])
            return
        assert isinstance(test, Compare)
        sides = [(self.domain[attribute_of(side) or ""].name, side) for side in _sides(test)]
        found = {name: values_of(side, self.domain[name]) for name, side in sides}
        one, two = found.values()
        check_comparable(one, two, test.op)
        found = dict(zip(found, commensurate(one, two), strict=True))
        for name, values in found.items():
            self._pairs[test, name] = values
            (other,) = (found[left] for left in found if left != name)
            signatures.setdefault(name, []).append(Runs.of(_places_among(values, other)))

    def groups(self, key: Key) -> Integers:
        """The groups of ``key``, one entry a class, laid along its attribute's axis of the block."""
        return self._laid(key.attribute, key.groups.at(self._first[key.attribute]))

    def along(self, name: str, vector: NDArray[Any]) -> NDArray[Any]:
        """A vector over an attribute's cells, one entry a class, laid along the attribute's axis of the block."""
        return self._laid(name, vector[self._first[name]])

    def _laid(self, name: str, vector: NDArray[Any]) -> NDArray[Any]:
        shape = [1] * len(self.names)
        shape[self.names.index(name)] = -1
        return vector.reshape(shape)

    def truth(self, predicate: Predicate) -> Truth:
        """The truth of a predicate for each cell of the block, broadcastable to its shape (Kleene's logic)."""
        if isinstance(predicate, Not):
            return np.asarray(TRUE - self.truth(predicate.part), dtype=np.int8)
        if isinstance(predicate, (And, Or)):
            both = np.minimum if isinstance(predicate, And) else np.maximum
            result: Truth = np.full(
                (1,) * len(self.names), TRUE if isinstance(predicate, And) else FALSE, dtype=np.int8
            )
            for part in predicate.parts:
                result = both(result, self.truth(part))
            return result
        return self._test(predicate)

    def _test(self, test: Test) -> Truth:
        names = [self.domain[name].name for side in _sides(test) if (name := attribute_of(side)) is not None]
        if len(set(names)) == 1:
            return self._laid(names[0], self._atoms[test, names[0]].at(self._first[names[0]]))
        assert isinstance(test, Compare)
        left, right = (self._pairs[test, name] for name in names)
        # An unlisted value of a category is not known, so the comparison is UNKNOWN there: two of them may be equal.
        sides = [
            replace(values, data=self.along(name, values.data), known=self.along(name, values.known))
            for name, values in zip(names, (left, right), strict=True)
        ]
        return compared(sides[0], sides[1], test.op)
