"""One run of a priced mechanism: what its draw says, on exact numbers."""

from __future__ import annotations

from siloquent.explore.measure.base import Outcome, compute_answers, compute_measurements
from siloquent.explore.measure.multi_poking import look_until_clear
from siloquent.explore.measure.selection import select_by_rounds, select_crossing, select_noisy_top, select_values
from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers
from siloquent.explore.plan.mechanisms.base import PricedMechanism
from siloquent.explore.plan.mechanisms.draws import (
    AdditiveDraw,
    CrossingDraw,
    LooksDraw,
    NoisyTopDraw,
    RankDraw,
    RoundsDraw,
)
from siloquent.privacy import NoiseReduction


def run_mechanism(priced: PricedMechanism, compiled: CompiledWorkload, columns: list[Integers]) -> Outcome:
    """Run ``priced`` once on each part's exact folded numbers. It fails for no numbers: an error would reveal rows.

    Privacy:
        ``priced.event`` in the unit and adjacency of ``compiled``; for an ex-post mechanism the event of the outcome.
    """
    event = priced.event
    match priced.draw:
        case AdditiveDraw() as draw if priced.strategy:
            return Outcome(add_noise(draw, compute_measurements(priced.strategy, columns)), event)
        case AdditiveDraw() as draw:
            return Outcome(add_noise(draw, compute_answers(compiled, columns)), event)
        case NoisyTopDraw() as draw:
            return Outcome(select_noisy_top(draw, compute_answers(compiled, columns)), event)
        case RoundsDraw() as draw:
            return Outcome(select_by_rounds(draw, compute_answers(compiled, columns)), event)
        case CrossingDraw() as draw:
            return Outcome(select_crossing(draw, compute_answers(compiled, columns)), event)
        case RankDraw() as draw:
            (counts,) = columns
            return Outcome(select_values(draw, counts), event)
        case LooksDraw() as draw:
            assert isinstance(event, NoiseReduction)
            return look_until_clear(draw, event, compute_answers(compiled, columns))
        case None:
            raise AssertionError("nothing is measured for an answer that is free")


def add_noise(draw: AdditiveDraw, exact: Integers) -> Integers:
    """Return ``exact`` numbers plus discrete Laplace or Gaussian noise of the draw's size.

    Privacy:
        Pure (D1 / scale)-DP, or rho-zCDP with rho = D2^2 / (2 variance), where D1 and D2^2 are the L1 and squared L2
        sensitivities of ``exact``. Proofs: docs/explanation/laplace.md, docs/explanation/discrete-gaussian.md.
    """
    from siloquent.privacy.noise import add_gaussian, add_laplace

    if draw.noise == "laplace":
        return add_laplace(exact, scale=draw.size)
    return add_gaussian(exact, variance=draw.size)
