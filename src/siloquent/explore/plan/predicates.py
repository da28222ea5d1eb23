"""From predicates to blocks and whole matrices, without data.

A test of one attribute never multiplies with another attribute's domain: attributes that no predicate joins are blocks
of their own, and a value matters only by which tests it passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.explore.plan.atoms import (
    FALSE,
    TRUE,
    Truth,
    Values,
    atom,
    check_comparable,
    compared,
    places_through,
    values_of,
)
from siloquent.explore.plan.compiled import Compiled, Integers, Part, Summed
from siloquent.explore.plan.lookups import resolved
from siloquent.explore.spec.aggregates import Aggregate, Count, Moment, Quantile, Ranks, Sum
from siloquent.explore.spec.forms import attribute_of
from siloquent.explore.spec.predicate import (
    And,
    Column,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Through,
)
from siloquent.explore.spec.query import MOST_PREDICATES, Cube, GroupBy, Predicates, Query, Ranges, SomeGroups
from siloquent.explore.spec.render import render_expression, render_predicate
from siloquent.maths.sensitivity import Sensitivity, sensitivities
from siloquent.maths.workloads import is_disjoint, is_nested, merge_columns
from siloquent.schema import Attribute, Block, Domain, TableSchema

MOST_ENTRIES = 2 * 10**8
MOST_WEIGHTS = 25 * 10**6
UNIT_BITS = 12
MOST_DATES = 10_000
Test = Compare | InList | Like | IsNull


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """One way to part the cells of an attribute: ``groups`` of each cell, shape (size + 1,), -1 for none."""

    attribute: str
    groups: Integers
    labels: tuple[Any, ...]
    name: str


def compile_workload(query: Query, schema: TableSchema) -> Compiled:
    """The blocks, matrices, labels and sensitivities of ``query``; nothing is read off data.

    Raises:
        UnknownName: an attribute or category value that is not declared (did you mean).
        RequestError: types that do not fit, attributes that cannot be asked about, or too many cells or answers.
    """
    query = resolved(query, schema)
    workload, domain = query.workload, schema.domain
    if isinstance(workload, SomeGroups):
        return _some(compile_workload(replace(query, workload=workload.all_groups), schema), workload, query, schema)
    if isinstance(workload, Predicates):
        parts = _listed([_with(query.where, p) for p in workload.parts], domain)
        labels: tuple[tuple[Any, ...], ...] = tuple((render_predicate(p),) for p in workload.parts)
        names: tuple[str, ...] = ("predicate",)
        if workload.parts == (And(()),):
            labels, names = ((),), ()
    else:
        keys, prefix = _keys_of(workload, domain)
        parts = [_keyed(keys, query.where, domain, prefix=prefix)]
        labels = tuple(_combinations([key.labels for key in keys]))
        names = tuple(key.name for key in keys)
    return _finished(parts, names, labels, query, schema)


def compile_keys(
    keys: list[Key], value: Key, query: Query, schema: TableSchema, *, chosen: Sequence[int] | None
) -> Compiled:
    """Counts of every group of ``value`` within each combination of ``keys`` side by side; the answers are these.

    Args:
        chosen: The combinations that are wanted; None for all of them.
    """
    part = _keyed([*keys, value], query.where, schema.domain, prefix=False)
    labels = tuple(_combinations([key.labels for key in keys]))
    wanted = range(len(labels)) if chosen is None else chosen
    size = len(value.labels)
    place = np.full(part.columns + 1, -1, dtype=np.int64)
    for new, old in enumerate(wanted):
        place[old * size : (old + 1) * size] = np.arange(new * size, (new + 1) * size)
    kept = Part(part.block, place[part.column], len(wanted) * size)
    return _finished([kept], tuple(key.name for key in keys), tuple(labels[i] for i in wanted), query, schema)


def _some(every: Compiled, workload: SomeGroups, query: Query, schema: TableSchema) -> Compiled:
    """``every`` group's workload without those that were not chosen: their cells are counted no more."""
    (part,) = every.parts
    place = np.full(part.columns + 1, -1, dtype=np.int64)  # the last entry is for cells that no group counts
    place[list(workload.chosen)] = np.arange(len(workload.chosen))
    kept = Part(part.block, place[part.column], len(workload.chosen))
    return _finished([kept], every.keys, tuple(every.labels[i] for i in workload.chosen), query, schema)


