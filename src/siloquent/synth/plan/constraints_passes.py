"""The order of enforcement passes, so that none undoes another; those that would are merged into one block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from siloquent.synth.plan.constraints_classes import is_isotone
from siloquent.synth.spec.compiled import Coupling, EnforcementPass, Mask, PassKind, TableNeed


@dataclass(frozen=True, slots=True)
class PassDraft:
    """A planned pass: what it keeps, all attributes that its constraints read, and those that it may change."""

    kind: PassKind
    constraints: tuple[int, ...]
    attributes: frozenset[str]
    writes: frozenset[str]


def merge_twins(needs: Sequence[TableNeed]) -> tuple[list[TableNeed], dict[int, int]]:
    """Merge FDs that hold in both directions into one table without repeats, from the side with fewer values.

    Returns:
        The remaining needs, and for each covered need the number of the constraint that covers it.
    """
    covered: dict[int, int] = {}
    kept = {need.constraint: need for need in needs}
    for need in needs:
        for other in needs:
            back = (need.rhs,) == other.lhs and need.lhs == (other.rhs,) and not need.when and not other.when
            smaller = (need.lhs_sizes, need.constraint) < (other.lhs_sizes, other.constraint)
            if back and smaller and need.constraint in kept and other.constraint in kept:
                covered[other.constraint] = need.constraint
                kept[need.constraint] = replace(need, way="forward", bijective=True)
                del kept[other.constraint]
    return list(kept.values()), covered


def make_monotone(needs: Sequence[TableNeed], couplings: Iterable[Coupling]) -> tuple[list[TableNeed], dict[int, int]]:
    """Make FD tables monotone where an order constraint requires it; also return the constraints this covers."""
    covered: dict[int, int] = {}
    found = []
    for need in needs:
        matching = [c for c in couplings if is_isotone(need, c) and c.constraint not in covered]
        if matching and len({(c.a, c.rising) for c in matching}) == 1 and not need.bijective:
            covered |= {c.constraint: need.constraint for c in matching}
            found.append(replace(need, way="forward", along=matching[0].a, rising=matching[0].rising))
        else:
            found.append(need)
    return found, covered


def draft_dependencies(needs: Sequence[TableNeed], covered: dict[int, int]) -> list[PassDraft]:
    """Draft the passes of the FDs: one for each forward or twin FD, one for each attribute drawn in reverse."""
    drafts = []
    turned: dict[str, list[TableNeed]] = {}
    for need in needs:
        if need.way == "reverse":
            turned.setdefault(need.lhs[0], []).append(need)
            continue
        numbers = (need.constraint, *(number for number, by in covered.items() if by == need.constraint))
        names = frozenset((*need.lhs, need.rhs, *(name for test in need.when for name in test.attributes)))
        kind: PassKind = "monotone" if need.along else "dependency"
        drafts.append(PassDraft(kind, numbers, names, frozenset((need.rhs,))))
    for x, those in turned.items():
        ys = frozenset(need.rhs for need in those)
        # One y always has an x if there are enough; combinations of several may have none, and then give way.
        enough = len(those) == 1 and _has_room(those[0], needs)
        writes = frozenset((x,)) if enough else ys | {x}
        drafts.append(PassDraft("reverse", tuple(need.constraint for need in those), ys | {x}, writes))
    return drafts


def _has_room(need: TableNeed, needs: Sequence[TableNeed]) -> bool:
    """Return whether every y can have an x of its own, whatever the rows hold."""
    written = [math.prod(n.lhs_sizes) for n in needs if n.rhs == need.rhs and n.way == "forward" and not n.when]
    # A looked-up attribute has at most as many values as its table has entries.
    return need.lhs_steps[0] >= min([need.rhs_size, *written]) and not need.rules and not need.reference


def draft_mask(mask: Mask) -> PassDraft:
    """Draft the pass of a rule about one row: rows that break it inside an undecided bin are redrawn."""
    names = frozenset(mask.attributes)
    # Later steps that draw values (tables, keys, couplings) draw allowed ones, so one attribute's rule stays kept.
    return PassDraft("mask", mask.constraints, names, names if len(names) > 1 else frozenset())


def draft_coupling(coupling: Coupling) -> PassDraft:
    """Draft the pass of an order constraint: b is reassigned."""
    tested = (name for test in coupling.when for name in test.attributes)
    return PassDraft(
        "coupling",
        (coupling.constraint,),
        frozenset((*coupling.context, coupling.a, coupling.b, *tested)),
        frozenset((coupling.b,)),
    )


def order_passes(drafts: Sequence[PassDraft]) -> tuple[EnforcementPass, ...]:
    """Order the passes so that none writes what an earlier one has settled; cycles become blocks.

    A pass must come after those that write an attribute it reads or writes. Drafts that must each come after the other
    form one block, which may change all of their attributes; so may a general constraint. Merging goes on until no
    cycle is left.
    """
    current = list(drafts)
    while True:
        reach = _compute_reach(current)
        cycle = next(
            (
                [j for j in range(len(current)) if j == i or (reach[i, j] and reach[j, i])]
                for i in range(len(current))
                if any(reach[i, j] and reach[j, i] for j in range(len(current)) if j != i)
            ),
            None,
        )
        if cycle is None:
            break
        merged = [current[j] for j in cycle]
        numbers = tuple(sorted({number for draft in merged for number in draft.constraints}))
        names = frozenset().union(*(draft.attributes for draft in merged))
        rest = [draft for j, draft in enumerate(current) if j not in cycle]
        current = [*rest, PassDraft("block", numbers, names, names)]
    first = sorted(range(len(current)), key=lambda i: (int(reach[:, i].sum()), current[i].constraints))
    return tuple(
        EnforcementPass(draft.kind, draft.constraints, tuple(sorted(draft.attributes)), tuple(sorted(draft.writes)))
        for draft in (current[i] for i in first)
    )


def _compute_reach(drafts: Sequence[PassDraft]) -> np.ndarray:
    """Return which pass must precede which, directly or indirectly, bool, shape (passes, passes)."""
    reach = np.array(
        [[i != j and bool(a.writes & b.attributes) for j, b in enumerate(drafts)] for i, a in enumerate(drafts)],
        dtype=bool,
    ).reshape(len(drafts), len(drafts))
    for k in range(len(drafts)):
        reach |= reach[:, k : k + 1] & reach[k : k + 1, :]
    return reach
