"""Tables y(x) of functional dependencies: from a noisy histogram, from a public file, or at random."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem, RequestError
from siloquent.synth.estimate.enforce.counts import find_passing
from siloquent.synth.spec.compiled import CompiledConstraints, DependencyTable, Mask, TableNeed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    Tables = Mapping[int, DependencyTable]

WEAK_DEVIATIONS = 3
MAX_MASK = 3_000
"""The most cells of a conditional FD that also becomes a mask of the model."""
UNSET = -1


def build_dependency_table(
    need: TableNeed,
    histogram: NDArray[np.integer] | None,
    *,
    deviation: float,
    random: np.random.Generator,
) -> DependencyTable:
    """Return y(x) from the noisy joint histogram (shape ``need.shape``, or flat row-major), or at random without one.

    A reversed FD without a histogram is left open (``UNSET``): each x gets its y when rows are there.

    Args:
        deviation: The standard deviation of the noise on one cell; entries below three of them are weak.
    Source:
        Monotone tables maximise the summed histogram over all monotone maps, by dynamic programming.
    """
    count = math.prod(need.lhs_sizes)
    allowed = _find_allowed(need, need.rhs)
    if histogram is None and need.way == "reverse":
        return DependencyTable(need, np.full(count, UNSET, dtype=np.int32))
    if histogram is None and not need.along and not need.bijective:
        return DependencyTable(need, random.choice(np.flatnonzero(allowed), count).astype(np.int32))
    if histogram is None:
        counts = random.random((count, need.rhs_size))
    else:
        counts = np.asarray(histogram, dtype=np.float64).reshape(count, need.rhs_size)
    best = np.where(allowed, counts, -np.inf)
    values = _choose_best(need, best)
    if histogram is None:
        return DependencyTable(need, values)
    top = best[np.arange(count), values]
    weak = tuple(np.flatnonzero(top < WEAK_DEVIATIONS * deviation).tolist())
    weights = np.maximum(counts.sum(axis=1), 1.0) * _find_allowed(need, need.lhs[0]) if need.way == "reverse" else None
    return DependencyTable(need, values, weights, weak)


def build_reference_table(
    need: TableNeed, lhs: NDArray[np.integer], rhs: NDArray[np.integer], random: np.random.Generator
) -> DependencyTable:
    """Return y(x) from a public file's rows: cells of lhs, shape (rows, attributes), and of rhs, shape (rows,).

    Raises:
        RequestError: The file breaks the FD, or holds no value of the declared domain.
    """
    inside = (lhs >= 0).all(axis=1) & (rhs >= 0)
    if not inside.any():
        raise RequestError(f"The reference {need.reference} has no row with only declared values.")
    keys = np.ravel_multi_index(tuple(lhs[inside].T), need.lhs_sizes)
    order = np.argsort(keys, kind="stable")
    keys, found = keys[order], rhs[inside][order]
    if ((keys[1:] == keys[:-1]) & (found[1:] != found[:-1])).any():
        raise RequestError(
            f"The reference {need.reference} gives one {', '.join(need.lhs)} two values of {need.rhs}.",
            fix="correct the file, or omit the reference",
        )
    # Values that the file does not list take the value of some row of it, and are never drawn in reverse.
    values = random.choice(found, math.prod(need.lhs_sizes)).astype(np.int32)
    weights = np.zeros(len(values))
    values[keys], weights[keys] = found, 1.0
    return DependencyTable(need, values, weights if need.way == "reverse" else None)


def _find_allowed(need: TableNeed, name: str) -> NDArray[np.bool_]:
    """Return a mask of the cells of one attribute of the FD that its own rules allow."""
    size = need.rhs_size if name == need.rhs else need.lhs_sizes[need.lhs.index(name)]
    allowed = np.ones(size, dtype=bool)
    cells = {name: np.arange(size)}
    for rule in need.rules:
        if all(test.attributes == (name,) for test in rule):
            allowed &= ~find_passing(rule, cells, size)
    if not allowed.any():
        raise ConstraintProblem(f"No declared value of {name} satisfies its constraints.")
    return allowed


def _choose_best(need: TableNeed, scores: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the map x -> y of the largest scores, shape (x,): any, one without repeats, or a monotone one."""
    if need.along:
        return _choose_monotone(need, scores)
    if need.bijective:
        from scipy.optimize import linear_sum_assignment  # imported here: it takes 60 ms, and few plans need it

        _, columns = linear_sum_assignment(np.where(np.isinf(scores), -1e15, scores), maximize=True)
        return np.asarray(columns, dtype=np.int32)
    return np.asarray(scores.argmax(axis=1), dtype=np.int32)


