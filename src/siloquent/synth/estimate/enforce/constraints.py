"""Enforcement of hard constraints on drawn rows, and exact counts of violations. Free post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem, SiloquentError
from siloquent.synth.estimate.enforce.block import enforce_block
from siloquent.synth.estimate.enforce.counts import count_broken, count_violations
from siloquent.synth.estimate.enforce.coupling import compute_coupling_mask, couple_rows
from siloquent.synth.estimate.enforce.keys import make_unique
from siloquent.synth.estimate.enforce.masks import redraw_broken
from siloquent.synth.estimate.enforce.reverse import draw_reverse
from siloquent.synth.estimate.enforce.tables import (
    build_dependency_table,
    build_model_masks,
    build_reference_table,
    look_up,
)
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, DependencyTable, EnforcementPass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.synth.spec.fine_domain import CellGroups

    Groups = Mapping[str, CellGroups]

__all__ = [
    "Tables",
    "build_dependency_table",
    "build_model_masks",
    "build_reference_table",
    "compute_coupling_mask",
    "count_violations",
    "enforce_constraints",
    "find_broken_hard",
]

BLIND = 3
"""The number of tries that draw columns of constraints broken by equal rows without regard to the model."""
Tables = Mapping[int, DependencyTable]
"""FD tables by the number of their constraint."""


def enforce_constraints(
    rows: NDArray[np.integer],
    compiled: CompiledConstraints,
    tables: Tables,
    random: np.random.Generator,
    *,
    groups: Groups | None = None,
    in_place: bool = False,
) -> NDArray[np.int32]:
    """Return ``rows`` (rows, attributes) with every hard constraint kept; columns not in the model may hold anything.

    Args:
        tables: y(x) for every need, by constraint number.
        groups: The model's group of each cell, by attribute: rows that break a rule inside an undecided group
            combination are redrawn within it, so that the model's counts stay.
        in_place: Whether ``rows`` (int32) may be written over, which saves a copy.
    Returns:
        An int32 matrix with the same number of rows.
    Raises:
        SiloquentError: A hard constraint is still broken. That is an internal bug; nothing may be released.
        ConstraintProblem: Equal rows break a constraint (such as a key), and there are fewer combinations than rows.
    """
    kept, broken = _try_passes(rows, compiled, tables, random, groups, in_place=in_place)
    if broken and not all(one.form is None or one.form.is_irreflexive for one in broken):
        raise ConstraintProblem(
            f"{'; '.join(one.text for one in broken)}: equal rows violate it, and fewer than {len(kept):,} distinct "
            "rows that satisfy it were found.",
            fix="request fewer rows, or set hard = false",
        )
    if broken:
        raise SiloquentError(
            f"{len(broken)} hard constraints are broken after all passes: {'; '.join(one.text for one in broken)}. "
            "Nothing was written."
        )
    return kept


def _try_passes(
    rows: NDArray[np.integer],
    compiled: CompiledConstraints,
    tables: Tables,
    random: np.random.Generator,
    groups: Groups | None,
    *,
    in_place: bool,
) -> tuple[NDArray[np.int32], tuple[CompiledConstraint, ...]]:
    """Return rows after all passes, and the constraints that they still break.

    Where equal rows break a constraint, the model's rows may not fit between one another, although rows of the uniform
    model did before any charge. Then the columns of its pass are taken from such rows, whatever the model says.
    """
    kept, broken = rows.astype(compiled.cell_type, copy=False), compiled.hard
    for attempt in range(BLIND + 1):
        try:
            kept = run_passes(
                rows, compiled, tables, random, groups=groups, in_place=in_place and not compiled.reflexive
            )
        except ConstraintProblem:
            if attempt == BLIND or not compiled.reflexive:
                raise
        else:
            broken = find_broken_hard(kept, compiled)
            if not broken or not compiled.reflexive:
                break
        numbers = {one.number for one in compiled.reflexive}
        names = {name for step in compiled.passes if numbers & set(step.constraints) for name in step.writes}
        try:
            blind = run_passes(
                draw_uniform(compiled, len(rows), seed=attempt), compiled, tables, np.random.default_rng(attempt)
            )
        except ConstraintProblem:
            continue
        rows = rows.copy()
        columns = compiled.find_columns(names)
        rows[:, columns] = blind[:, columns]
    return kept, broken


def draw_uniform(compiled: CompiledConstraints, rows: int, *, seed: int) -> NDArray[np.int64]:
    """Draw rows of the uniform model, as cells, shape (rows, attributes)."""
    random = np.random.default_rng(seed)
    # An identifying column with more cells than int32 can count has no constraint over its cells.
    return np.stack([random.integers(0, min(size, 2**31 - 1), rows) for size in compiled.sizes], axis=1)


def run_passes(
    rows: NDArray[np.integer],
    compiled: CompiledConstraints,
    tables: Tables,
    random: np.random.Generator,
    *,
    groups: Groups | None = None,
    in_place: bool = False,
) -> NDArray[np.int32]:
    """Run all passes on a copy of ``rows``, without the final check."""
    kept = rows.astype(compiled.cell_type, copy=not in_place)
    for mask in compiled.masks:
        if len(mask.attributes) == 1 and mask.attributes[0] in compiled.modelled:
            redraw_broken(kept, mask.attributes, compiled, random, groups)
    for step in compiled.passes:
        _take_step(kept, step, compiled, tables, random, groups)
    return kept


def find_broken_hard(rows: NDArray[np.integer], compiled: CompiledConstraints) -> tuple[CompiledConstraint, ...]:
    """Return the hard constraints that ``rows`` break."""
    codes = compiled.split_columns(rows)
    return tuple(one for one in compiled.hard if one.form is not None and count_broken(one.form, codes, len(rows)))


def _take_step(
    rows: NDArray[np.int32],
    step: EnforcementPass,
    compiled: CompiledConstraints,
    tables: Tables,
    random: np.random.Generator,
    groups: Groups | None,
) -> None:
    if step.kind == "mask" and len(step.writes) > 1:
        redraw_broken(rows, step.writes, compiled, random, groups)
    elif step.kind in ("dependency", "monotone"):
        number = next(number for number in step.constraints if number in tables)
        look_up(rows, tables[number], compiled)
    elif step.kind == "reverse":
        ours = [tables[number] for number in step.constraints]
        draw_reverse(rows, ours, compiled, random, may_change=len(step.writes) > 1)
    elif step.kind == "coupling":
        couple_rows(rows, compiled.couplings[step.constraints[0]], compiled, random)
    elif step.kind == "key":
        make_unique(rows, compiled.select_constraints(step.constraints)[0], compiled, random)
    elif step.kind == "block":
        enforce_block(rows, step, compiled, random, groups)
