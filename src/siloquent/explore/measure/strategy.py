"""Noise on other, better questions: measure A x, answer W A+ y (the strategy mechanism and its Gaussian kin)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from threading import Lock
from typing import TypeVar

import numpy as np

from siloquent.explore.measure.base import Integers, Priced, Wanted, product
from siloquent.explore.plan.compiled import Compiled
from siloquent.maths.calibration import Factor, gaussian_factor, laplace_factor
from siloquent.maths.sensitivity import Sensitivity, sensitivities
from siloquent.maths.strategies.base import Norm, Strategy, WholeStrategy, quantise, reconstruct
from siloquent.maths.strategies.factorisation import best_factorisation
from siloquent.maths.strategies.identity import best_identity
from siloquent.maths.strategies.trees import best_trees
from siloquent.privacy import DiscreteGaussian, DiscreteLaplace

MOST_COLUMNS = 1_000
KEPT_SHAPES = 256
LARGEST_DEVIATION = 2**24
LEAST_BITS = 4

_kept: OrderedDict[tuple[object, ...], object] = OrderedDict()
_lock = Lock()
T = TypeVar("T")


def price_strategies(compiled: Compiled, wanted: Wanted) -> list[Priced]:
    """Every strategy on offer with discrete Laplace noise; empty where none can beat W itself.

    Privacy:
        Pure (D1 / scale)-DP, D1 the exact L1 sensitivity of the whole matrix A. Proof:
        docs/explanation/strategy-mechanism.md.
    Source:
        APEx, section 3.4.2 (SM), calibrated to W A+ instead of A+; strategies: docs/explanation/strategies.md.
    """
    found = []
    for strategy in _strategies(compiled, "l1"):
        factor = _factor(compiled, strategy, wanted)
        room = float(wanted.alpha) - strategy.margin
        scale = Fraction(math.floor(room / factor.value * 1024), 1024) if factor.value > 0 else Fraction(0)
        if scale > 0:
            d1 = _sensitivity(compiled, strategy).l1
            event = DiscreteLaplace(scale=scale, l1=d1)
            found.append(_priced(strategy, event, factor, _laplace(strategy, scale)))
    return found


def price_factorisations(compiled: Compiled, wanted: Wanted) -> list[Priced]:
    """Every strategy on offer with discrete Gaussian noise.

    Privacy:
        rho-zCDP with rho = D2^2 / (2 variance), D2^2 the exact squared L2 sensitivity of the whole matrix A.
    Source:
        explore's design, section 5; the factorisation is tuned to the largest row of R.
    """
    found = []
    for strategy in _strategies(compiled, "l2", bits=_bits(compiled, wanted)):
        factor = _factor(compiled, strategy, wanted, gaussian=True)
        deviation = min((float(wanted.alpha) - strategy.margin) / factor.value if factor.value > 0 else 0.0, 2.0**25)
        if deviation >= 3:  # below, whole noise is not within 1 of the normal law it is calibrated by
            variance = Fraction(math.floor(deviation**2))
            d2 = _sensitivity(compiled, strategy).l2_squared
            event = DiscreteGaussian(variance=variance, l2_squared=d2)
            found.append(_priced(strategy, event, factor, _gaussian(strategy, variance), kind="gaussian "))
    return found


def _priced(
    strategy: WholeStrategy,
    event: DiscreteLaplace | DiscreteGaussian,
    factor: Factor,
    run: Callable[[Compiled, list[Integers]], Integers],
    *,
    kind: str = "",
) -> Priced:
    return Priced(f"{kind}{strategy.name}", "strategy", event, run, True, factor.method, strategy.blocks)


def _laplace(strategy: WholeStrategy, scale: Fraction) -> Callable[[Compiled, list[Integers]], Integers]:
    def run(_: Compiled, columns: list[Integers]) -> Integers:
        from siloquent.privacy.noise import add_laplace

        return add_laplace(_measured(strategy, columns), scale=scale)

    return run


def _gaussian(strategy: WholeStrategy, variance: Fraction) -> Callable[[Compiled, list[Integers]], Integers]:
    def run(_: Compiled, columns: list[Integers]) -> Integers:
        from siloquent.privacy.noise import add_gaussian

        return add_gaussian(_measured(strategy, columns), variance=variance)

    return run


def _measured(strategy: WholeStrategy, columns: list[Integers]) -> Integers:
    return np.concatenate([product(matrix, x) for matrix, x in zip(strategy.blocks, columns, strict=True)])


def _sensitivity(compiled: Compiled, strategy: WholeStrategy) -> Sensitivity:
    found = sensitivities(strategy.blocks, replace_one=compiled.replace_one, rows=compiled.rows)
    if not compiled.attribute:
        return found
    # A row adds its value times a column; replacing one moves by at most twice the largest column.
    single = sensitivities(strategy.blocks, replace_one=False, rows=1)
    each = compiled.rows * compiled.largest * (2 if compiled.replace_one else 1)
    return Sensitivity(each * single.l1, each**2 * single.l2_squared, each * single.linf)


def _remembered(key: tuple[object, ...], make: Callable[[], T]) -> T:
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]  # type: ignore[return-value]
    made = make()
    with _lock:
        _kept[key] = made
        while len(_kept) > KEPT_SHAPES:
            _kept.popitem(last=False)
    return made


def _factor(compiled: Compiled, strategy: WholeStrategy, wanted: Wanted, *, gaussian: bool = False) -> Factor:
    key = (compiled.shape, strategy.name, strategy.blocks[0].max(), wanted.beta, wanted.two_sided, gaussian)
    rows = strategy.reconstruction

    def make() -> Factor:
        if gaussian:
            return gaussian_factor(rows, wanted.beta, two_sided=wanted.two_sided)
        return laplace_factor(rows, wanted.beta, two_sided=wanted.two_sided, seed=_seed(compiled))

    return _remembered(key, make)


def _seed(compiled: Compiled) -> int:
    """Planning is the same in EXPLAIN and in the run: its random starts come from the workload's shape."""
    return int(compiled.shape[:12], 16)


