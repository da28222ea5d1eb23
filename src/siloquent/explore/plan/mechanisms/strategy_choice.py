"""Strategies for a workload, with the part of their price that does not depend on the error bound.

They are searched and calibrated once per shape and beta, and then kept in memory: a query of a known shape is planned
in about a millisecond. Nothing here reads rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
from siloquent.explore.plan.cells.predicates import compute_sum_sensitivity
from siloquent.explore.plan.mechanisms.reconstruction import PARTS_OF_A_STEP, Matrix, compute_reconstructions
from siloquent.maths.sensitivity.linear import Sensitivity, compute_sensitivity
from siloquent.maths.strategies import CalibratedStrategy, choose_gaussian_strategy, choose_laplace_strategy
from siloquent.maths.strategies.base import QUANTUM_BITS, Norm, reconstruct
from siloquent.maths.strategies.sparse import Sparse
from siloquent.maths.tails.calibration import Factor, compute_gaussian_factor, compute_normal_factor

MAX_COLUMNS, MAX_ANSWERS, MAX_WEIGHTS = 1_024, 10_000, 2 * 10**7
MAX_RANKED_ANSWERS, MAX_RANKED_COLUMNS = 1_000, 2_048  # a list compares answers, so R must be dense


@dataclass(frozen=True, slots=True, eq=False)
class StrategyChoice:
    """A complete integer strategy: ``matrices`` holds one A_B per part of the workload.

    An error beyond ``factor`` times the scale of continuous noise has probability at most beta; integer noise and
    rounded answers change this by at most ``margin``.
    """

    name: str
    matrices: tuple[Matrix, ...]
    factor: Factor
    margin: float
    sensitivity: Sensitivity


_found: ByteLRU[CalibratedStrategy] = ByteLRU(2**28, lambda one: 3 * _count_bytes(one.strategy.blocks))
_offers: ByteLRU[StrategyChoice | None] = ByteLRU(2**28, lambda one: 0 if one is None else _count_bytes(one.matrices))


def _count_bytes(matrices: tuple[Matrix, ...]) -> int:
    return 1_000 + sum(matrix.nbytes for matrix in matrices)


def find_laplace_choice(compiled: CompiledWorkload, beta: float, *, two_sided: bool) -> StrategyChoice | None:
    """Find the cheapest strategy for discrete Laplace noise; None if no strategy can beat the workload itself."""
    if not _can_offer(compiled):
        return None
    key = ("laplace", compiled.shape, beta, two_sided)

    def make() -> StrategyChoice | None:
        found = _found.get(key, lambda: _find_laplace_strategy(compiled, beta, two_sided))
        return _build_choice(compiled, found.strategy.name, found.strategy.blocks, found.factor)

    return _offers.get((*key, *_build_sensitivity_key(compiled)), make)


def find_gaussian_choice(
    compiled: CompiledWorkload, beta: float, *, two_sided: bool, bits: int, columns: int = MAX_COLUMNS
) -> StrategyChoice | None:
    """Find the cheapest strategy for discrete Gaussian noise in quanta of 2^-bits, for parts of these ``columns``."""
    if not _can_offer(compiled, columns):
        return None
    key = ("gaussian", compiled.shape, beta, two_sided)

    def make() -> StrategyChoice | None:
        found = _found.get(
            key, lambda: choose_gaussian_strategy(_list_blocks(compiled), beta=beta, two_sided=two_sided)
        )
        blocks = tuple(np.rint(b * 2.0 ** (bits - QUANTUM_BITS)).astype(np.int64) for b in found.strategy.blocks)
        back = _build_reconstruction(compiled, _add_empty_blocks(compiled, blocks))
        if back is None:
            return None
        return _build_choice(
            compiled, found.strategy.name, blocks, compute_gaussian_factor(back, beta, two_sided=two_sided)
        )

    return _offers.get((*key, bits, *_build_sensitivity_key(compiled)), make)


def find_top_choice(compiled: CompiledWorkload, beta: float, k: int, *, bits: int) -> StrategyChoice | None:
    """Find ``find_gaussian_choice``'s strategy, with the factor for differences that can spoil a top ``k`` list.

    A wrong list has a pair, one of it and one that belongs there, whose noises differ by more than alpha. Whichever k
    are the true ones, there are k (answers - k) or (k - 1)(answers - k + 1) such pairs: the worst ones are added up.
    """
    if compiled.answers > MAX_RANKED_ANSWERS:
        return None

    def make() -> StrategyChoice | None:
        found = find_gaussian_choice(compiled, beta, two_sided=True, bits=bits, columns=MAX_RANKED_COLUMNS)
        back = (
            None
            if found is None
            else _build_reconstruction(compiled, tuple(m for m in found.matrices if not isinstance(m, Sparse)))
        )
        if found is None or back is None:
            return None
        gram = back @ back.T
        squares = np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2 * gram
        pairs = np.sort(squares[np.triu_indices(compiled.answers, 1)])[::-1]
        wrong = max(k * (compiled.answers - k), (k - 1) * (compiled.answers - k + 1))
        deviations = np.sqrt(np.maximum(pairs[:wrong], 0.0)) * (1 + 1e-9)
        return replace(found, factor=compute_normal_factor(deviations, beta, two_sided=False), margin=2 * found.margin)

    return _offers.get(("top", compiled.shape, beta, k, bits, *_build_sensitivity_key(compiled)), make)


def find_ranks_choice(
    compiled: CompiledWorkload, rows: NDArray[np.float64], beta: float, *, norm: Norm, bits: int
) -> StrategyChoice | None:
    """Find the cheapest strategy for ``rows``, real-valued queries on a group's values, used alike in every group.

    Args:
        compiled: Counts of each group's values, contiguous per group; its answers are the groups.
        rows: Shape (queries, values of a group).
        beta: The miss rate of one group.
        bits: Gaussian noise is measured in quanta of 2^-bits.
    """
    digest = hashlib.sha256(repr(rows.shape).encode() + rows.tobytes()).hexdigest()
    key = ("ranks", norm, digest, beta)

    def sought() -> CalibratedStrategy:
        if norm == "l2":
            return choose_gaussian_strategy([rows], beta=beta, two_sided=True)
        return choose_laplace_strategy([rows], beta=beta, two_sided=True, seed=int(digest[:12], 16))

    def make() -> StrategyChoice | None:
        found = _found.get(key, sought)
        (block,), factor = found.strategy.blocks, found.factor
        if norm == "l2":
            block = np.rint(block * 2.0 ** (bits - QUANTUM_BITS)).astype(np.int64)
        back = reconstruct(rows, block)
        if back is None:
            return None
        if norm == "l2":
            factor = compute_gaussian_factor(back, beta, two_sided=True)
        each = [
            np.kron(np.eye(groups, dtype=np.int64), block) for groups in (compiled.answers, min(2, compiled.answers))
        ]
        # Two columns lie in one group or in two; two groups contain all such pairs.
        sensitivity = compute_choice_sensitivity(compiled, (each[1],))
        margin = float(np.abs(back).sum(axis=1).max()) + 1 / PARTS_OF_A_STEP
        return StrategyChoice(found.strategy.name, (each[0],), factor, margin, sensitivity)

    return _offers.get((*key, bits, compiled.answers, *_build_sensitivity_key(compiled)), make)


def _find_laplace_strategy(compiled: CompiledWorkload, beta: float, two_sided: bool) -> CalibratedStrategy:
    # Planning is the same in EXPLAIN and in the run: its random starts are derived from the workload's shape.
    seed = int(compiled.shape[:12], 16)
    return choose_laplace_strategy(_list_blocks(compiled), beta=beta, two_sided=two_sided, seed=seed)


def _build_sensitivity_key(compiled: CompiledWorkload) -> tuple[object, ...]:
    """Build a key of everything that a strategy's sensitivity depends on, besides its matrices."""
    summed = compiled.summed
    return compiled.replace_one, compiled.rows, None if summed is None else (summed.lowest, summed.highest)


