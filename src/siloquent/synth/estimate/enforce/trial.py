"""A trial of the whole set of constraints on rows of a uniform model, before any budget is spent."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.synth.estimate.enforce.constraints import (
    build_dependency_table,
    draw_uniform,
    find_broken_hard,
    run_passes,
)
from siloquent.synth.estimate.enforce.masks import find_clean
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, Mask

ROWS = 2_000
MAX_CELLS = 10**6
"""The most combinations of attributes, joined by rules about one row, for which all are tried."""


def check_consistency(compiled: CompiledConstraints, *, rows: int | None = None) -> None:
    """Refuse sets of hard constraints that no table keeps, or that cannot be enforced.

    Args:
        rows: The number of rows that are wanted. Constraints that equal rows break are tried on that many, others on
            2,000.

    Raises:
        ConstraintProblem: The rules about single rows leave no row, or rows of the uniform model break a constraint
            after all passes; both name the constraints, and how each of the others would be kept.
    """
    if not compiled.hard:
        return
    rows = rows if compiled.reflexive and rows else ROWS
    for masks in _connect_masks(compiled.masks):
        _check_masks(masks, compiled)
    random = np.random.default_rng(0)
    drawn = draw_uniform(compiled, rows, seed=0)
    tables = {
        need.constraint: build_dependency_table(need, None, deviation=1.0, random=random) for need in compiled.needs
    }
    try:
        kept = run_passes(drawn, compiled, tables, random)
    except ConstraintProblem as problem:
        raise _build_refusal(problem.detail, (), compiled) from None
    broken = find_broken_hard(kept, compiled)
    if broken and set(broken) <= set(compiled.reflexive):
        raise _build_refusal(f"Equal rows break these, and {rows:,} rows that do not were not found.", broken, compiled)
    if broken:
        raise _build_refusal(
            "These constraints cannot be kept together: rows of every kind break them.", broken, compiled
        )


def _build_refusal(
    why: str, broken: tuple[CompiledConstraint, ...], compiled: CompiledConstraints
) -> ConstraintProblem:
    numbers = {one.number for one in broken}
    for step in compiled.passes:
        if numbers & set(step.constraints):
            numbers |= set(step.constraints)
    named = "; ".join(f"{one.number} ({one.text})" for one in compiled.hard if one.number in numbers)
    others = "; ".join(f"{one.number} is kept {one.kept}" for one in compiled.hard if one.number not in numbers)
    names = f" In conflict: constraint {named}." if named else ""
    rest = f" The others would be kept: {others}." if others else ""
    return ConstraintProblem(f"{why}{names}{rest}", fix="drop one of them, or make it soft: hard = false")


def _connect_masks(masks: tuple[Mask, ...]) -> list[list[Mask]]:
    """Group masks that share attributes, directly or indirectly."""
    parts: list[list[Mask]] = []
    for mask in masks:
        mine = [part for part in parts if any(set(mask.attributes) & set(other.attributes) for other in part)]
        parts = [part for part in parts if part not in mine]
        parts.append([mask, *(other for part in mine for other in part)])
    return parts


def _check_masks(masks: list[Mask], compiled: CompiledConstraints) -> None:
    """Check that some combination of values is allowed; otherwise name the smallest set of rules that leaves none."""
    if _is_satisfiable(masks, compiled):
        return
    rules = [
        Mask(m.attributes, m.sizes, (rule,), constraints=(n,))
        for m in masks
        for rule, n in zip(m.rules, m.constraints, strict=True)
    ]
    for size in range(1, min(len(rules), 3) + 1):
        for some in combinations(rules, size):
            if not _is_satisfiable(list(some), compiled):
                rules = list(some)
                break
        else:
            continue
        break
    numbers = {number for mask in rules for number in mask.constraints}
    found = tuple(one for one in compiled.hard if one.number in numbers)
    names = ", ".join(dict.fromkeys(name for mask in rules for name in mask.attributes))
    raise _build_refusal(f"No declared values of {names} pass the rules about single rows.", found, compiled)


def _is_satisfiable(masks: list[Mask], compiled: CompiledConstraints) -> bool:
    names = list(dict.fromkeys(name for mask in masks for name in mask.attributes))
    sizes = [compiled.sizes[compiled.find_column(name)] for name in names]
    random = np.random.default_rng(0)
    if np.prod([float(size) for size in sizes]) <= MAX_CELLS:
        grid = [axis.ravel() for axis in np.indices(sizes)]
    else:
        grid = [random.integers(0, size, MAX_CELLS) for size in sizes]
    rows = np.zeros((len(grid[0]), len(compiled.attributes)), dtype=np.int64)
    for name, cells in zip(names, grid, strict=True):
        rows[:, compiled.find_column(name)] = cells
    return bool(find_clean(rows, masks, compiled).any())
