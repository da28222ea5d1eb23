"""Descriptions of how constraints are kept, one sentence each."""

from __future__ import annotations

from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints, TableNeed


def describe_enforcement(one: CompiledConstraint, compiled: CompiledConstraints) -> str:
    """Return the sentence that ``synth plan`` prints beside a constraint."""
    if not one.hard:
        return "soft: its rate follows from the model's joint; the report gives it"
    step = next(found for found in compiled.passes if one.number in found.constraints)
    if step.kind == "block":
        with_others = [f"{number}" for number in step.constraints if number != one.number]
        together = f", together with constraint {', '.join(with_others)}," if with_others else ""
        return f"rows that break it{together} take the values of {', '.join(step.writes)} from one clean row"
    if step.kind == "mask":
        return "by construction: the model gives no row that breaks it"
    if step.kind == "coupling":
        found = compiled.couplings[one.number]
        inside = f" inside equal {', '.join(found.context)}" if found.context else ""
        return f"by construction: {found.b} is dealt out in the order of {found.a}{inside}"
    if step.kind == "key":
        return "by construction: duplicates move to free combinations"
    need = next((need for need in compiled.needs if need.constraint == one.number), None)
    if need is None:
        return f"by construction: by the table of constraint {step.constraints[0]}"
    return _describe_table(need)


def _describe_table(need: TableNeed) -> str:
    lhs, rhs = ", ".join(need.lhs), need.rhs
    origin = (
        f"from the reference {need.reference}"
        if need.reference
        else "from a noisy table"
        if need.measured
        else "filled at random"
    )
    if need.when:
        return f"by construction: where its condition holds, {rhs} is looked up by {lhs}, {origin}"
    if need.along:
        return f"by construction: {rhs} is looked up by {lhs}, {origin}, made monotone in {need.along}"
    if need.way == "reverse":
        return f"by construction: {lhs} is drawn among those that have the row's {rhs}, {origin}"
    if need.way == "twin":
        return f"by construction: both in the model, joined by a mask, {origin}"
    return f"by construction: {rhs} is looked up by {lhs}, {origin}"