def _can_offer(compiled: CompiledWorkload, most: int = MAX_COLUMNS) -> bool:
    columns = sum(part.columns for part in compiled.parts)
    largest = max(part.columns for part in compiled.parts)
    small = largest <= most and compiled.answers <= MAX_ANSWERS and compiled.answers * columns <= MAX_WEIGHTS
    return small and not compiled.disjoint and columns > 1


def _list_blocks(compiled: CompiledWorkload) -> list[NDArray[np.int64]]:
    """List the matrices of all parts that count anything."""
    return [part.matrix for part in compiled.parts if part.columns]


def _add_empty_blocks(compiled: CompiledWorkload, blocks: tuple[Integers, ...]) -> tuple[Integers, ...]:
    """Return ``blocks`` with an empty matrix for every part that counts nothing."""
    left = iter(blocks)
    return tuple(next(left) if part.columns else np.zeros((0, 0), dtype=np.int64) for part in compiled.parts)


def _build_reconstruction(compiled: CompiledWorkload, matrices: tuple[Integers, ...]) -> NDArray[np.float64] | None:
    backs = compute_reconstructions(compiled, matrices)
    return None if backs is None else np.hstack(backs)


def _build_choice(
    compiled: CompiledWorkload, name: str, blocks: tuple[Integers, ...], factor: Factor
) -> StrategyChoice | None:
    matrices = _add_empty_blocks(compiled, blocks)
    back = _build_reconstruction(compiled, matrices)
    if back is None:
        return None
    margin = float(np.abs(back).sum(axis=1).max()) + 1 / (2 * PARTS_OF_A_STEP)
    return StrategyChoice(name, matrices, factor, margin, compute_choice_sensitivity(compiled, matrices))


def compute_choice_sensitivity(compiled: CompiledWorkload, matrices: tuple[Integers, ...]) -> Sensitivity:
    """Compute the sensitivity of a whole strategy: exact for counts, and for sums with few columns."""
    if compiled.summed is None:
        return compute_sensitivity(matrices, replace_one=compiled.replace_one, rows=compiled.rows)
    return compute_sum_sensitivity(matrices, compiled.summed, rows=compiled.rows, replace_one=compiled.replace_one)