def _with(where: Predicate | None, predicate: Predicate) -> Predicate:
    return predicate if where is None else And((where, predicate))


def _combinations(labels: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    from itertools import product

    return product(*labels)


def _finished(
    parts: list[Part], names: tuple[str, ...], labels: tuple[tuple[Any, ...], ...], query: Query, schema: TableSchema
) -> Compiled:
    rows, replace_one, answers = schema.unit.max_rows, schema.replace_one, len(labels)
    summed = _summed(query.aggregate, schema.domain)
    if summed is None:
        found = sensitivities([_columns_of(part) for part in parts], replace_one=replace_one, rows=rows)
    else:
        single = sensitivities([_columns_of(part) for part in parts], replace_one=False, rows=1)
        found = _sum_sensitivity(single, summed, answers, rows=rows, replace_one=replace_one)
    running = len(parts) == 1 and parts[0].running
    identity = len(parts) == 1 and parts[0].weights is None and not running
    weights: NDArray[Any] | None = parts[0].weights if len(parts) == 1 else None
    return Compiled(
        parts=tuple(parts),
        keys=names,
        labels=labels,
        nested=is_nested(weights) if weights is not None else running or (identity and answers == 1),
        disjoint=is_disjoint(weights) if weights is not None else identity,
        sensitivity=found,
        monotone=not replace_one and (summed is None or summed.lowest >= 0 or summed.highest <= 0),
        replace_one=replace_one,
        rows=rows,
        summed=summed,
        slack=_most_columns(parts) * Fraction(1, 2) if summed is not None and summed.quantum > 1 else Fraction(0),
    )


def _columns_of(part: Part) -> NDArray[np.int64]:
    """A matrix whose columns differ as those of the part's own that some cell belongs to."""
    occurring = np.flatnonzero(np.bincount(part.column[part.column >= 0], minlength=part.columns))
    if part.running:  # the first column has the most ones, and no two differ by more than it has
        return np.array(np.arange(part.columns)[:, None] >= occurring[:1], dtype=np.int64)
    if part.weights is None:  # two answers of one column each stand for any number of them
        return np.eye(min(len(occurring), 2), dtype=np.int64)
    return part.matrix[:, occurring]


def _most_columns(parts: Sequence[Part]) -> int:
    """The most columns that an answer adds up."""
    return max(
        (part.columns if part.running else 1)
        if part.weights is None
        else int(part.weights.sum(axis=1, dtype=np.int64).max(initial=0))
        for part in parts
    )


def _summed(aggregate: Aggregate, domain: Domain) -> Summed | None:
    """What is added up, None for counts of all rows. Numbers of many steps are rounded to coarse units.

    A unit is 2^-12 of the largest value at most, which noise that hides such a value hides many times over; noise can
    be drawn in it.
    """
    if isinstance(aggregate, (Count, Quantile, Ranks)):
        return None
    assert isinstance(aggregate, (Sum, Moment))  # all others are computed from these
    attribute, power = domain[aggregate.attribute], aggregate.power if isinstance(aggregate, Moment) else 1
    if not attribute.is_numeric or attribute.grid is None or attribute.lo is None:
        raise RequestError(f"SUM takes a number; {attribute.name!r} is {attribute.kind}.")
    if power == 0:
        return Summed(attribute.name, Fraction(1), 0, 1, 1, power=0)
    grid, offset = Fraction(attribute.grid), int(Fraction(attribute.lo) / Fraction(attribute.grid))  # type: ignore[arg-type]
    if isinstance(aggregate, Moment):
        offset = -centre_of(attribute)
    lowest, highest = offset, offset + attribute.steps - 1
    if power == 2:
        grid, lowest, highest = grid**2, 0, max(abs(lowest), abs(highest)) ** 2
    quantum = 1 << max(0, max(abs(lowest), abs(highest)).bit_length() - UNIT_BITS)
    return Summed(attribute.name, grid, offset, lowest // quantum, -(-highest // quantum), quantum, power)


def centre_of(attribute: Attribute) -> int:
    """The place around which averages and variances are computed."""
    return attribute.steps // 2


def _sum_sensitivity(
    columns: Sensitivity, summed: Summed, answers: int, *, rows: int, replace_one: bool
) -> Sensitivity:
    """Of W applied to sums: ``columns`` is that of the 0/1 matrix for one row, add-remove.

    Adding a row moves an answer by its value, at most D. Replacing one moves an answer by at most the span of
    {0} and [lowest, highest], and all of them together by at most twice a column of D.
    """
    largest = summed.largest
    if not replace_one:
        return Sensitivity(rows * largest * columns.l1, (rows * largest) ** 2 * columns.l2_squared, rows * largest)
    span = max(summed.highest, 0) - min(summed.lowest, 0)
    return Sensitivity(
        l1=rows * min(2 * largest * columns.l1, answers * span),
        l2_squared=rows**2 * min(4 * largest**2 * columns.l2_squared, answers * span**2),
        linf=rows * span * columns.linf,
    )


# Keys: GROUP BY, CUBE, HISTOGRAM, PREFIX


def _keys_of(workload: GroupBy | Cube | Ranges | Any, domain: Domain) -> tuple[list[Key], bool]:
    if isinstance(workload, Ranges):
        return [_ranges(workload, domain[workload.attribute])], workload.shape == "prefix"
    expressions = workload.keys if isinstance(workload, GroupBy) else [Column(name) for name in workload.attributes]
    keys = [_key(expression, domain) for expression in expressions]
    if math.prod(len(key.labels) for key in keys) > MOST_PREDICATES:
        raise RequestError(
            f"The question makes more than {MOST_PREDICATES:,} groups.", fix="group by fewer or coarser keys"
        )
    return keys, False


def keys_of(workload: GroupBy, domain: Domain) -> list[Key]:
    """The keys of GROUP BY.

    Raises:
        UnknownName, RequestError: as ``compile_workload``.
    """
    return _keys_of(workload, domain)[0]


def _key(expression: Expression, domain: Domain) -> Key:
    name = attribute_of(expression)
    assert name is not None
    attribute = domain[name]
    if isinstance(expression, Through):
        public = _key(Column(expression.attribute.name), Domain((expression.attribute,)))
        return replace(public, attribute=attribute.name, groups=public.groups[places_through(expression)])
    if not isinstance(expression, Column):
        return _expression_key(expression, attribute)
    if attribute.is_numeric:
        if not attribute.edges:
            raise RequestError(
                f"Attribute {attribute.name!r} is a number without declared bins, so it cannot be grouped by as it is.",
                fix=f"GROUP BY {attribute.name} // 10, or bins = {{ width = .. }} in its declaration",
            )
        return Key(attribute.name, attribute.bin_of(), tuple(attribute.bin_labels()), attribute.name)
    if not attribute.is_countable or (attribute.is_temporal and attribute.steps > MOST_DATES):
        fix = f"GROUP BY year({attribute.name})" if attribute.is_temporal else "group by a category"
        raise RequestError(f"Attribute {attribute.name!r} cannot be grouped by as it is.", fix=fix)
    groups = np.append(np.arange(attribute.size), -1)
    return Key(attribute.name, groups, tuple(attribute.label(i) for i in range(attribute.size)), attribute.name)


def _expression_key(expression: Expression, attribute: Attribute) -> Key:
    values = values_of(expression, attribute)
    found, inverse = np.unique(values.data[values.known], return_inverse=True)
    groups = np.full(len(values.data), -1, dtype=np.int64)
    groups[values.known] = inverse
    labels = [_label(value) for value in found]
    if attribute.null == "cell":
        groups[attribute.size - 1] = len(labels)
        labels.append(None)
    return Key(attribute.name, groups, tuple(labels), render_expression(expression))


def _label(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _ranges(workload: Ranges, attribute: Attribute) -> Key:
    if not attribute.is_numeric:
        raise RequestError(f"{workload.shape.upper()} takes a number; {attribute.name!r} is {attribute.kind}.")
    count = math.ceil((workload.hi - workload.lo) / workload.width)
    edges = [min(workload.lo + i * workload.width, workload.hi) for i in range(count + 1)]
    lo, grid = Fraction(attribute.lo), Fraction(attribute.grid)  # type: ignore[arg-type]
    # The first cell at or above each edge, exactly.
    starts = np.array([min(max(math.ceil((Fraction(e) - lo) / grid), 0), attribute.steps) for e in edges])
    groups = np.full(attribute.size + 1, -1, dtype=np.int64)
    cells = np.arange(attribute.steps)
    place = np.searchsorted(starts, cells, side="right") - 1
    groups[: attribute.steps] = np.where((place >= 0) & (place < count), place, -1)
    first = [workload.lo] * count if workload.shape == "prefix" else edges[:-1]
    labels = tuple(f"[{a}, {b})" for a, b in zip(first, edges[1:], strict=True))
    return Key(attribute.name, groups, labels, attribute.name)


def _keyed(keys: list[Key], where: Predicate | None, domain: Domain, *, prefix: bool) -> Part:
    """One block over the keys' attributes and those of ``where``; one answer a combination of groups."""
    tests = list(_tests(where)) if where is not None else []
    space = _Space(tests, domain, keys)
    answer = np.zeros((1,) * len(space.names), dtype=np.int64)
    for key in keys:
        groups = space.along(key.attribute, key.groups)
        answer = np.where((answer < 0) | (groups < 0), -1, answer * len(key.labels) + groups)
    if where is not None:
        answer = np.where(space.truth(where) == TRUE, answer, -1)
    column = np.broadcast_to(answer, space.block.shape).reshape(-1)
    count = math.prod(len(key.labels) for key in keys)
    running = prefix and count * count > MOST_WEIGHTS
    weights = np.tril(np.ones((count, count), dtype=np.int8)) if prefix and not running else None
    return Part(space.block, np.ascontiguousarray(column), count, weights, running)


# Written-out predicates


def _listed(predicates: list[Predicate], domain: Domain) -> list[Part]:
    """One part a group of predicates that share attributes, answers in the order of ``predicates``."""
    parts = []
    for members in _joined([frozenset(_attributes(p, domain)) for p in predicates]):
        tests = list(dict.fromkeys(test for i in members for test in _tests(predicates[i])))
        space = _Space(tests, domain, [])
        if len(predicates) * space.block.size > MOST_ENTRIES:
            raise RequestError(
                f"{len(predicates):,} predicates over {space.block.size:,} cells are too many.",
                fix="ask about fewer attributes at once",
            )
        cells: NDArray[Any] = np.zeros((len(predicates), space.block.size), dtype=np.int8)
        for i in members:
            truth = np.broadcast_to(space.truth(predicates[i]), space.block.shape)
            cells[i] = (truth == TRUE).reshape(-1)
        weights, column = merge_columns(cells)
        if weights.size > MOST_WEIGHTS:
            raise RequestError(
                f"{len(predicates):,} predicates tell {weights.shape[1]:,} kinds of rows apart, which is too many.",
                fix="ask fewer predicates at once",
            )
        parts.append(Part(space.block, column, weights.shape[1], weights.astype(np.int8)))
    return parts


def _joined(sets: list[frozenset[str]]) -> list[list[int]]:
    """Predicates grouped by shared attributes (union-find); those without attributes stand together."""
    group: dict[str, set[str]] = {}
    for names in sets:
        joined = set(names).union(*(group.get(name, {name}) for name in names))
        group |= dict.fromkeys(joined, joined)
    by_root: dict[frozenset[str], list[int]] = {}
    for i, names in enumerate(sets):
        root = frozenset(group[next(iter(names))]) if names else frozenset()
        by_root.setdefault(root, []).append(i)
    return list(by_root.values())


def _tests(predicate: Predicate) -> Iterator[Test]:
    if isinstance(predicate, (And, Or)):
        for part in predicate.parts:
            yield from _tests(part)
    elif isinstance(predicate, Not):
        yield from _tests(predicate.part)
    else:
        yield predicate


def _sides(test: Test) -> tuple[Expression, ...]:
    return (test.left, test.right) if isinstance(test, Compare) else (test.expression,)


def _attributes(predicate: Predicate, domain: Domain) -> Iterator[str]:
    for test in _tests(predicate):
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


class _Space:
    """The product of the classes of some attributes, in which tests can be evaluated.

    A class holds the cells of an attribute that all tests (and keys) treat alike.
    """

    def __init__(self, tests: Sequence[Test], domain: Domain, keys: Sequence[Key]) -> None:
        self.domain = domain
        signatures: dict[str, list[NDArray[np.int64]]] = {key.attribute: [] for key in keys}
        for key in keys:
            signatures[key.attribute].append(key.groups)
        self._atoms: dict[tuple[Test, str], Truth] = {}
        self._pairs: dict[tuple[Test, str], Values] = {}
        for test in tests:
            self._prepare(test, signatures)
        order = {name: place for place, name in enumerate(domain.names)}
        self.names = tuple(sorted(signatures, key=order.__getitem__))
        self._first: dict[str, Integers] = {}
        classes = []
        for name in self.names:
            _, first, found = np.unique(np.vstack(signatures[name]), axis=1, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first, kind="stable")] = np.arange(len(first))
            classes.append(rank[found.reshape(-1)])
            self._first[name] = np.sort(first)
        self.block = Block(self.names, tuple(classes))

    def _prepare(self, test: Test, signatures: dict[str, list[NDArray[np.int64]]]) -> None:
        names = {self.domain[name].name for side in _sides(test) if (name := attribute_of(side)) is not None}
        if len(names) == 1:
            (name,) = names
            self._atoms[test, name] = atom(test, self.domain[name])
            signatures.setdefault(name, []).append(self._atoms[test, name].astype(np.int64))
            return
        assert isinstance(test, Compare)
        sides = [(self.domain[attribute_of(side) or ""].name, side) for side in _sides(test)]
        found = {name: values_of(side, self.domain[name]) for name, side in sides}
        one, two = found.values()
        check_comparable(one, two, test.op)
        for name, values in found.items():
            self._pairs[test, name] = values
            (other,) = (found[left] for left in found if left != name)
            signatures.setdefault(name, []).append(_places_among(values, other))

    def along(self, name: str, vector: NDArray[Any]) -> NDArray[Any]:
        """A vector over an attribute's cells, one entry a class, laid along the attribute's axis of the block."""
        shape = [1] * len(self.names)
        shape[self.names.index(name)] = -1
        return vector[self._first[name]].reshape(shape)

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
            return self.along(names[0], self._atoms[test, names[0]])
        assert isinstance(test, Compare)
        left, right = (self._pairs[test, name] for name in names)
        # An unlisted value of a category is not known, so the comparison is UNKNOWN there: two of them may be equal.
        sides = [
            Values(self.along(name, values.data), self.along(name, values.known), values.kind)
            for name, values in zip(names, (left, right), strict=True)
        ]
        return compared(sides[0], sides[1], test.op)
