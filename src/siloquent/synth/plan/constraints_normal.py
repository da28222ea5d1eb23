"""Normal forms of declared constraints: tests of one row or of a pair, with attributes on whole-number scales."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.maths.pairs.counting import combine_operators
from siloquent.schema import Attribute, AttributeRef, Comparison, DenialConstraint, Domain, FunctionalDependency, Key
from siloquent.schema.files.coercion import read_datetime
from siloquent.synth.spec.compiled import Axis, NormalForm, PairTest, Side, TupleTest, evaluate_row_test

NOWHERE = -9.0
"""The position of a constant that is not a cell: equal to none, different from all."""
MAX_TRIED = 10**6
"""The most cells of an attribute for which a set of tests is tried on every cell."""

BinaryConstraint = DenialConstraint | FunctionalDependency | Key


class NeverFires(Exception):
    """Raised if no row or pair can break the constraint, since its tests contradict one another; the text says why."""


def build_normal_form(constraint: BinaryConstraint, domain: Domain) -> NormalForm:
    """Return the constraint as "not (first(t1) and second(t2) and every pair test)".

    Raises:
        NeverFires: No rows of this domain can break it.
        ConstraintProblem: It compares values without a common scale, or reads a text.
    """
    if isinstance(constraint, Key):
        axes = [build_own_axis(domain[name]) for name in constraint.columns]
        return _simplify_form(NormalForm((), (), tuple(PairTest(axis, "=", axis) for axis in axes)), domain)
    if isinstance(constraint, FunctionalDependency):
        return _simplify_form(_convert_dependency(constraint, domain), domain)
    first: list[TupleTest] = []
    second: list[TupleTest] = []
    pairs: list[PairTest] = []
    for comparison in constraint.comparisons:
        test = _build_test(comparison, domain)
        if isinstance(test, PairTest):
            pairs.append(test)
        else:
            (first if comparison.left.tuple_variable == 1 else second).append(test)
    if second and not first and not pairs:
        first, second = second, first
    return _simplify_form(NormalForm(tuple(first), tuple(second), tuple(pairs)), domain)


def _convert_dependency(constraint: FunctionalDependency, domain: Domain) -> NormalForm:
    when = tuple(_build_test(comparison, domain) for comparison in constraint.when)
    if any(isinstance(test, PairTest) for test in when):
        raise ConstraintProblem(
            f"The condition of {', '.join(constraint.lhs)} -> {constraint.rhs} compares two rows; it may test only "
            "one.",
            fix="write it as a denial constraint over t1 and t2",
        )
    rows = tuple(test for test in when if isinstance(test, TupleTest))
    same = [PairTest(axis, "=", axis) for axis in (build_own_axis(domain[name]) for name in constraint.lhs)]
    rhs = build_own_axis(domain[constraint.rhs])
    return NormalForm(rows, rows, (*same, PairTest(rhs, "!=", rhs)))


def build_own_axis(attribute: Attribute) -> Axis:
    """Return the scale of an attribute that is compared only with itself: its cells."""
    if attribute.kind == "text":
        raise ConstraintProblem(
            f"{attribute.name!r} is a text; texts are not synthesised, and constraints cannot compare them.",
            fix="omit the constraint, or declare the attribute as a category",
        )
    return Axis(attribute.name, attribute.steps, other=attribute.other_index)


def build_shared_axes(left: Attribute, right: Attribute) -> tuple[Axis, Axis]:
    """Return the common scale of two attributes, in whole numbers.

    Raises:
        ConstraintProblem: They have no common scale.
    """
    if left.name == right.name:
        return build_own_axis(left), build_own_axis(left)
    if left.is_numeric and right.is_numeric:
        parts = [Fraction(part) for one in (left, right) for part in (one.lo, one.grid)]  # type: ignore[arg-type]
        unit = Fraction(
            math.gcd(
                *(part.numerator * (math.lcm(*(p.denominator for p in parts)) // part.denominator) for part in parts)
            ),
            math.lcm(*(part.denominator for part in parts)),
        )
        firsts = [int(part / unit) for part in parts]
        if max(abs(firsts[0] + left.steps * firsts[1]), abs(firsts[2] + right.steps * firsts[3])) >= 2**60:
            raise _build_incomparable_error(left, right, "their grids have no common step that fits whole numbers")
        return _build_line(left, firsts[0], firsts[1]), _build_line(right, firsts[2], firsts[3])
    if left.is_temporal and right.is_temporal:
        return _build_line(left, *left.moments[:2]), _build_line(right, *right.moments[:2])
    if left.kind == right.kind == "boolean":
        return build_own_axis(left), build_own_axis(right)
    if left.kind == right.kind == "category":
        places = {value: place for place, value in enumerate(dict.fromkeys((*left.values, *right.values)))}
        return tuple(  # type: ignore[return-value]
            Axis(one.name, one.steps, places=tuple(places[value] for value in one.values), other=one.other_index)
            for one in (left, right)
        )
    raise _build_incomparable_error(left, right, f"one is a {left.kind}, the other a {right.kind}")


def _build_line(attribute: Attribute, first: int, step: int) -> Axis:
    return Axis(attribute.name, attribute.steps, first, step, other=attribute.other_index)


def _build_incomparable_error(left: Attribute, right: Attribute, why: str) -> ConstraintProblem:
    return ConstraintProblem(
        f"{left.name!r} and {right.name!r} cannot be compared: {why}.", fix="compare attributes of one type"
    )


def _build_test(comparison: Comparison, domain: Domain) -> TupleTest | PairTest:
    """Build the test of one comparison; a pair test has t1 on the left."""
    left = domain[comparison.left.attribute]
    if not isinstance(comparison.right, AttributeRef):
        return TupleTest(
            build_own_axis(left), comparison.op, Side(find_position(left, comparison.right, comparison.op))
        )
    right = domain[comparison.right.attribute]
    a, b = build_shared_axes(left, right)
    if left.kind == "category" and left.values != right.values and comparison.op not in ("=", "!="):
        raise _build_incomparable_error(
            left, right, "their values are listed differently, so they have no common order"
        )
    if comparison.left.tuple_variable == comparison.right.tuple_variable:
        return TupleTest(a, comparison.op, b)
    test = PairTest(a, comparison.op, b)
    return test if comparison.left.tuple_variable == 1 else test.reversed


def find_position(attribute: Attribute, constant: object, op: str) -> float:
    """Return the position of ``constant`` among the attribute's cells; halves lie between two cells."""
    if attribute.is_numeric and isinstance(constant, Decimal):
        exact = (Fraction(constant) - Fraction(attribute.lo)) / Fraction(attribute.grid)  # type: ignore[arg-type]
        return _round_to_half(exact, attribute.steps)
    if attribute.is_temporal and (moment := read_datetime(constant)) is not None:
        first, step, _ = attribute.moments
        return _round_to_half(Fraction(moment - first, step), attribute.steps)
    if attribute.kind == "boolean" and isinstance(constant, bool):
        return float(constant)
    if attribute.kind == "category" and not isinstance(constant, bool):
        text = str(constant)
        if text in attribute.values:
            return float(attribute.values.index(text))
        if op in ("=", "!="):
            return NOWHERE
        raise ConstraintProblem(
            f"{text!r} is not a value of {attribute.name!r}, so nothing is above or below it.",
            fix=f"use one of {', '.join(attribute.values[:8])}",
        )
    raise ConstraintProblem(
        f"{attribute.name!r} is a {attribute.kind} and cannot be compared with {constant!r}.",
        fix="compare it with a constant of its own type",
    )


