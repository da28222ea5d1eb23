"""The cheapest strategy for a workload, with the factor that turns an error bound into a noise scale.

Found from the workload, beta and a seed only, and deterministic in these: EXPLAIN and the run agree. An optimiser's
result is only a proposal: the whole matrix is checked to determine the workload and is itself calibrated.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter

import numpy as np

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.maths.strategies.base import Asked, Norm, Reals, Strategy, WholeStrategy, quantise, reconstruct
from siloquent.maths.strategies.factorisation import find_best_factorisation
from siloquent.maths.strategies.identity import find_best_identity
from siloquent.maths.strategies.layered import compute_row_shapes, find_laplace_level
from siloquent.maths.strategies.trees import find_best_trees
from siloquent.maths.tails.calibration import Factor, compute_gaussian_factor, compute_laplace_factor
from siloquent.maths.tails.errors import DENOMINATOR, LARGEST_SCALE
from siloquent.maths.workloads import is_disjoint

MAX_CELLS = 4_096
_TUNED_CELLS = 1_024  # beyond, trees and cells only
_CONTENDERS, _CLOSE = 2, 1.1  # strategies that get an exact factor: their number, and their ratio by rough bounds
_MIN_GAUSSIAN = 3  # whole Gaussian noise lies within 1 of a normal draw from scale 3 on


@dataclass(frozen=True, slots=True)
class CalibratedStrategy:
    """A whole strategy and the effect of its noise on the answers.

    Attributes:
        strategy: The whole matrices to measure and their reconstructions.
        factor: kappa, in answer units for noise of scale 1 quantum.
        margin: The most that whole noise adds to it, in answer units.
        norm: ``l1`` for Laplace noise, ``l2`` for Gaussian.
    """

    strategy: WholeStrategy
    factor: Factor
    margin: float
    norm: Norm

    def compute_scale(self, alpha: float) -> Fraction:
        """Return the largest noise scale, in quanta, that keeps all answers within ``alpha`` with probability 1 - beta.

        Laplace: the scale b. Gaussian: the deviation s. A multiple of 1/1024, rounded down.
        """
        room = (alpha - self.margin) * (1 - 1e-12) / self.factor.value if self.factor.value else math.inf
        least = Fraction(_MIN_GAUSSIAN) if self.norm == "l2" else Fraction(1, DENOMINATOR)
        if room < least:
            raise AccuracyUnreachable(
                f"An error bound of {alpha:g} is below what this strategy's quanta can express.",
                best_alpha=self.compute_error(least),
            )
        return min(LARGEST_SCALE, Fraction(math.floor(min(room, float(LARGEST_SCALE)) * DENOMINATOR), DENOMINATOR))

    def compute_error(self, scale: Fraction) -> float:
        """Return the error bound that noise of this scale keeps."""
        return (float(scale) * self.factor.value + self.margin) * (1 + 1e-11)

    def compute_cost(self) -> float:
        """Return the price of an error bound of one: epsilon (L1) or mu = sqrt(2 rho) (L2), margin left out."""
        sums = [np.abs(block) if self.norm == "l1" else block.astype(np.float64) ** 2 for block in self.strategy.blocks]
        size = float(sum(block.sum(axis=0).max() for block in sums))
        return self.factor.value * (size if self.norm == "l1" else math.sqrt(size))


def choose_laplace_strategy(blocks: Sequence[Asked], *, beta: float, two_sided: bool, seed: int) -> CalibratedStrategy:
    """Return the cheapest strategy on offer for Laplace noise.

    Args:
        blocks: W = [W_1 | W_2 | ...], each of shape (answers, cells of the block), columns merged, mostly whole.
        beta: The miss rate of all answers together.
        two_sided: WCQ (both sides) or ICQ (one side).
        seed: A function of the workload's shape.
    """
    _check(blocks, beta)
    if len(blocks) > 1:
        parts = [_find_best_real(_drop_zero_rows(block), "l1", beta / len(blocks), two_sided, seed) for block in blocks]
        return _calibrate(_join(blocks, parts, "l1"), "l1", beta, two_sided, seed)
    contenders = _find_contenders(blocks[0], beta, two_sided, seed)
    return min(
        (_calibrate(one, "l1", beta, two_sided, seed) for one, _ in contenders), key=CalibratedStrategy.compute_cost
    )


def choose_gaussian_strategy(blocks: Sequence[Asked], *, beta: float, two_sided: bool) -> CalibratedStrategy:
    """Return the cheapest strategy on offer for Gaussian noise; arguments as for Laplace noise."""
    _check(blocks, beta)
    if len(blocks) > 1:
        parts = [_find_best_real(_drop_zero_rows(block), "l2", beta / len(blocks), two_sided, 0) for block in blocks]
        return _calibrate(_join(blocks, parts, "l2"), "l2", beta, two_sided, None)
    return _find_best(blocks[0], "l2", beta, two_sided, 0)[0]


def list_proposals(workload: Asked, *, norm: Norm, seed: int) -> list[Strategy]:
    """Return every strategy on offer for one block, untested; cells always come first."""
    cells = workload.shape[1]
    found = [Strategy("cells", np.eye(cells))]
    if is_disjoint(workload):  # no two answers share a cell, so measuring the cells is optimal
        return found
    lengths = np.abs(workload).sum(axis=0) if norm == "l1" else np.sqrt((workload.astype(np.float64) ** 2).sum(axis=0))
    if len(workload) >= cells and lengths.all():
        found.append(Strategy("the workload itself", workload / lengths.max()))
    found += find_best_trees(workload, norm=norm)
    if cells > _TUNED_CELLS:
        return found
    if norm == "l2":
        return [*found, find_best_factorisation(workload, steps=200 if cells <= 256 else 40)]
    sizes, starts, steps = (
        ((4, 6, 8), 8, 400) if cells <= 128 else ((8, 16), 1, 300) if cells <= 512 else ((16,), 1, 200)
    )
    return found + [
        find_best_identity(workload, p=p, starts=starts, steps=steps, seed=seed) for p in sizes if p < cells
    ]


def _drop_zero_rows(block: Asked) -> Asked:
    """Return the rows of the answers that count something in this block; the others have no noise from it."""
    return block[block.any(axis=1)]


def _find_best_real(block: Asked, norm: Norm, beta: float, two_sided: bool, seed: int) -> tuple[Strategy, float]:
    """Return the cheapest strategy of one block by the union bound, and its price."""
    best, real = _find_best(block, norm, beta, two_sided, seed)
    return real, best.compute_cost()


def _find_best(
    block: Asked, norm: Norm, beta: float, two_sided: bool, seed: int
) -> tuple[CalibratedStrategy, Strategy]:
    """Return the cheapest strategy that determines the block's answers, by bounds without sampling."""
    chosen = _find_contenders(block, beta, two_sided, seed) if norm == "l1" else _iter_whole(block, norm, seed)
    # One at a time: a reconstruction may take a tenth of the memory that planning has.
    return min(
        ((_calibrate(strategy, norm, beta, two_sided, None), real) for strategy, real in chosen),
        key=lambda pair: pair[0].compute_cost(),
    )


