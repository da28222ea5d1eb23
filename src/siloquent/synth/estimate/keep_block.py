"""The copy rule: rows that break a hard constraint take all values of its block from one clean row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.maths.pairs import PairRule, PairTest, involvement, partners
from siloquent.synth.estimate.keep_counts import pair_rule
from siloquent.synth.estimate.keep_coupling import group_of, rank_coupled
from siloquent.synth.estimate.keep_masks import clean, inside, nearest, redraw
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, NormalForm, Pass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from siloquent.synth.spec.fine import CellGroups

    Groups = Mapping[str, CellGroups]

ROUNDS = 12
DRAWN = 2**14
"""Combinations among which one that may be copied is looked for."""
RECOMBINED = 200
"""Tries for rows that may not be copied, since two equal rows break a constraint."""


def keep_block(
    rows: NDArray[np.int32],
    step: Pass,
    compiled: CompiledConstraints,
    random: np.random.Generator,
    groups: Groups | None = None,
) -> None:
    """Make the constraints of one block hold, in place.

    Rows are first brought nearer to each constraint (majorities for FDs, rank coupling for orders), where that lowers
    the number of rows that break something. Then a largest clean set is built up greedily, in random order; every other
    row copies the block of the nearest of 64 clean rows. Irreflexive constraints then hold: against any other row a
    copy behaves as its original, and against the original nothing differs (docs/explanation/synth-constraints.md).
    """
    if not len(rows):
        return
    entries = compiled.by_number(step.constraints)
    forms = [one.form for one in entries if one.form is not None and one.form.is_binary]
    redraw(rows, step.writes, compiled, random, groups)
    for one in entries:
        _bring_nearer(rows, one, step, forms, compiled, random)
    if not all(form.is_irreflexive for form in forms):
        _plant(rows, step, forms, compiled, random)
    settled = _clean_set(rows, step, forms, compiled, random)
    left, columns = np.flatnonzero(~settled), compiled.columns(step.writes)
    fit = np.flatnonzero(settled & ~_alone(rows, forms, compiled))
    if len(left) and len(fit):
        source = nearest(rows, left, fit, columns, compiled, random)
        rows[np.ix_(left, columns)] = rows[np.ix_(source, columns)]
    elif len(left):
        _recombine(rows, settled, step, forms, compiled, random)


def _alone(rows: NDArray[np.int32], forms: Sequence[NormalForm], compiled: CompiledConstraints) -> NDArray[np.bool_]:
    """Which rows may not occur twice, since they would break a constraint with their equal, shape (rows,)."""
    codes, found = compiled.codes(rows), np.zeros(len(rows), dtype=bool)
    for form in forms:
        if not form.is_irreflexive:
            found |= pair_rule(form, codes, len(rows)).alone()
    return found


def _plant(
    rows: NDArray[np.int32],
    step: Pass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    """See to it that some row may be copied, in place: where none may, one is drawn at random, if there is any."""
    masks, columns = inside(step.writes, compiled.masks), compiled.columns(step.writes)
    if (clean(rows, masks, compiled) & ~_alone(rows, forms, compiled)).any():
        return
    sizes = [compiled.sizes[column] for column in columns.tolist()]
    tried = np.repeat(rows[:1], DRAWN, axis=0)
    tried[:, columns] = np.stack([random.integers(0, size, DRAWN) for size in sizes], axis=1)
    good = np.flatnonzero(clean(tried, masks, compiled) & ~_alone(tried, forms, compiled))
    if len(good):
        rows[np.ix_([random.integers(len(rows))], columns)] = tried[np.ix_(good[:1], columns)]


def _broken(rows: NDArray[np.int32], forms: Sequence[NormalForm], compiled: CompiledConstraints) -> NDArray[np.int64]:
    """With how many rows each row breaks some constraint, summed over constraints."""
    codes = compiled.codes(rows)
    return sum((involvement(pair_rule(form, codes, len(rows))) for form in forms), np.zeros(len(rows), dtype=np.int64))


def _bring_nearer(
    rows: NDArray[np.int32],
    one: CompiledConstraint,
    step: Pass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    if one.kind not in ("dependency", "order"):
        return
    before = (_broken(rows, forms, compiled) > 0).sum()
    kept = rows[:, compiled.columns(step.writes)].copy()
    if one.kind == "dependency":
        by_majority(rows, one, compiled)
    else:
        follow_order(rows, one, compiled, random)
    masks = inside(step.writes, compiled.masks)
    after = ((_broken(rows, forms, compiled) > 0) | ~clean(rows, masks, compiled)).sum()
    if after > before:
        rows[:, compiled.columns(step.writes)] = kept


def by_majority(rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints) -> None:
    """Every left value's most frequent right one, written into the rows that the FD speaks of, in place."""
    assert one.form is not None
    rule = pair_rule(one.form, compiled.codes(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    lhs = [test.left.attribute for test in one.form.pairs if test.op == "="]
    rhs = next(test.left.attribute for test in one.form.pairs if test.op == "!=")
    if not len(chosen):
        return
    x = group_of(rows[np.ix_(chosen, compiled.columns(lhs))])
    y = rows[chosen, compiled.column(rhs)].astype(np.int64)
    size = int(y.max()) + 1
    cells, counts = np.unique(x * size + y, return_counts=True)
    # The last of a sorted run is the most frequent y of its x.
    order = np.lexsort((counts, cells // size))
    last = np.flatnonzero(np.diff(np.append(cells[order] // size, -1)))
    rows[chosen, compiled.column(rhs)] = (cells[order][last] % size)[x]


def follow_order(
    rows: NDArray[np.int32], one: CompiledConstraint, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Rank coupling of the rows that the order constraint speaks of, in place."""
    assert one.form is not None
    rule = pair_rule(one.form, compiled.codes(rows), len(rows))
    chosen = np.flatnonzero(rule.first)
    context = compiled.columns(test.left.attribute for test in one.form.pairs if test.op == "=")
    a, b = (test for test in one.form.pairs if test.op != "=")
    columns = compiled.column(a.left.attribute), compiled.column(b.left.attribute)
    group = group_of(rows[np.ix_(chosen, context)])
    rows[chosen, columns[1]] = rank_coupled(
        group, rows[chosen, columns[0]], rows[chosen, columns[1]], random, rising=a.op != b.op
    )


def _clean_set(
    rows: NDArray[np.int32],
    step: Pass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """A set of rows that break nothing among themselves, bool, shape (rows,).

    Rows that break nothing with anybody are in. Of the others, in random order, those join that break nothing with an
    earlier one in wait; those that break something with a member are out; again, until none waits.
    """
    settled = clean(rows, inside(step.writes, compiled.masks), compiled)
    codes = compiled.codes(rows)
    rules = [pair_rule(form, codes, len(rows)) for form in forms]
    waiting = settled & (sum((involvement(rule) for rule in rules), np.zeros(len(rows), dtype=np.int64)) > 0)
    settled &= ~waiting
    # Rows that may be copied come first, so that there is one to copy where there is any.
    order = random.permutation(len(rows)) + len(rows) * _alone(rows, forms, compiled).astype(np.int64)
    for _ in range(ROUNDS):
        if not waiting.any():
            break
        joining = waiting & ~_conflicts(rules, waiting, waiting, order)
        settled |= joining
        waiting &= ~joining
        waiting &= ~_conflicts(rules, waiting, joining, None)
    return settled


def _conflicts(
    rules: Sequence[PairRule], of: NDArray[np.bool_], against: NDArray[np.bool_], order: NDArray[np.int64] | None
) -> NDArray[np.bool_]:
    """Which rows of one set break a rule with a row of the other (an earlier one, if an order is given)."""
    found = np.zeros(len(of), dtype=bool)
    for rule in rules:
        for one in (rule, rule.reversed):
            tests = one.tests if order is None else (*one.tests, PairTest(">", order, order))
            found |= partners(PairRule(tests, one.first & of, one.second & against)) > 0
    return found


def _recombine(
    rows: NDArray[np.int32],
    settled: NDArray[np.bool_],
    step: Pass,
    forms: Sequence[NormalForm],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    """Best effort for constraints that equal rows break: rows are drawn anew until they fit between the clean ones."""
    columns = compiled.columns(step.writes)
    masks = inside(step.writes, compiled.masks)
    for attempt in range(RECOMBINED):
        left = np.flatnonzero(~settled)
        if not len(left):
            return
        for column in columns:
            source = rows[:, column] if attempt % 2 else np.arange(compiled.sizes[column])
            rows[left, column] = random.choice(source, len(left))
        rules = [pair_rule(form, compiled.codes(rows), len(rows)) for form in forms]
        waiting = ~settled & clean(rows, masks, compiled)
        waiting &= ~_conflicts(rules, waiting, settled, None)
        order = random.permutation(len(rows)).astype(np.int64)
        settled |= waiting & ~_conflicts(rules, waiting, waiting, order)
