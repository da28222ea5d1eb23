"""Strategies for a workload, with all of their price that does not depend on the error bound.

They are searched and calibrated once a shape and beta, and then kept in memory: a question of a known shape is planned
in about a millisecond. Nothing here knows rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.base import Integers
from siloquent.explore.plan.compiled import Compiled
from siloquent.explore.plan.kept import Kept
from siloquent.explore.plan.predicates import sum_sensitivity
from siloquent.explore.plan.reconstruction import PARTS_OF_A_STEP, Matrix, reconstructions
from siloquent.maths.calibration import Factor, gaussian_factor, normal_factor
from siloquent.maths.sensitivity import Sensitivity, sensitivities
from siloquent.maths.strategies import Calibrated, gaussian_strategy, laplace_strategy
from siloquent.maths.strategies.base import QUANTUM_BITS, Norm, reconstruct
from siloquent.maths.strategies.sparse import Sparse

MOST_COLUMNS, MOST_ANSWERS, MOST_WEIGHTS = 1_024, 10_000, 2 * 10**7
MOST_RANKED_ANSWERS, MOST_RANKED_COLUMNS = 1_000, 2_048  # a list compares answers: for that R must be dense


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A whole strategy: ``matrices`` holds one A_B a part of the workload.

    An error beyond ``factor`` times the scale of continuous noise happens with probability beta at most; that noise is
    whole, and that answers are rounded, moves them by ``margin`` at most.
    """

    name: str
    matrices: tuple[Matrix, ...]
    factor: Factor
    margin: float
    sensitivity: Sensitivity


_found: Kept[Calibrated] = Kept(2**28, lambda one: 3 * _bytes(one.strategy.blocks))
_offers: Kept[Offer | None] = Kept(2**28, lambda one: 0 if one is None else _bytes(one.matrices))


def _bytes(matrices: tuple[Matrix, ...]) -> int:
    return 1_000 + sum(matrix.nbytes for matrix in matrices)


def laplace_offer(compiled: Compiled, beta: float, *, two_sided: bool) -> Offer | None:
    """The cheapest strategy for discrete Laplace noise; None where no strategy can beat the workload itself."""
    if not _can_offer(compiled):
        return None
    key = ("laplace", compiled.shape, beta, two_sided)

    def make() -> Offer | None:
        found = _found.get(key, lambda: _laplace(compiled, beta, two_sided))
        return _offer(compiled, found.strategy.name, found.strategy.blocks, found.factor)

    return _offers.get((*key, *_moves(compiled)), make)


def gaussian_offer(
    compiled: Compiled, beta: float, *, two_sided: bool, bits: int, columns: int = MOST_COLUMNS
) -> Offer | None:
    """The cheapest strategy for discrete Gaussian noise, in quanta of 2^-bits, for parts of so many ``columns``."""
    if not _can_offer(compiled, columns):
        return None
    key = ("gaussian", compiled.shape, beta, two_sided)

    def make() -> Offer | None:
        found = _found.get(key, lambda: gaussian_strategy(_blocks(compiled), beta=beta, two_sided=two_sided))
        blocks = tuple(np.rint(b * 2.0 ** (bits - QUANTUM_BITS)).astype(np.int64) for b in found.strategy.blocks)
        back = _back(compiled, _with_empty(compiled, blocks))
        if back is None:
            return None
        return _offer(compiled, found.strategy.name, blocks, gaussian_factor(back, beta, two_sided=two_sided))

    return _offers.get((*key, bits, *_moves(compiled)), make)


def top_offer(compiled: Compiled, beta: float, k: int, *, bits: int) -> Offer | None:
    """The strategy of ``gaussian_offer``, its factor that of the differences which can spoil a list of the top ``k``.

    A wrong list has a pair, one of it and one that belongs there, whose noises differ by more than alpha. Whichever k
    are the true ones, there are k (answers - k) or (k - 1)(answers - k + 1) such pairs: the worst ones are added up.
    """
    if compiled.answers > MOST_RANKED_ANSWERS:
        return None

    def make() -> Offer | None:
        found = gaussian_offer(compiled, beta, two_sided=True, bits=bits, columns=MOST_RANKED_COLUMNS)
        back = None if found is None else _back(compiled, tuple(m for m in found.matrices if not isinstance(m, Sparse)))
        if found is None or back is None:
            return None
        gram = back @ back.T
        squares = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
        pairs = np.sort(squares[np.triu_indices(compiled.answers, 1)])[::-1]
        wrong = max(k * (compiled.answers - k), (k - 1) * (compiled.answers - k + 1))
        deviations = np.sqrt(np.maximum(pairs[:wrong], 0.0)) * (1 + 1e-9)
        return replace(found, factor=normal_factor(deviations, beta, two_sided=False), margin=2 * found.margin)

    return _offers.get(("top", compiled.shape, beta, k, bits, *_moves(compiled)), make)


