"""Repair of an edited or foreign table: the hard constraints are kept with as few changed cells as the passes need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.maths.pairs.counting import count_violations_per_row
from siloquent.synth.estimate.enforce.block import enforce_block, write_majority
from siloquent.synth.estimate.enforce.constraints import find_broken_hard
from siloquent.synth.estimate.enforce.counts import build_pair_rule, count_broken
from siloquent.synth.estimate.enforce.coupling import couple_by_rank, number_groups
from siloquent.synth.estimate.enforce.keys import make_unique
from siloquent.synth.estimate.enforce.masks import redraw_broken
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, EnforcementPass

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class RepairResult:
    """Rows after a repair.

    Attributes:
        rows: Cells, shape (rows, attributes).
        changed: The changed cells: (row, column), shape (changes, 2), in row order.
        before: The number of pairs (rows) that broke each broken constraint, by its number.
    """

    rows: NDArray[np.int32]
    changed: NDArray[np.int64]
    before: dict[int, int]


def repair(rows: NDArray[np.integer], compiled: CompiledConstraints, random: np.random.Generator) -> RepairResult:
    """Return ``rows`` with every hard constraint kept; a table that keeps them is returned unchanged.

    Rules about one row: the values of the nearest clean row. FDs: the majority of the file. Orders: rank coupling of
    the contexts that break them. Keys: free combinations. Everything else, and remaining violations: the copy rule.

    Args:
        rows: Cells, shape (rows, attributes); -1 is a value outside the declared domain, which breaks no constraint.
    Raises:
        ConstraintProblem: Too many rows for a key, or for a constraint that equal rows break.
    """
    kept = rows.astype(compiled.cell_type)
    before = {one.number: _count_broken(kept, one, compiled) for one in find_broken_hard(kept, compiled)}
    if before:
        for step in compiled.passes:
            _repair_pass(kept, step, compiled, random)
        _repair_rest(kept, compiled, random)
    broken = find_broken_hard(kept, compiled)
    if broken:
        raise ConstraintProblem(
            f"{'; '.join(one.text for one in broken)}: no repair was found for {len(kept):,} rows.",
            fix="remove rows, or make the constraint soft: hard = false",
        )
    return RepairResult(kept, np.argwhere(kept != rows), before)


def _count_broken(rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints) -> int:
    assert one.form is not None
    return count_broken(one.form, compiled.split_columns(rows), len(rows))


def _repair_pass(
    rows: NDArray[np.int32], step: EnforcementPass, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Run one pass over the rows that break its constraints, in place."""
    entries = [one for one in compiled.select_constraints(step.constraints) if one in find_broken_hard(rows, compiled)]
    if not entries:
        return
    if step.kind == "mask":
        redraw_broken(rows, compiled.select_constraints(step.constraints)[0].attributes, compiled, random)
    elif step.kind == "key":
        make_unique(rows, entries[0], compiled, random)
    elif step.kind == "block":
        enforce_block(rows, step, compiled, random)
    else:
        for one in entries:
            if one.kind == "order":
                _couple_broken(rows, one, compiled, random)
            else:
                write_majority(rows, one, compiled)


def _couple_broken(
    rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Couple by rank in the contexts that hold a broken pair, in place."""
    assert one.form is not None
    rule = build_pair_rule(one.form, compiled.split_columns(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    context = compiled.find_columns(test.left.attribute for test in one.form.pairs if test.op == "=")
    group = number_groups(rows[np.ix_(chosen, context)])
    broken = np.zeros(int(group.max(initial=-1)) + 1, dtype=bool)
    broken[group[count_violations_per_row(rule)[chosen] > 0]] = True
    chosen, group = chosen[broken[group]], group[broken[group]]
    a, b = (test for test in one.form.pairs if test.op != "=")
    first, second = compiled.find_column(a.left.attribute), compiled.find_column(b.left.attribute)
    rows[chosen, second] = couple_by_rank(group, rows[chosen, first], rows[chosen, second], random, rising=a.op != b.op)


def _repair_rest(rows: NDArray[np.int32], compiled: CompiledConstraints, random: np.random.Generator) -> None:
    """Repair violations that earlier repairs caused: all hard constraints as one block, in place."""
    if find_broken_hard(rows, compiled):
        names = tuple(dict.fromkeys(name for one in compiled.hard for name in one.attributes))
        names = tuple(name for name in names if name in compiled.attributes)
        enforce_block(
            rows, EnforcementPass("block", tuple(one.number for one in compiled.hard), names, names), compiled, random
        )
