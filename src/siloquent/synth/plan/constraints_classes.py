"""The class of a constraint, and the enforcement of a functional dependency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from siloquent.errors import ConstraintProblem
from siloquent.schema import Domain
from siloquent.synth.spec.compiled import Coupling, Kind, NormalForm, TableNeed, Way

STRICT = ("<", ">")
TWIN_DEVIATIONS = 10
THIN_DEVIATIONS = 3
COARSER = 2
"""The ratio of left to right values above which an FD is reversed."""
MAX_HISTOGRAM = 10**6


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The inputs, besides the declaration, that decide how an FD is kept: public or planned numbers only.

    Attributes:
        rows: The number of output rows, if known (keys need as many combinations).
        one_way_deviation: The noise on a cell of the 1-way counts, in rows.
        table_deviation: The noise on a cell of an FD's histogram at the largest share of the budget, in rows.
        tables: Whether FDs are kept by tables; else the engine keeps them as it draws.
        references: Public files that give y(x), by name: ``zip_city`` for Zip -> City.
    """

    rows: int | None = None
    one_way_deviation: float = 54.0
    table_deviation: float = 20.0
    references: tuple[str, ...] = ()
    tables: bool = True


def classify_form(form: NormalForm) -> Kind:
    """Return the class of a normal form.

    A rule about one row, an FD, a key, an order (context; a, b), else general.
    """
    if not form.is_binary:
        return "unary"
    if not all(test.is_same for test in form.pairs):
        return "general"
    ops = [test.op for test in form.pairs]
    if ops and set(ops) == {"="} and not form.first and not form.second:
        return "key"
    alike = set(form.first) == set(form.second)
    if alike and ops.count("!=") == 1 and ops.count("=") == len(ops) - 1:
        written = next(test.left.attribute for test in form.pairs if test.op == "!=")
        # A condition that reads what the table writes would change with it.
        return "general" if any(written in test.attributes for test in form.first) else "dependency"
    if alike and sum(op in STRICT for op in ops) == 2 and ops.count("=") == len(ops) - 2:
        written = build_coupling(0, form).b
        # A test of b against a constant passes the same b's after reassignment; one against an attribute may not.
        return "general" if any(len(t.attributes) > 1 and written in t.attributes for t in form.first) else "order"
    return "general"


def build_coupling(number: int, form: NormalForm) -> Coupling:
    """Return the order constraint as a coupling: the attribute that is named second follows the first."""
    context = tuple(test.left.attribute for test in form.pairs if test.op == "=")
    a, b = (test for test in form.pairs if test.op in STRICT)
    return Coupling(number, context, a.left.attribute, b.left.attribute, a.op != b.op, form.first)


def build_table_need(
    number: int, form: NormalForm, domain: Domain, circumstances: Circumstances, hint: int | None
) -> TableNeed:
    """Decide how the FD is kept, from sizes and public numbers only.

    Forward (Y leaves the model, Y = y(X)) unless X is much finer than Y; then twin (both stay, joined by a mask) if
    X's own counts exceed the noise, else reverse (X leaves; x is drawn among those with its y).
    """
    lhs = tuple(test.left.attribute for test in form.pairs if test.op == "=")
    rhs = next(test.left.attribute for test in form.pairs if test.op == "!=")
    sizes = tuple(domain[name].size for name in lhs)
    size, count = domain[rhs].size, math.prod(sizes)
    if count > MAX_HISTOGRAM:
        raise ConstraintProblem(
            f"{', '.join(lhs)} -> {rhs} needs a table of {count:,} entries; the limit is {MAX_HISTOGRAM:,}.",
            fix="declare a coarser grid, or make it soft: hard = false",
        )
    per_value = (hint or 0) / max(count, 1)
    way: Way = "forward"
    if not form.first and len(lhs) == 1 and count > COARSER * size:
        way = "twin" if per_value >= TWIN_DEVIATIONS * circumstances.one_way_deviation else "reverse"
    reference = "_".join((*lhs, rhs)).lower()
    reference = next((name for name in circumstances.references if name.lower() == reference), "")
    fits = count * size <= MAX_HISTOGRAM and per_value >= THIN_DEVIATIONS * circumstances.table_deviation
    # Without a public size the histogram cannot be judged too thin, so it is measured if it fits.
    measured = not reference and count * size <= MAX_HISTOGRAM and (fits or hint is None)
    steps = tuple(domain[name].steps for name in lhs)
    return TableNeed(number, lhs, rhs, sizes, size, steps, domain[rhs].steps, way, measured, form.first, reference)


def reverse_conflicting_needs(needs: Sequence[TableNeed]) -> list[TableNeed]:
    """Let at most one FD write an attribute: of several, the one with the fewest left values; reverse the others."""
    found: list[TableNeed] = []
    for need in needs:
        rivals = [n for n in needs if n.rhs == need.rhs and n.way != "reverse" and not n.when]
        first = min(rivals, key=lambda n: math.prod(n.lhs_sizes), default=need)
        can_turn = len(need.lhs) == 1 and not (need.when or need.bijective or need.along)
        found.append(replace(need, way="reverse") if can_turn and need in rivals and need is not first else need)
    return found


def is_isotone(need: TableNeed, coupling: Coupling) -> bool:
    """Return whether the FD is (context, a) -> b of the order constraint (context; a, b), so its table is monotone."""
    same = set(need.lhs) == {*coupling.context, coupling.a} and need.rhs == coupling.b
    return same and not need.when and not coupling.when
