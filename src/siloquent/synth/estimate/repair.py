"""An edited or foreign table made to keep the hard constraints, changing as few cells as the passes need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.maths.pairs import involvement
from siloquent.synth.estimate.keep import broken_hard
from siloquent.synth.estimate.keep_block import by_majority, keep_block
from siloquent.synth.estimate.keep_counts import count_broken, pair_rule
from siloquent.synth.estimate.keep_coupling import group_of, rank_coupled
from siloquent.synth.estimate.keep_keys import make_unique
from siloquent.synth.estimate.keep_masks import redraw
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, Pass

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Repaired:
    """Rows after a repair.

    Attributes:
        rows: Cells, shape (rows, attributes).
        changed: Which cells are new: (row, column), shape (changes, 2), in row order.
        before: How many pairs (rows) broke each constraint that was broken, by its number.
    """

    rows: NDArray[np.int32]
    changed: NDArray[np.int64]
    before: dict[int, int]


def repair(rows: NDArray[np.integer], compiled: CompiledConstraints, random: np.random.Generator) -> Repaired:
    """``rows`` with every hard constraint kept; a table that keeps them is returned as it is.

    Rules about one row: the values of the nearest clean row. FDs: the majority of the file. Orders: rank coupling of
    the contexts that break them. Keys: free combinations. All else, and what is then still broken: the copy rule.

    Args:
        rows: Cells, shape (rows, attributes); -1 is a value outside the declared domain, which breaks nothing.
    Raises:
        ConstraintProblem: Too many rows for a key, or for a constraint that equal rows break.
    """
    kept = rows.astype(compiled.cell_type)
    before = {one.number: _count(kept, one, compiled) for one in broken_hard(kept, compiled)}
    if before:
        for step in compiled.passes:
            _mend(kept, step, compiled, random)
        _mend_rest(kept, compiled, random)
    broken = broken_hard(kept, compiled)
    if broken:
        raise ConstraintProblem(
            f"{'; '.join(one.text for one in broken)}: no repair was found for {len(kept):,} rows.",
            fix="take rows out, or let the constraint be soft: hard = false",
        )
    return Repaired(kept, np.argwhere(kept != rows), before)


def _count(rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints) -> int:
    assert one.form is not None
    return count_broken(one.form, compiled.codes(rows), len(rows))


def _mend(rows: NDArray[np.int32], step: Pass, compiled: CompiledConstraints, random: np.random.Generator) -> None:
    """One pass over the rows that break its constraints, in place."""
    entries = [one for one in compiled.by_number(step.constraints) if one in broken_hard(rows, compiled)]
    if not entries:
        return
    if step.kind == "mask":
        redraw(rows, compiled.by_number(step.constraints)[0].attributes, compiled, random)
    elif step.kind == "key":
        make_unique(rows, entries[0], compiled, random)
    elif step.kind == "block":
        keep_block(rows, step, compiled, random)
    else:
        for one in entries:
            if one.kind == "order":
                _couple_broken(rows, one, compiled, random)
            else:
                by_majority(rows, one, compiled)


def _couple_broken(
    rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Rank coupling in the contexts that hold a broken pair, in place."""
    assert one.form is not None
    rule = pair_rule(one.form, compiled.codes(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    context = compiled.columns(test.left.attribute for test in one.form.pairs if test.op == "=")
    group = group_of(rows[np.ix_(chosen, context)])
    broken = np.zeros(int(group.max(initial=-1)) + 1, dtype=bool)
    broken[group[involvement(rule)[chosen] > 0]] = True
    chosen, group = chosen[broken[group]], group[broken[group]]
    a, b = (test for test in one.form.pairs if test.op != "=")
    first, second = compiled.column(a.left.attribute), compiled.column(b.left.attribute)
    rows[chosen, second] = rank_coupled(group, rows[chosen, first], rows[chosen, second], random, rising=a.op != b.op)


def _mend_rest(rows: NDArray[np.int32], compiled: CompiledConstraints, random: np.random.Generator) -> None:
    """What mending one constraint broke in another: all hard constraints as one block, in place."""
    if broken_hard(rows, compiled):
        names = tuple(dict.fromkeys(name for one in compiled.hard for name in one.attributes))
        names = tuple(name for name in names if name in compiled.attributes)
        keep_block(rows, Pass("block", tuple(one.number for one in compiled.hard), names, names), compiled, random)
