"""Answers derived from earlier measurements, with bounds that hold for any queries, even if chosen from the noise.

Each answer is derived from one measurement. Its error bound follows from shares that were fixed before that
measurement's noise was drawn, so other measurements, their order and their analysts do not matter.
Proof: docs/explanation/reuse.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.cells.compiled import CompiledWorkload, WorkloadPart
from siloquent.explore.plan.reuse.evidence_selection import select_most_telling, select_usable
from siloquent.explore.plan.reuse.linear_measurements import (
    LinearMeasurement,
    MeasuredBlock,
    build_area,
    describe_quantity,
)
from siloquent.explore.plan.reuse.refinement import MAX_CELLS, Grid
from siloquent.explore.spec.footprint import Area, Integers
from siloquent.maths.gls import EXACT
from siloquent.maths.tails.simultaneous import (
    compute_chi_square_radius,
    compute_laplace_radius,
    compute_normal_radius,
    compute_product_log_share,
)
from siloquent.schema import TableSchema

Reals = NDArray[np.float64]
MAX_COLUMNS = 1_024
MAX_ROWS = 4_096
MAX_READ = 100_000
"""The maximum number of noisy values considered for one block of a query."""
# The parts of a measurement's share for products of sets, and for everything else that it determines.
_PRODUCTS, _ANYTHING = math.log(7 / 8), math.log(1 / 8)
_inverses: ByteLRU[Reals] = ByteLRU(2**26, lambda inverse: inverse.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class SimultaneousReading:
    """Answers derived from one measurement: ``rows`` of the query, ``back`` (rows, values) times its values."""

    piece: MeasuredBlock
    rows: NDArray[np.int64]
    back: Reals


def read_off(
    compiled: CompiledWorkload, schema: TableSchema, past: Sequence[LinearMeasurement], *, alpha: float, beta: float
) -> list[SimultaneousReading] | None:
    """Find a source for each answer so that none is off by more than ``alpha`` units; None if there is none."""
    quantity, law = (
        describe_quantity(compiled, schema.domain),
        "gaussian" if schema.budget.accountant == "zcdp" else "laplace",
    )
    pieces = select_usable(past, version=schema.version, quantity=quantity, law=law)
    shares = {id(piece): one.log_share + math.log(beta) for one in past for piece in one.pieces}
    fine = _select_fine(pieces, np.array([shares[id(piece)] for piece in pieces]), alpha)
    found: list[SimultaneousReading] = []
    for part in compiled.parts:
        area = build_area(part, schema.domain)
        left = np.flatnonzero(np.any(part.matrix != 0, axis=1))
        for piece in reversed(select_most_telling(area, fine, noises=MAX_READ)):
            if not len(left):
                break
            for reading in _read(part, area, piece, left, shares[id(piece)], alpha):
                found.append(reading)
                left = np.setdiff1d(left, reading.rows)
        if len(left):
            return None
    return found


def _select_fine(pieces: Sequence[MeasuredBlock], log_shares: Reals, alpha: float) -> list[MeasuredBlock]:
    """Select pieces from which some answer could be within ``alpha``: a cheap test of all of them."""
    finest = np.array([piece.finest for piece in pieces])
    radius = compute_normal_radius(finest, log_shares + _PRODUCTS)
    return [piece for piece, least in zip(pieces, radius.tolist(), strict=True) if least <= alpha]


def _read(
    part: WorkloadPart, area: Area, piece: MeasuredBlock, left: NDArray[np.int64], log_share: float, alpha: float
) -> Iterator[SimultaneousReading]:
    """Yield the answers among ``left`` that can be derived from ``piece``."""
    columns = _fold(part.matrix[left], area, piece)
    inverse = None if columns is None else _compute_inverse(piece)
    if columns is None or inverse is None:
        return
    back = columns @ inverse
    off = np.abs(back @ piece.matrix - columns).max(axis=1, initial=0.0)
    known = columns.any(axis=1) & (off <= EXACT * np.abs(columns).max(axis=1, initial=1.0))
    # A normal estimate is hardly ever off by less than its deviation, so worse pieces are not considered further.
    near = known & (np.sqrt((back * back).sum(axis=1)) * piece.deviation <= alpha)
    if not near.any():
        return
    back, columns, left = back[near], columns[near], left[near]
    holds = _compute_radius(piece, columns, back, log_share) + np.abs(back) @ piece.margins <= alpha
    if holds.any():
        yield SimultaneousReading(piece, left[holds], back[holds])


def _compute_radius(piece: MeasuredBlock, columns: Reals, back: Reals, log_share: float) -> Reals:
    """Compute error bounds of the estimates ``back`` of the sums of ``columns``, for continuous noise."""
    padded = np.hstack([columns.astype(np.int64), np.zeros((len(columns), 1), dtype=np.int64)])[:, piece.area.column]
    shares = np.array([_compute_log_share(np.ascontiguousarray(row).tobytes(), piece.area.shape) for row in padded])
    shares = shares + _PRODUCTS + log_share
    if piece.law == "laplace":
        return np.where(np.isfinite(shares), compute_laplace_radius(back * piece.scale, shares), np.inf)
    deviations = np.sqrt((back * back).sum(axis=1)) * piece.deviation
    radius = np.where(np.isfinite(shares), compute_normal_radius(deviations, np.maximum(shares, -1e300)), np.inf)
    return np.minimum(radius, compute_chi_square_radius(deviations, len(piece.matrix), log_share + _ANYTHING))


@lru_cache(maxsize=65_536)
def _compute_log_share(row: bytes, shape: tuple[int, ...]) -> float:
    """Compute ln of the share of 0/1 weights over the measurement's grid of classes; -inf if not a product of sets."""
    weights = np.frombuffer(row, dtype=np.int64)
    if not np.array_equal(weights, weights != 0):
        return -math.inf
    return compute_product_log_share(weights.reshape(shape or (1,)) != 0)


def _fold(rows: Integers, asked: Area, piece: MeasuredBlock) -> Reals | None:
    """Express ``rows`` as sums of the columns of ``piece``, zeros for those that are not; None if none is."""
    known = piece.area
    wider = Grid(asked).add_area(known)
    if wider is None or wider.cells > MAX_CELLS:
        return None
    padded = np.hstack([rows, np.zeros((len(rows), 1), dtype=np.int64)])
    mine, theirs = wider.find_columns(asked), wider.find_columns(known)
    wide = padded.shape[1]
    pairs = np.unique((theirs + 1) * wide + mine + 1)  # each column of the measurement and its query columns
    column, values = pairs // wide - 1, padded[:, pairs % wide - 1]
    first = np.flatnonzero(np.diff(column, prepend=-2))
    low, high = np.minimum.reduceat(values, first, axis=1), np.maximum.reduceat(values, first, axis=1)
    outside = column[first] < 0
    possible = (low == high).all(axis=1) & (high[:, outside] == 0).all(axis=1)
    if not possible.any():
        return None
    found = np.zeros((len(rows), piece.matrix.shape[1]))
    found[:, column[first][~outside]] = low[:, ~outside]
    found[~possible] = 0.0
    return found


def _compute_inverse(piece: MeasuredBlock) -> Reals | None:
    """Compute the pseudo-inverse of the measured matrix, (columns, values); None if it is too large."""
    if piece.matrix.shape[1] > MAX_COLUMNS or len(piece.matrix) > MAX_ROWS:
        return None
    return _inverses.get(piece, lambda: np.linalg.pinv(piece.matrix.astype(np.float64)))
