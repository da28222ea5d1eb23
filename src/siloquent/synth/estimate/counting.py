"""Constraints as count tables: the earlier rows with which a new row would break them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.fixes import UseOption, build_fix
from siloquent.maths.pairs.counting import Operator, combine_operators
from siloquent.maths.pairs.tables import MAX_CELLS, NOBODY, CountAxis, CountTerm, PairTables
from siloquent.synth.spec.compiled import CompiledConstraints, NormalForm, PairTest, TupleTest, evaluate_row_test

if TYPE_CHECKING:
    from numpy.typing import NDArray


def build_pair_tables(forms: Sequence[NormalForm], compiled: CompiledConstraints, target: str) -> PairTables:
    """Return empty tables of some constraints, ready to be queried for every value of ``target``.

    Raises:
        ConstraintProblem: A constraint needs more than 10^7 cells, or a condition compares two attributes of one row.
    """
    terms = [term for rule, form in enumerate(forms) for term in build_count_terms(rule, form, compiled)]
    column = compiled.find_column(target)
    return PairTables(terms, rules=len(forms), target=column, values=compiled.sizes[column])


def build_count_terms(rule: int, form: NormalForm, compiled: CompiledConstraints) -> list[CountTerm]:
    """Return terms of |X or Y| = |X| + |Y| - |X and Y|; the new row is t1 in X, t2 in Y; ``!=`` is all minus equal."""
    forward = _expand_terms(rule, 1, form.pairs, form.first, form.second, compiled)
    mirrored = tuple(test.reversed for test in form.pairs)
    backward = _expand_terms(rule, 1, mirrored, form.second, form.first, compiled)
    both = _merge_tests((*form.pairs, *mirrored))
    if both is None:
        return forward + backward
    either = (*form.first, *form.second)
    # "<=" and ">=" together are "=" among values that have an order: ``other`` equals itself, and is in neither.
    in_order = frozenset((t.left.attribute, t.right.attribute) for t in form.pairs if t.op not in ("=", "!="))
    in_order |= frozenset((b, a) for a, b in in_order)
    return forward + backward + _expand_terms(rule, -1, both, either, either, compiled, in_order=in_order)


def _merge_tests(tests: Sequence[PairTest]) -> tuple[PairTest, ...] | None:
    """Return one test for each pair of sides; None if they contradict one another."""
    kept: dict[tuple[str, str], list[PairTest]] = {}
    for test in tests:
        kept.setdefault((test.left.attribute, test.right.attribute), []).append(test)
    found = []
    for same in kept.values():
        op = combine_operators([test.op for test in same])
        if op is None:
            return None
        found.append(PairTest(same[0].left, op, same[0].right))
    return tuple(found)


def _expand_terms(
    rule: int,
    sign: int,
    tests: Sequence[PairTest],
    asked: Sequence[TupleTest],
    stored: Sequence[TupleTest],
    compiled: CompiledConstraints,
    *,
    in_order: frozenset[tuple[str, str]] = frozenset(),
) -> list[CountTerm]:
    fixed = [_build_filter_axis(test, compiled, asked=True) for test in asked]
    fixed += [_build_filter_axis(test, compiled, asked=False) for test in stored]
    fixed += [_build_axis(test, compiled) for test in tests if test.op != "=" and test.op != "!="]
    for test in tests:
        if test.op == "=":
            sides = (test.left.attribute, test.right.attribute)
            fixed.append(_build_axis(test, compiled, known_as="<=" if sides in in_order else "="))
    unequal = [test for test in tests if test.op == "!="]
    found = []
    for chosen in range(1 << len(unequal)):
        axes = list(fixed)
        for place, test in enumerate(unequal):
            as_equal = PairTest(test.left, "=", test.right)
            axes.append(_build_axis(as_equal, compiled) if chosen >> place & 1 else _build_known_axis(test, compiled))
        term = CountTerm(rule, sign * (-1) ** bin(chosen).count("1"), tuple(axes))
        if term.cells > MAX_CELLS:
            raise ConstraintProblem(
                f"A constraint over {', '.join(sorted({t.left.attribute for t in tests}))} needs {term.cells:,} "
                f"counts; the limit is {MAX_CELLS:,}.",
                fix=build_fix("declare coarser grids, or use ", UseOption("engine", "tree")),
            )
        found.append(term)
    return found


def _list_cells(name: str, compiled: CompiledConstraints) -> NDArray[np.int64]:
    return np.arange(compiled.sizes[compiled.find_column(name)], dtype=np.int64)


def _build_axis(test: PairTest, compiled: CompiledConstraints, *, known_as: Operator | None = None) -> CountAxis:
    """Return one comparison as an axis; ``known_as``: the operator that decides which values are comparable."""
    known_by = known_as or test.op
    left, right = _list_cells(test.left.attribute, compiled), _list_cells(test.right.attribute, compiled)
    known_left, known_right = test.left.find_known(left, known_by), test.right.find_known(right, known_by)
    at_left, at_right = test.left.compute_positions(left), test.right.compute_positions(right)
    places = np.unique(at_right[known_right])
    ranks = np.searchsorted(places, at_right)
    if test.op == "=":
        where = np.minimum(np.searchsorted(places, at_left), max(len(places) - 1, 0))
        met = known_left & (places[where] == at_left) if len(places) else np.zeros(len(left), dtype=bool)
        asked, ordered = np.where(met, where, NOBODY), False
    elif test.op in (">", ">="):
        bound = np.searchsorted(places, at_left, side="left" if test.op == ">" else "right")
        asked, ordered = np.where(known_left, bound, NOBODY), True
    else:
        bound = len(places) - np.searchsorted(places, at_left, side="right" if test.op == "<" else "left")
        asked, ordered = np.where(known_left, bound, NOBODY), True
        ranks = len(places) - 1 - ranks
    return CountAxis(
        compiled.find_column(test.right.attribute),
        np.where(known_right, ranks, NOBODY),
        compiled.find_column(test.left.attribute),
        asked.astype(np.int64),
        max(len(places), 1),
        ordered,
    )


def _build_known_axis(test: PairTest, compiled: CompiledConstraints) -> CountAxis:
    """Return the coordinate shared by all rows whose values on both sides are known."""
    left, right = _list_cells(test.left.attribute, compiled), _list_cells(test.right.attribute, compiled)
    return CountAxis(
        compiled.find_column(test.right.attribute),
        np.where(test.right.find_known(right, "!="), 0, NOBODY),
        compiled.find_column(test.left.attribute),
        np.where(test.left.find_known(left, "!="), 0, NOBODY),
        1,
        False,
    )


def _build_filter_axis(test: TupleTest, compiled: CompiledConstraints, *, asked: bool) -> CountAxis:
    """Return the coordinate shared by all rows that pass a condition, on one side."""
    if len(test.attributes) > 1:
        raise ConstraintProblem(
            f"A condition that compares {' and '.join(test.attributes)} of one row has no count table.",
            fix=UseOption("engine", "tree"),
        )
    (name,) = test.attributes
    cells = _list_cells(name, compiled)
    passing = np.where(evaluate_row_test(test, {name: cells}), 0, NOBODY)
    column, all_pass = compiled.find_column(name), np.zeros(len(cells), dtype=np.int64)
    return CountAxis(column, all_pass if asked else passing, column, passing if asked else all_pass, 1, False)
