"""The copy rule: rows that break a hard constraint take all values of its block from one clean row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.maths.pairs.counting import PairComparison, PairRule, count_matches_per_row, count_violations_per_row
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.estimate.enforce.coupling import couple_by_rank, number_groups
from siloquent.synth.estimate.enforce.masks import find_clean, find_nearest, redraw_broken, select_inside
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, EnforcementPass, NormalForm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from siloquent.synth.spec.fine_domain import CellGroups

    Groups = Mapping[str, CellGroups]

ROUNDS = 12
DRAWN = 2**14
"""The number of combinations searched for one that may be copied."""
RECOMBINED = 200
"""The number of tries for rows that may not be copied, since two equal rows break a constraint."""


def enforce_block(
    rows: NDArray[np.int32],
    step: EnforcementPass,
    compiled: CompiledConstraints,
    random: np.random.Generator,
    groups: Groups | None = None,
) -> None:
    """Make the constraints of one block hold, in place.

    Rows are first brought nearer to each constraint (majorities for FDs, rank coupling for orders), where that lowers
    the number of rows in conflict. Then a maximal clean set is built greedily in random order, and every other row
    copies the block of the nearest of 64 clean rows. Irreflexive constraints then hold: against any other row a copy
    behaves as its original, and it equals its original (docs/explanation/synth-constraints.md).
    """
    if not len(rows):
        return
    entries = compiled.select_constraints(step.constraints)
    forms = [one.form for one in entries if one.form is not None and one.form.is_binary]
    redraw_broken(rows, step.writes, compiled, random, groups)
    for one in entries:
        _bring_nearer(rows, one, step, forms, compiled, random)
    if not all(form.is_irreflexive for form in forms):
        _plant(rows, step, forms, compiled, random)
    settled = _find_clean_set(rows, step, forms, compiled, random)
    left, columns = np.flatnonzero(~settled), compiled.find_columns(step.writes)
    fit = np.flatnonzero(settled & ~_find_unrepeatable(rows, forms, compiled))
    if len(left) and len(fit):
        source = find_nearest(rows, left, fit, columns, compiled, random)
        rows[np.ix_(left, columns)] = rows[np.ix_(source, columns)]
    elif len(left):
        _recombine(rows, settled, step, forms, compiled, random)


def _find_unrepeatable(
    rows: NDArray[np.int32], forms: Sequence[NormalForm], compiled: CompiledConstraints
) -> NDArray[np.bool_]:
    """Return a mask of the rows that may not occur twice, since they conflict with their equal, shape (rows,)."""
    codes, found = compiled.split_columns(rows), np.zeros(len(rows), dtype=bool)
    for form in forms:
        if not form.is_irreflexive:
            found |= build_pair_rule(form, codes, len(rows)).find_self_violations()
    return found


def _plant(
    rows: NDArray[np.int32],
    step: EnforcementPass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    """Make sure that some row may be copied, in place: if there is none, draw one at random where one exists."""
    masks, columns = select_inside(step.writes, compiled.masks), compiled.find_columns(step.writes)
    if (find_clean(rows, masks, compiled) & ~_find_unrepeatable(rows, forms, compiled)).any():
        return
    sizes = [compiled.sizes[column] for column in columns.tolist()]
    tried = np.repeat(rows[:1], DRAWN, axis=0)
    tried[:, columns] = np.stack([random.integers(0, size, DRAWN) for size in sizes], axis=1)
    good = np.flatnonzero(find_clean(tried, masks, compiled) & ~_find_unrepeatable(tried, forms, compiled))
    if len(good):
        rows[np.ix_([random.integers(len(rows))], columns)] = tried[np.ix_(good[:1], columns)]


def _count_conflicts(
    rows: NDArray[np.int32], forms: Sequence[NormalForm], compiled: CompiledConstraints
) -> NDArray[np.int64]:
    """Return the number of rows with which each row breaks some constraint, summed over constraints."""
    codes = compiled.split_columns(rows)
    return sum(
        (count_violations_per_row(build_pair_rule(form, codes, len(rows))) for form in forms),
        np.zeros(len(rows), dtype=np.int64),
    )


def _bring_nearer(
    rows: NDArray[np.int32],
    one: CompiledConstraint,
    step: EnforcementPass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    if one.kind not in ("dependency", "order"):
        return
    before = (_count_conflicts(rows, forms, compiled) > 0).sum()
    kept = rows[:, compiled.find_columns(step.writes)].copy()
    if one.kind == "dependency":
        write_majority(rows, one, compiled)
    else:
        follow_order(rows, one, compiled, random)
    masks = select_inside(step.writes, compiled.masks)
    after = ((_count_conflicts(rows, forms, compiled) > 0) | ~find_clean(rows, masks, compiled)).sum()
    if after > before:
        rows[:, compiled.find_columns(step.writes)] = kept


def write_majority(rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints) -> None:
    """Write every left value's most frequent right value into the rows that the FD covers, in place."""
    assert one.form is not None
    rule = build_pair_rule(one.form, compiled.split_columns(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    lhs = [test.left.attribute for test in one.form.pairs if test.op == "="]
    rhs = next(test.left.attribute for test in one.form.pairs if test.op == "!=")
    if not len(chosen):
        return
    x = number_groups(rows[np.ix_(chosen, compiled.find_columns(lhs))])
    y = rows[chosen, compiled.find_column(rhs)].astype(np.int64)
    size = int(y.max()) + 1
    cells, counts = np.unique(x * size + y, return_counts=True)
    # The last of a sorted run is the most frequent y of its x.
    order = np.lexsort((counts, cells // size))
    last = np.flatnonzero(np.diff(np.append(cells[order] // size, -1)))
    rows[chosen, compiled.find_column(rhs)] = (cells[order][last] % size)[x]


def follow_order(
    rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Couple the rows that the order constraint covers by rank, in place."""
    assert one.form is not None
    rule = build_pair_rule(one.form, compiled.split_columns(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    context = compiled.find_columns(test.left.attribute for test in one.form.pairs if test.op == "=")
    a, b = (test for test in one.form.pairs if test.op != "=")
    columns = compiled.find_column(a.left.attribute), compiled.find_column(b.left.attribute)
    group = number_groups(rows[np.ix_(chosen, context)])
    rows[chosen, columns[1]] = couple_by_rank(
        group, rows[chosen, columns[0]], rows[chosen, columns[1]], random, rising=a.op != b.op
    )


def _find_clean_set(
    rows: NDArray[np.int32],
    step: EnforcementPass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """Return a set of rows without conflicts among themselves, bool, shape (rows,).

    Rows without any conflict are members. Of the others, in random order, those join that conflict with no earlier
    pending row; those that conflict with a member are excluded. This repeats until no row is pending.
    """
    settled = find_clean(rows, select_inside(step.writes, compiled.masks), compiled)
    codes = compiled.split_columns(rows)
    rules = [build_pair_rule(form, codes, len(rows)) for form in forms]
    waiting = settled & (
        sum((count_violations_per_row(rule) for rule in rules), np.zeros(len(rows), dtype=np.int64)) > 0
    )
    settled &= ~waiting
    # Rows that may be copied come first, so that the set holds one if there is any.
    order = random.permutation(len(rows)) + len(rows) * _find_unrepeatable(rows, forms, compiled).astype(np.int64)
    for _ in range(ROUNDS):
        if not waiting.any():
            break
        joining = waiting & ~_find_conflicts(rules, waiting, waiting, order)
        settled |= joining
        waiting &= ~joining
        waiting &= ~_find_conflicts(rules, waiting, joining, None)
    return settled


def _find_conflicts(
    rules: Sequence[PairRule], of: NDArray[np.bool_], against: NDArray[np.bool_], order: NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Return which rows of one set break a rule with a row of the other (an earlier one, if an order is given)."""
    found = np.zeros(len(of), dtype=bool)
    for rule in rules:
        for one in (rule, rule.reversed):
            tests = one.tests if order is None else (*one.tests, PairComparison(">", order, order))
            found |= count_matches_per_row(PairRule(tests, one.first & of, one.second & against)) > 0
    return found


def _recombine(
    rows: NDArray[np.int32],
    settled: NDArray[np.bool_],
    step: EnforcementPass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    """Redraw rows until they fit between the clean ones: best effort for constraints that equal rows break."""
    columns = compiled.find_columns(step.writes)
    masks = select_inside(step.writes, compiled.masks)
    for attempt in range(RECOMBINED):
        left = np.flatnonzero(~settled)
        if not len(left):
            return
        for column in columns:
            source = rows[:, column] if attempt % 2 else np.arange(compiled.sizes[column])
            rows[left, column] = random.choice(source, len(left))
        rules = [build_pair_rule(form, compiled.split_columns(rows), len(rows)) for form in forms]
        waiting = ~settled & find_clean(rows, masks, compiled)
        waiting &= ~_find_conflicts(rules, waiting, settled, None)
        order = random.permutation(len(rows)).astype(np.int64)
        settled |= waiting & ~_find_conflicts(rules, waiting, waiting, order)
