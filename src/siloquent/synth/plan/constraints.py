"""Compilation of declared constraints for enforcement, without reading rows (docs/explanation/synth-constraints.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.fixes import UseOption, join_choices
from siloquent.schema import Domain, ForeignKey
from siloquent.schema.constraints import describe_constraint
from siloquent.synth.plan.constraints_classes import (
    Circumstances,
    build_coupling,
    build_table_need,
    classify_form,
    reverse_conflicting_needs,
)
from siloquent.synth.plan.constraints_description import describe_enforcement
from siloquent.synth.plan.constraints_normal import NeverFires, build_normal_form
from siloquent.synth.plan.constraints_passes import (
    PassDraft,
    draft_coupling,
    draft_dependencies,
    draft_mask,
    make_monotone,
    merge_twins,
    order_passes,
)
from siloquent.synth.spec.compiled import (
    CompiledConstraint,
    CompiledConstraints,
    Coupling,
    Mask,
    Side,
    TableNeed,
    TupleTest,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from siloquent.schema import Constraint, TableSchema

__all__ = ["Circumstances", "compile_constraints"]


def compile_constraints(
    schema: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    constraints: Sequence[Constraint] | None = None,
    circumstances: Circumstances | None = None,
) -> CompiledConstraints:
    """Compile the enforcement of every constraint when these columns are synthesised.

    Args:
        columns: The chosen attributes (default: all; ``text`` is left out, ``id`` gets fresh numbers).
        constraints: Default: those that the schema declares; pass more to adopt FDs that were found elsewhere.
        circumstances: Further public numbers that decide about FDs and keys.
    Raises:
        ConstraintProblem: A constraint cannot be kept.
        UnknownName: A column is not declared.
    """
    circumstances = circumstances or Circumstances()
    names = columns if columns is not None else schema.domain.names
    chosen = schema.domain.project(names)
    declared = schema.constraints if constraints is None else constraints
    entries = [_compile_entry(number, one, chosen, schema.domain) for number, one in enumerate(declared, 1)]
    draft = _assemble(entries, chosen, circumstances, schema.size_hint)
    _check_keys(draft, circumstances.rows)
    return draft


def _compile_entry(number: int, constraint: Constraint, chosen: Domain, domain: Domain) -> CompiledConstraint:
    """Return the constraint in its normal form and class; its enforcement is described when all are known."""
    names = tuple(dict.fromkeys(domain[name].name for name in constraint.attributes))
    text, hard = describe_constraint(constraint), getattr(constraint, "hard", False)
    weight = getattr(constraint, "weight", None)
    entry = CompiledConstraint(number, text, hard, "never", names, "", weight=None if weight is None else float(weight))
    if isinstance(constraint, ForeignKey):
        kept = "not kept yet: its columns are drawn from their declared values"
        return replace(entry, kind="foreign", hard=False, kept=kept)
    missing = [name for name in names if name not in chosen.names or domain[name].kind == "text"]
    if missing:
        return replace(entry, kept=f"says nothing about this output: {', '.join(missing)} is not in it")
    try:
        form = build_normal_form(constraint, domain)
    except NeverFires as why:
        return replace(entry, kept=f"never broken: {why}")
    except ConstraintProblem as problem:
        raise ConstraintProblem(f"Constraint {number} ({text}): {problem.detail}", fix=problem.remedy) from None
    return replace(entry, kind=classify_form(form), form=form)


@dataclass(frozen=True, slots=True)
class _ConstraintParts:
    """The requirements of the hard constraints, before they are ordered."""

    masks: tuple[Mask, ...]
    needs: list[TableNeed]
    couplings: dict[int, Coupling]
    drafts: list[PassDraft]


def _assemble(
    entries: list[CompiledConstraint], chosen: Domain, circumstances: Circumstances, hint: int | None
) -> CompiledConstraints:
    domain = Domain(tuple(a for a in chosen if a.is_countable))
    parts = _collect_parts(entries, domain, circumstances, hint)
    passes = order_passes(parts.drafts)
    in_blocks = {number for one in passes if one.kind == "block" for number in one.constraints}
    needs = tuple(need for need in parts.needs if need.constraint not in in_blocks)
    written = {need.rhs for need in needs if need.way == "forward" and not need.when}
    written |= {need.lhs[0] for need in needs if need.way == "reverse"}
    compiled = CompiledConstraints(
        attributes=domain.names,
        sizes=tuple(a.size for a in domain),
        declared=domain.attributes,
        modelled=tuple(name for name in domain.names if name not in written),
        fresh=tuple(a.name for a in chosen if a.kind == "id"),
        constraints=tuple(entries),
        masks=parts.masks,
        cuts=_compute_cuts(parts.masks, domain),
        needs=needs,
        couplings={n: c for n, c in parts.couplings.items() if n not in in_blocks},
        passes=passes,
        notes=_list_notes(entries, needs),
    )
    said = tuple(replace(one, kept=one.kept or describe_enforcement(one, compiled)) for one in entries)
    return replace(compiled, constraints=said)


def _collect_parts(
    entries: list[CompiledConstraint], domain: Domain, circumstances: Circumstances, hint: int | None
) -> _ConstraintParts:
    hard = [one for one in entries if one.hard and one.form is not None]
    masks = _build_masks(hard, domain)
    needs = [
        build_table_need(one.number, one.form, domain, circumstances, hint)
        for one in hard
        if one.form is not None and one.kind == "dependency" and circumstances.tables
    ]
    couplings = {
        one.number: build_coupling(one.number, one.form) for one in hard if one.form is not None and one.kind == "order"
    }
    needs, covered = merge_twins(needs)
    needs, isotone = make_monotone(needs, couplings.values())
    covered |= isotone
    needs = [replace(need, rules=_select_rules(need, masks)) for need in reverse_conflicting_needs(needs)]
    drafts = [draft_mask(mask) for mask in masks]
    drafts += draft_dependencies(needs, covered)
    drafts += [draft_coupling(one) for number, one in couplings.items() if number not in covered]
    for one in hard:
        if one.kind == "key":
            drafts.append(PassDraft("key", (one.number,), frozenset(one.attributes), frozenset(one.attributes)))
        if one.kind == "general" or (one.kind == "dependency" and not circumstances.tables):
            drafts.append(PassDraft("block", (one.number,), frozenset(one.attributes), frozenset(one.attributes)))
    return _ConstraintParts(masks, needs, couplings, drafts)


def _build_masks(hard: Sequence[CompiledConstraint], domain: Domain) -> tuple[Mask, ...]:
    """Return one mask for each set of attributes with rules about one row."""
    rules: dict[tuple[str, ...], list[tuple[int, tuple[TupleTest, ...]]]] = {}
    for one in hard:
        if one.kind == "unary" and one.form is not None:
            rules.setdefault(tuple(sorted(one.attributes)), []).append((one.number, one.form.first))
    return tuple(
        Mask(
            attributes=names,
            sizes=tuple(domain[name].size for name in names),
            rules=tuple(tests for _, tests in those),
            constraints=tuple(number for number, _ in those),
        )
        for names, those in rules.items()
    )


def _select_rules(need: TableNeed, masks: Iterable[Mask]) -> tuple[tuple[TupleTest, ...], ...]:
    ours = {*need.lhs, need.rhs}
    return tuple(
        rule for mask in masks if len(mask.attributes) == 1 and mask.attributes[0] in ours for rule in mask.rules
    )


def _compute_cuts(masks: Iterable[Mask], domain: Domain) -> dict[str, tuple[int, ...]]:
    """Return the cells at which a bin must begin: each constant of a rule, and the cell after it."""
    found: dict[str, set[int]] = {}
    for mask in masks:
        for test in (test for rule in mask.rules for test in rule):
            if isinstance(test.right, Side):
                place = test.right.position
                cells = {math.ceil(place), math.floor(place) + 1}
                inside = {cell for cell in cells if 0 < cell < domain[test.left.attribute].steps}
                found.setdefault(test.left.attribute, set()).update(inside)
    return {name: tuple(sorted(cells)) for name, cells in found.items()}


def _check_keys(compiled: CompiledConstraints, rows: int | None) -> None:
    """Check that each key has at least as many allowed combinations as there are rows."""
    for one in compiled.hard:
        if one.kind != "key":
            continue
        room = math.prod(_count_allowed_cells(compiled, name) for name in one.attributes)
        if rows is not None and rows > room:
            raise ConstraintProblem(
                f"Constraint {one.number} ({one.text}) has {room:,} combinations, but {rows:,} rows were requested.",
                fix=join_choices([UseOption("rows", room), "leave the key out"]),
            )


def _count_allowed_cells(compiled: CompiledConstraints, name: str) -> int:
    size = compiled.sizes[compiled.find_column(name)]
    alone = [mask for mask in compiled.masks if mask.attributes == (name,)]
    if not alone or size > 10**6:
        return size
    cells = {name: np.arange(size)}
    allowed: NDArray[np.bool_] = np.logical_and.reduce([mask.allows(cells) for mask in alone])
    return int(allowed.sum())


def _list_notes(entries: Iterable[CompiledConstraint], needs: Iterable[TableNeed]) -> tuple[str, ...]:
    notes = [f"Constraint {one.number} ({one.text}): {one.kept}." for one in entries if one.form is None]
    for need in needs:
        if need.way == "reverse" and not need.measured and not need.reference:
            notes.append(
                f"{need.lhs[0]} -> {need.rhs} holds, but which {need.lhs[0]} belongs to which {need.rhs} is not "
                "reproduced: there are too few rows for each to stand out of the noise."
            )
        elif not need.measured and not need.reference:
            notes.append(f"{', '.join(need.lhs)} -> {need.rhs} holds, but {need.rhs} is filled at random.")
    return tuple(notes)
