"""Matching of known rates of soft constraints, by exchanging one attribute between otherwise similar rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from siloquent.errors import ConstraintProblem
from siloquent.maths.pairs.counting import count_violating_pairs
from siloquent.synth.estimate.counting import build_pair_tables
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.estimate.enforce.coupling import number_groups
from siloquent.synth.spec.compiled import CompiledConstraint, CompiledConstraints

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLOSE = 0.02
"""The relative tolerance within which a rate counts as met."""
TRIES = 3
"""The number of exchanges to try, as a multiple of the number of rows."""


def match_rates(
    rows: NDArray[np.integer],
    compiled: CompiledConstraints,
    rates: Mapping[int, float],
    random: np.random.Generator,
    *,
    parents: Mapping[str, Sequence[str]] | None = None,
) -> tuple[NDArray[np.int32], dict[int, float]]:
    """Return ``rows`` with soft constraints broken at the given rates, as nearly as exchanges within groups can.

    Only attributes that no hard constraint reads are exchanged, so hard constraints stay kept. Every marginal of the
    exchanged attribute with its parents stays the same; its joints with other attributes change a little.

    Args:
        rows: Cells, shape (rows, attributes).
        rates: The share of pairs that break a soft constraint over two rows, by its number.
        parents: For an attribute, those with which its joint must stay; default none. Unordered and short: rows that
            are equal in all of them form a group and exchange among themselves.
    Returns:
        The new rows, and the resulting rate of each named constraint.
    """
    kept = np.ascontiguousarray(rows, dtype=np.int64)
    kept = kept.copy()
    for one in compiled.soft:
        target = choose_target(one, compiled)
        if one.number in rates and target is not None and len(kept) > 1:
            _match_rate(kept, one, target, rates[one.number], (parents or {}).get(target, ()), compiled, random)
    codes = compiled.split_columns(kept)
    possible = max(len(kept) * (len(kept) - 1) // 2, 1)
    reached = {
        one.number: count_violating_pairs(build_pair_rule(one.form, codes, len(kept))) / possible
        for one in compiled.soft
        if one.number in rates and one.form is not None and one.form.is_binary
    }
    return kept.astype(compiled.cell_type), reached


def choose_target(one: CompiledConstraint, compiled: CompiledConstraints) -> str | None:
    """Return the attribute to exchange: the finest of the constraint's free ones; None if all are bound."""
    if one.form is None or not one.form.is_binary:
        return None
    bound = {name for hard in compiled.hard for name in hard.attributes}
    named = [name for test in one.form.pairs for name in (test.left.attribute, test.right.attribute)]
    free = [name for name in dict.fromkeys(named) if name not in bound]
    return max(free, key=lambda name: compiled.sizes[compiled.find_column(name)], default=None)


def _match_rate(
    rows: NDArray[np.int64],
    one: CompiledConstraint,
    target: str,
    rate: float,
    parents: Sequence[str],
    compiled: CompiledConstraints,
    random: np.random.Generator,
) -> None:
    assert one.form is not None
    try:
        tables = build_pair_tables([one.form], compiled, target)
    except ConstraintProblem:
        return  # Too fine to count as rows change: the rate stays as the model gives it, and the report says so.
    wanted = rate * (len(rows) * (len(rows) - 1) // 2)
    broken = count_violating_pairs(build_pair_rule(one.form, compiled.split_columns(rows), len(rows)))
    if abs(broken - wanted) <= CLOSE * wanted:
        return
    tables.add(rows)
    group = number_groups(rows[:, compiled.find_columns(parents)])
    tables.swap(rows, _draw_pairs(group, random), broken=broken, wanted=wanted, close=CLOSE * wanted)


def _draw_pairs(group: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Draw random pairs of rows of one group, shape (pairs, 2): each row in about twice ``TRIES`` of them."""
    found = []
    for _ in range(2 * TRIES):
        order = np.lexsort((random.random(len(group)), group))
        first, second = order[:-1:2], order[1::2]
        found.append(np.stack([first, second], axis=1)[group[first] == group[second]])
    return np.concatenate(found)