def _round_to_half(exact: Fraction, steps: int) -> float:
    if exact.denominator != 1:
        exact = Fraction(2 * math.floor(exact) + 1, 2)
    return float(min(max(exact, Fraction(-1)), Fraction(steps)))


def _simplify_form(form: NormalForm, domain: Domain) -> NormalForm:
    """Return the form with one test for each pair of sides; ids compare as different in every row."""
    kept: dict[tuple[Axis, Axis], list[PairTest]] = {}
    for test in form.pairs:
        if _is_id_test(test, domain):
            continue
        kept.setdefault((test.left, test.right), []).append(test)
    pairs = []
    for (left, right), tests in kept.items():
        op = combine_operators([test.op for test in tests])
        if op is None:
            raise NeverFires(f"what it says of {left.attribute} contradicts itself")
        pairs.append(PairTest(left, op, right))
    for rows in (form.first, form.second):
        _refuse_ids(rows, domain)
        _check_possible(rows, domain)
    return NormalForm(form.first, form.second, tuple(pairs))


def _is_id_test(test: PairTest, domain: Domain) -> bool:
    """Return whether this is an always passed test of an ``id``, which differs in all rows.

    Raises:
        NeverFires: It can never be passed.
        ConstraintProblem: Fresh numbers have no meaningful order.
    """
    kinds = {domain[test.left.attribute].kind, domain[test.right.attribute].kind}
    if "id" not in kinds:
        return False
    if test.op == "=" and test.is_same:
        raise NeverFires(f"every row has its own fresh {test.left.attribute}")
    if test.op == "!=" and test.is_same:
        return True
    raise ConstraintProblem(
        f"{test.left.attribute!r} is an id: rows get fresh numbers, whose order means nothing.",
        fix="omit the constraint",
    )


def _refuse_ids(tests: Iterable[TupleTest], domain: Domain) -> None:
    for test in tests:
        for name in test.attributes:
            if domain[name].kind in ("id", "text"):
                raise ConstraintProblem(
                    f"{name!r} is of type {domain[name].kind}, which has no values to test.",
                    fix="omit the constraint",
                )


def _check_possible(tests: Sequence[TupleTest], domain: Domain) -> None:
    """Check that some cell of each attribute passes its own tests; raise NeverFires otherwise."""
    alone: dict[str, list[TupleTest]] = {}
    for test in tests:
        if isinstance(test.right, Side):
            alone.setdefault(test.left.attribute, []).append(test)
    for name, those in alone.items():
        if domain[name].size <= MAX_TRIED:
            cells = {name: np.arange(domain[name].size)}
            if not np.logical_and.reduce([evaluate_row_test(test, cells) for test in those]).any():
                raise NeverFires(f"no declared value of {name} passes its tests")
