"""Order constraints by rank coupling: where b may not fall while a rises, b is sorted by a."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from siloquent.maths.pairs.counting import rank_values
from siloquent.synth.estimate.enforce.counts import find_passing
from siloquent.synth.spec.compiled import CompiledConstraints, Coupling

if TYPE_CHECKING:
    from numpy.typing import NDArray


def couple_by_rank(
    context: NDArray[np.integer],
    a: NDArray[np.integer],
    b: NDArray[np.integer],
    random: np.random.Generator,
    *,
    rising: bool,
) -> NDArray[np.integer]:
    """Return the values of ``b`` reassigned inside each context in the order of ``a``; each context keeps its values.

    Rows with equal ``a`` get theirs in the order of the ``b`` they had, ties at random. No two rows of one context then
    have a < a' and b > b' (b < b' if not ``rising``).

    Args:
        context, a, b: Shape (rows,).
    """
    sign = 1 if rising else -1
    places = np.lexsort((random.random(len(a)), sign * b, a, context))
    values = np.lexsort((sign * b, context))
    found = b.copy()
    found[places] = b[values]
    return found


def find_eligible(coupling: Coupling, compiled: CompiledConstraints, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return a mask of the rows that the constraint covers: known a and b, known context, and the condition passed."""
    codes = compiled.split_columns(rows)
    found = find_passing(coupling.when, codes, len(rows))
    for name in (coupling.a, coupling.b, *coupling.context):
        attribute = compiled.declared[compiled.find_column(name)]
        # ``other`` equals itself, so it may be a context; it has no rank in an order.
        known = attribute.steps + (name in coupling.context and attribute.other == "cell")
        found &= codes[name] < known
    return found


def couple_rows(
    rows: NDArray[np.int32], coupling: Coupling, compiled: CompiledConstraints, random: np.random.Generator
) -> None:
    """Make ``rows`` keep the order constraint, in place: b is exchanged between rows of equal context."""
    chosen = np.flatnonzero(find_eligible(coupling, compiled, rows))
    context = number_groups(rows[np.ix_(chosen, compiled.find_columns(coupling.context))])
    a, b = rows[chosen, compiled.find_column(coupling.a)], rows[chosen, compiled.find_column(coupling.b)]
    rows[chosen, compiled.find_column(coupling.b)] = couple_by_rank(context, a, b, random, rising=coupling.rising)


def number_groups(columns: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return one number for each distinct row of ``columns`` (rows, columns); all 0 where there are no columns."""
    found = np.zeros(len(columns), dtype=np.int64)
    for column in columns.T:
        known, ranks = rank_values(column.astype(np.int64))
        _, found = rank_values(found * max(len(known), 1) + ranks)
    return found


def compute_coupling_mask(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    rising: bool,
    known_a: NDArray[np.bool_] | None = None,
    known_b: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return the cells of (a, b) on the path of the comonotone (antitone, if not rising) coupling, bool, shape (a, b).

    Args:
        a, b: The marginals over ordered groups (any positive scale); the mask serves couplings without context.
        known_a, known_b: Which groups are ordered values; NULL and ``other`` may be combined with every group.
    """
    known_a = np.ones(len(a), dtype=bool) if known_a is None else known_a
    known_b = np.ones(len(b), dtype=bool) if known_b is None else known_b
    allowed = ~(known_a[:, None] & known_b[None, :])
    ranks_b = np.flatnonzero(known_b)
    ranks_b = ranks_b if rising else ranks_b[::-1]
    upto_a, upto_b = _compute_edges(a[known_a]), _compute_edges(b[ranks_b])
    # Two groups share mass where their intervals of the common quantile axis meet; empty groups meet at a point.
    low = np.maximum(upto_a[:-1, None], upto_b[None, :-1])
    high = np.minimum(upto_a[1:, None], upto_b[None, 1:])
    allowed[np.ix_(np.flatnonzero(known_a), ranks_b)] = low <= high + 1e-12
    return allowed


def _compute_edges(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    total = float(shares.sum())
    if total <= 0:
        return np.linspace(0.0, 1.0, len(shares) + 1)
    return np.concatenate([[0.0], np.cumsum(shares) / total])