def _find_contenders(block: Asked, beta: float, two_sided: bool, seed: int) -> list[tuple[WholeStrategy, Strategy]]:
    """Return the few strategies that may be the cheapest for Laplace noise, chosen by fast bounds."""

    def price(strategy: WholeStrategy) -> float:
        back = np.abs(strategy.reconstruction)
        level = find_laplace_level(compute_row_shapes(back[back.any(axis=1)]), beta, two_sided=two_sided)
        return level * float(np.abs(strategy.blocks[0]).sum(axis=0).max())

    priced = ((price(one), one, real) for one, real in _iter_whole(block, "l1", seed))
    cheapest = heapq.nsmallest(_CONTENDERS, priced, key=itemgetter(0))
    return [(one, real) for cost, one, real in cheapest if cost <= cheapest[0][0] * _CLOSE]


def _iter_whole(block: Asked, norm: Norm, seed: int) -> Iterator[tuple[WholeStrategy, Strategy]]:
    """Iterate over all proposals that determine the block's answers, as whole matrices."""
    for real in list_proposals(block, norm=norm, seed=seed):
        matrix = quantise(real.matrix, norm=norm)
        back = reconstruct(block, matrix)
        if back is not None:
            yield WholeStrategy(real.name, (matrix,), (back,)), real


def _join(blocks: Sequence[Asked], parts: Sequence[tuple[Strategy, float]], norm: Norm) -> WholeStrategy:
    """Return one strategy a block, weighted so that all blocks fail equally often: in proportion to their prices."""
    prices = np.array([price for _, price in parts])
    weights = prices / (prices.sum() if norm == "l1" else np.sqrt((prices * prices).sum()))
    wholes, backs = [], []
    for block, (real, _), weight in zip(blocks, parts, weights.tolist(), strict=True):
        whole = quantise(real.matrix, norm=norm, weight=weight)
        back = reconstruct(block, whole)
        if back is None:
            raise RequestError(f"The strategy {real.name} does not determine its block.")
        wholes.append(whole)
        backs.append(back)
    names = list(dict.fromkeys(real.name for real, _ in parts))
    return WholeStrategy(" | ".join(names), tuple(wholes), tuple(backs))


def _calibrate(
    strategy: WholeStrategy, norm: Norm, beta: float, two_sided: bool, seed: int | None
) -> CalibratedStrategy:
    back: Reals = strategy.reconstruction
    if norm == "l1":
        factor = compute_laplace_factor(back, beta, two_sided=two_sided, seed=seed)
    else:
        factor = compute_gaussian_factor(back, beta, two_sided=two_sided)
    return CalibratedStrategy(strategy, factor, strategy.margin, norm)


def _check(blocks: Sequence[Asked], beta: float) -> None:
    if not 0 < beta < 1:
        raise RequestError(f"A miss rate lies between 0 and 1, not {beta}.", fix="ask for CONFIDENCE between 0 and 1")
    if not blocks or any(not block.size or not block.any() for block in blocks):
        raise RequestError("A strategy needs blocks in which some predicate counts some cell.")
    if max(block.shape[1] for block in blocks) > MAX_CELLS:
        raise RequestError(f"Strategies are sought for at most {MAX_CELLS} cells a block.", fix="use wider bins")