def _choose_monotone(need: TableNeed, scores: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return the monotone map along one axis, separately in each context; unordered cells keep their best y."""
    axis = need.lhs.index(need.along)
    steps, size = need.lhs_steps[axis], need.rhs_steps
    cube = np.moveaxis(scores.reshape(*need.lhs_sizes, need.rhs_size), axis, 0)
    shape = cube.shape[:-1]
    cube = cube.reshape(shape[0], -1, need.rhs_size)
    values = cube.argmax(axis=2)
    known = cube[:steps, :, :size] if need.rising else cube[:steps, :, :size][:, :, ::-1]
    best = np.zeros_like(known)
    for x in range(steps):
        best[x] = known[x] + (np.maximum.accumulate(best[x - 1], axis=1) if x else 0.0)
    chosen = np.full(known.shape[1], size - 1)
    for x in range(steps - 1, -1, -1):
        within = np.where(np.arange(size) <= chosen[:, None], best[x], -np.inf)
        chosen = within.argmax(axis=1)
        values[x] = chosen if need.rising else size - 1 - chosen
    return np.asarray(np.moveaxis(values.reshape(shape), 0, axis).ravel(), dtype=np.int32)


def build_model_masks(compiled: CompiledConstraints, tables: Tables) -> tuple[Mask, ...]:
    """Return all masks of the model: rules about single rows, then those implied by FD tables (twins, small FDs)."""
    return (*compiled.masks, *_build_table_masks(compiled, tables))


def _build_table_masks(compiled: CompiledConstraints, tables: Tables) -> Iterable[Mask]:
    for need in compiled.needs:
        tested = tuple(dict.fromkeys(name for test in need.when for name in test.attributes))
        names = tuple(dict.fromkeys((*need.lhs, need.rhs, *tested)))
        sizes = tuple(compiled.sizes[compiled.find_column(name)] for name in names)
        small_condition = bool(need.when) and math.prod(sizes) <= MAX_MASK
        if need.constraint not in tables or not (need.way == "twin" or small_condition):
            continue
        grid = dict(zip(names, np.indices(sizes, sparse=False), strict=True))
        flat = np.ravel_multi_index(tuple(grid[name] for name in need.lhs), need.lhs_sizes)
        cells = tables[need.constraint].values[flat] == grid[need.rhs]
        condition = find_passing(need.when, {n: g.ravel() for n, g in grid.items()}, cells.size).reshape(sizes)
        yield Mask(names, sizes, cells=cells | ~condition, constraints=(need.constraint,))


def look_up(rows: NDArray[np.int32], table: DependencyTable, compiled: CompiledConstraints) -> None:
    """Write y(x) into the rows that the FD covers, in place."""
    need = table.need
    chosen = find_passing(need.when, compiled.split_columns(rows), len(rows))
    if not need.lhs:
        rows[chosen, compiled.find_column(need.rhs)] = table.values[0]
        return
    lhs = tuple(rows[chosen, compiled.find_column(name)] for name in need.lhs)
    rows[chosen, compiled.find_column(need.rhs)] = table.values[np.ravel_multi_index(lhs, need.lhs_sizes)]
