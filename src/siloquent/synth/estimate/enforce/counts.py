"""Exact counts of violations, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from siloquent.maths.pairs.counting import PairComparison, PairRule, count_earlier_pairs, count_violating_pairs
from siloquent.synth.spec.compiled import CompiledConstraints, NormalForm, Violations, evaluate_row_test

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = Mapping[str, NDArray[np.integer]]


def find_passing(tests: tuple, codes: Codes, rows: int) -> NDArray[np.bool_]:  # type: ignore[type-arg]
    """Return a mask of the rows that pass all ``tests`` of one row, shape (rows,)."""
    found = np.ones(rows, dtype=bool)
    for test in tests:
        found &= evaluate_row_test(test, codes)
    return found


def build_pair_rule(form: NormalForm, codes: Codes, rows: int) -> PairRule:
    """Return the rule of a binary constraint over these rows; rows that hold an unknown value are not partners."""
    first, second = find_passing(form.first, codes, rows), find_passing(form.second, codes, rows)
    tests = []
    for test in form.pairs:
        left, right = codes[test.left.attribute], codes[test.right.attribute]
        first &= test.left.find_known(left, test.op)
        second &= test.right.find_known(right, test.op)
        positions = test.left.compute_positions(left)
        tests.append(
            PairComparison(test.op, positions, positions if test.is_same else test.right.compute_positions(right))
        )
    return PairRule(tuple(tests), first, second)


def count_broken(form: NormalForm, codes: Codes, rows: int) -> int:
    """Return the number of pairs of rows (rows, if the rule is about one row) that break the constraint."""
    if not form.is_binary:
        return int(find_passing(form.first, codes, rows).sum())
    return count_violating_pairs(build_pair_rule(form, codes, rows))


def count_violations(
    rows: NDArray[np.integer], compiled: CompiledConstraints, *, one_way: bool = True
) -> dict[int, Violations]:
    """Return the exact violations of each constraint that has a form, by constraint number.

    Args:
        rows: Cells, shape (rows, attributes).
        one_way: Also count as the thesis does, which takes longer; otherwise that count is that of both directions.
    """
    codes, count = compiled.split_columns(rows), len(rows)
    found = {}
    for one in compiled.constraints:
        if one.form is None:
            continue
        broken = count_broken(one.form, codes, count)
        possible = count * (count - 1) // 2 if one.form.is_binary else count
        earlier = broken
        if one.form.is_binary and broken and one_way:
            earlier = count_earlier_pairs(build_pair_rule(one.form, codes, count))
        found[one.number] = Violations(one.number, broken, earlier, possible)
    return found