def ranks_offer(compiled: Compiled, rows: NDArray[np.float64], beta: float, *, norm: Norm, bits: int) -> Offer | None:
    """The cheapest strategy for ``rows``, real questions about one group's values, measured in every group alike.

    Args:
        compiled: Counts of each group's values side by side; its answers are the groups.
        rows: Shape (questions, values of a group).
        beta: The miss rate of one group.
        bits: Gaussian noise is measured in quanta of 2^-bits.
    """
    digest = hashlib.sha256(repr(rows.shape).encode() + rows.tobytes()).hexdigest()
    key = ("ranks", norm, digest, beta)

    def sought() -> Calibrated:
        if norm == "l2":
            return gaussian_strategy([rows], beta=beta, two_sided=True)
        return laplace_strategy([rows], beta=beta, two_sided=True, seed=int(digest[:12], 16))

    def make() -> Offer | None:
        found = _found.get(key, sought)
        (block,), factor = found.strategy.blocks, found.factor
        if norm == "l2":
            block = np.rint(block * 2.0 ** (bits - QUANTUM_BITS)).astype(np.int64)
        back = reconstruct(rows, block)
        if back is None:
            return None
        if norm == "l2":
            factor = gaussian_factor(back, beta, two_sided=True)
        each = [
            np.kron(np.eye(groups, dtype=np.int64), block) for groups in (compiled.answers, min(2, compiled.answers))
        ]
        # Two columns lie in one group or in two; two groups hold all such pairs.
        sensitivity = sensitivity_of(compiled, (each[1],))
        margin = float(np.abs(back).sum(axis=1).max()) + 1 / PARTS_OF_A_STEP
        return Offer(found.strategy.name, (each[0],), factor, margin, sensitivity)

    return _offers.get((*key, bits, compiled.answers, *_moves(compiled)), make)


def _laplace(compiled: Compiled, beta: float, two_sided: bool) -> Calibrated:
    # Planning is the same in EXPLAIN and in the run: its random starts come from the workload's shape.
    seed = int(compiled.shape[:12], 16)
    return laplace_strategy(_blocks(compiled), beta=beta, two_sided=two_sided, seed=seed)


def _moves(compiled: Compiled) -> tuple[object, ...]:
    """What the sensitivity of a strategy depends on, besides its matrices."""
    summed = compiled.summed
    return compiled.replace_one, compiled.rows, None if summed is None else (summed.lowest, summed.highest)


def _can_offer(compiled: Compiled, most: int = MOST_COLUMNS) -> bool:
    columns = sum(part.columns for part in compiled.parts)
    largest = max(part.columns for part in compiled.parts)
    small = largest <= most and compiled.answers <= MOST_ANSWERS and compiled.answers * columns <= MOST_WEIGHTS
    return small and not compiled.disjoint and columns > 1


def _blocks(compiled: Compiled) -> list[NDArray[np.int64]]:
    """The matrices of all parts that count anything."""
    return [part.matrix for part in compiled.parts if part.columns]


def _with_empty(compiled: Compiled, blocks: tuple[Integers, ...]) -> tuple[Integers, ...]:
    """``blocks``, and an empty matrix for every part that counts nothing."""
    left = iter(blocks)
    return tuple(next(left) if part.columns else np.zeros((0, 0), dtype=np.int64) for part in compiled.parts)


def _back(compiled: Compiled, matrices: tuple[Integers, ...]) -> NDArray[np.float64] | None:
    backs = reconstructions(compiled, matrices)
    return None if backs is None else np.hstack(backs)


def _offer(compiled: Compiled, name: str, blocks: tuple[Integers, ...], factor: Factor) -> Offer | None:
    matrices = _with_empty(compiled, blocks)
    back = _back(compiled, matrices)
    if back is None:
        return None
    margin = float(np.abs(back).sum(axis=1).max()) + 1 / (2 * PARTS_OF_A_STEP)
    return Offer(name, matrices, factor, margin, sensitivity_of(compiled, matrices))


def sensitivity_of(compiled: Compiled, matrices: tuple[Integers, ...]) -> Sensitivity:
    """Of a whole strategy: exact for counts, and for sums where its columns are few."""
    if compiled.summed is None:
        return sensitivities(matrices, replace_one=compiled.replace_one, rows=compiled.rows)
    return sum_sensitivity(matrices, compiled.summed, rows=compiled.rows, replace_one=compiled.replace_one)
