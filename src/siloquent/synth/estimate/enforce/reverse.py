"""Functional dependencies kept in reverse: a row's fine x is drawn among those that have the row's y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.synth.estimate.enforce.counts import find_passing
from siloquent.synth.estimate.enforce.coupling import number_groups
from siloquent.synth.spec.compiled import CompiledConstraints, DependencyTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def draw_reverse(
    rows: NDArray[np.int32],
    tables: Sequence[DependencyTable],
    compiled: CompiledConstraints,
    random: np.random.Generator,
    *,
    may_change: bool,
) -> None:
    """Write x into every row, in place, so that all FDs x -> y of ``tables`` hold.

    Every x has one combination of y's, given by the tables; where they are open, x's are assigned in proportion to the
    rows (every combination in use gets at least one x while there are enough).

    Args:
        tables: Of one x, measured or open.
        may_change: Whether rows whose combination has no x take the most similar one that has; otherwise an x is taken
            from the combination with the most.
    """
    if not len(rows):
        return
    x, ys = compiled.find_column(tables[0].need.lhs[0]), compiled.find_columns(table.need.rhs for table in tables)
    of_row = number_groups(rows[:, ys])
    _, first = np.unique(of_row, return_index=True)
    used, counts = rows[np.ix_(first, ys)], np.bincount(of_row)
    xs, weights = _list_candidates(tables)
    if not len(xs):
        raise ConstraintProblem(f"No declared value of {tables[0].need.lhs[0]} is allowed.")
    owner = _find_owners(xs, tables, used, counts, random)
    homeless = np.setdiff1d(np.arange(len(used)), owner)
    if len(homeless) and not may_change:
        _take_over(owner, homeless, weights, random)
    elif len(homeless):
        target = _find_most_similar(used, np.unique(owner[owner >= 0]), homeless, counts)
        if target is None:
            # No combination of the rows has an x, so the rows take the combinations that the x's have.
            _draw_from_tables(rows, xs, weights, tables, compiled, random)
            return
        moved = np.arange(len(used))
        moved[homeless] = target
        of_row = moved[of_row]
        rows[:, ys] = used[of_row]
    _draw(rows, x, of_row, xs, owner, weights, random)


def _list_candidates(tables: Sequence[DependencyTable]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the x's that may be drawn, and their weights."""
    need = tables[0].need
    size = need.lhs_sizes[0]
    weights = np.ones(size)
    known = [table.weights for table in tables if table.weights is not None]
    if known:
        weights = np.mean(known, axis=0)
    else:
        # Without a measured weight for them, NULL and ``other`` would be as frequent as any value.
        weights[need.lhs_steps[0] :] = 0.0
    cells = {need.lhs[0]: np.arange(size)}
    for rule in (rule for table in tables for rule in table.need.rules):
        if all(test.attributes == need.lhs for test in rule):
            weights[find_passing(rule, cells, size)] = 0.0
    xs = np.flatnonzero(weights > 0)
    return xs, weights[xs]


def _find_owners(
    xs: NDArray[np.int64],
    tables: Sequence[DependencyTable],
    used: NDArray[np.int32],
    counts: NDArray[np.int64],
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Return, for each x, the combination (row of ``used``) it belongs to, -1 for none."""
    set_columns = [place for place, table in enumerate(tables) if (table.values >= 0).all()]
    given = np.stack([tables[place].values[xs] for place in set_columns], axis=1) if set_columns else None
    owner = np.full(len(xs), -1, dtype=np.int64)
    if given is None:
        owner[random.permutation(len(xs))] = _share_out(np.arange(len(used)), counts, len(xs))
        return owner
    both, group = np.unique(np.concatenate([given, used[:, set_columns]]), axis=0, return_inverse=True)
    group = group.ravel()
    for one in range(len(both)):
        mine = np.flatnonzero(group[: len(xs)] == one)
        combinations = np.flatnonzero(group[len(xs) :] == one)
        if len(mine) and len(combinations):
            owner[random.permutation(mine)] = _share_out(combinations, counts[combinations], len(mine))
    return owner


def _share_out(combinations: NDArray[np.int64], counts: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """Allocate ``room`` slots to combinations in proportion to their counts, at least one each while there is room."""
    order = np.argsort(-counts, kind="stable")[:room]
    shares = counts[order] * (room / counts[order].sum())
    places = np.maximum(np.floor(shares), 1).astype(np.int64)
    while places.sum() > room:
        # Each of the largest gives one back until they fit; each keeps at least one.
        surplus = int(places.sum()) - room
        rich = np.argsort(-(places - shares), kind="stable")
        rich = rich[places[rich] > 1][:surplus]
        places[rich] -= 1
    rest = room - int(places.sum())
    if rest:
        extra = np.argsort(-(shares - places), kind="stable")
        np.add.at(places, extra[np.arange(rest) % len(extra)], 1)
    return np.repeat(combinations[order], places)


def _take_over(
    owner: NDArray[np.int64], homeless: NDArray[np.int64], weights: NDArray[np.float64], random: np.random.Generator
) -> None:
    """Give each combination without an x a free one, or else the lightest x of the combination with the most."""
    for one in homeless:
        free = np.flatnonzero(owner < 0)
        if not len(free):
            sizes = np.bincount(owner)
            free = np.flatnonzero(owner == int(sizes.argmax()))
        owner[free[np.lexsort((random.random(len(free)), weights[free]))[0]]] = one


def _find_most_similar(
    used: NDArray[np.int32], housed: NDArray[np.int64], homeless: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return, for each combination without an x, the most similar one that has: most equal y's, then most frequent."""
    if not len(housed):
        return None
    found = np.empty(len(homeless), dtype=np.int64)
    for place, one in enumerate(homeless):
        equal = (used[housed] == used[one]).sum(axis=1)
        found[place] = housed[np.lexsort((-counts[housed], -equal))[0]]
    return found


def _draw_from_tables(
    rows: NDArray[np.int32],
    xs: NDArray[np.int64],
    weights: NDArray[np.float64],
    tables: Sequence[DependencyTable],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    """Draw x by weight and write its y's from the tables; an open y is that of the first row."""
    x = compiled.find_column(tables[0].need.lhs[0])
    rows[:, x] = random.choice(xs, len(rows), p=weights / weights.sum())
    for table in tables:
        column = compiled.find_column(table.need.rhs)
        values = np.where(table.values >= 0, table.values, rows[0, column])
        rows[:, column] = values[rows[:, x]]


def _draw(
    rows: NDArray[np.int32],
    x: int,
    of_row: NDArray[np.int64],
    xs: NDArray[np.int64],
    owner: NDArray[np.int64],
    weights: NDArray[np.float64],
    random: np.random.Generator,
) -> None:
    """Draw the x of each row among those of its combination, by weight: one search in the cumulative weights of all."""
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    cumulative = np.concatenate([[0.0], np.cumsum(weights[order])])
    starts = np.searchsorted(owner[order], np.arange(int(of_row.max()) + 2))
    low, high = cumulative[starts[of_row]], cumulative[starts[of_row + 1]]
    places = np.searchsorted(cumulative, low + random.random(len(rows)) * (high - low), side="right") - 1
    rows[:, x] = xs[order[np.clip(places, starts[of_row], starts[of_row + 1] - 1)]]