def _bits(compiled: Compiled, wanted: Wanted) -> int:
    """Quanta so fine that rounding hardly costs, so coarse that the variance stays within the sampler's range."""
    rough = float(wanted.alpha) / 3
    return max(LEAST_BITS, min(16, math.floor(math.log2(LARGEST_DEVIATION / max(rough, 1.0)))))


def _strategies(compiled: Compiled, norm: Norm, *, bits: int = 16) -> list[WholeStrategy]:
    if compiled.disjoint or len(compiled.parts) != 1 or not 2 <= compiled.parts[0].matrix.shape[1] <= MOST_COLUMNS:
        return []
    return _remembered((compiled.shape, norm, bits), lambda: _whole(compiled, norm, bits))


def _whole(compiled: Compiled, norm: Norm, bits: int) -> list[WholeStrategy]:
    matrix, whole = compiled.parts[0].matrix, []
    for strategy in _remembered((compiled.shape, norm), lambda: _searched(compiled, norm)):
        quanta = quantise(strategy.matrix, norm=norm, bits=bits)
        back = reconstruct(matrix, quanta)
        if back is not None:
            whole.append(WholeStrategy(strategy.name, (quanta,), (back,)))
    return whole


def _searched(compiled: Compiled, norm: Norm) -> list[Strategy]:
    matrix = compiled.parts[0].matrix
    cells = matrix.shape[1]
    real = [Strategy("cells", np.eye(cells)), *best_trees(matrix, norm=norm)]
    if norm == "l2":
        real.append(best_factorisation(matrix, steps=60 if cells <= 256 else 12))
    elif cells <= 256:
        real += [best_identity(matrix, p=p, starts=8, steps=400, seed=_seed(compiled)) for p in (4, 6, 8) if p < cells]
    else:
        real.append(best_identity(matrix, p=16, starts=1, steps=100, seed=_seed(compiled)))
    return real
