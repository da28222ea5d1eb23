"""Iceberg questions that stop paying as soon as the answer is clear: noisy counts whose noise is reduced in steps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import AccuracyUnreachable
from siloquent.explore.measure.base import Integers, Outcome, Priced, Wanted, answers, sharpened
from siloquent.explore.plan.compiled import Compiled
from siloquent.maths import promises
from siloquent.privacy import NoiseReduction

POKES = 12
GROWTH = Fraction(6, 5)
_FINEST = Fraction(2**46)  # the coarsest scale, 7.4 times as large, must stay within the sampler's range


def price_pokes(compiled: Compiled, wanted: Wanted) -> Priced | None:
    """Looks at ever less noisy answers; the first that decides every answer is the last that is paid for.

    Privacy:
        (L1 / b_i)-DP ex post, where i is the published stop and b_i its scale; the worst is the last scale. Only pure
        accounts without a delta limit may settle below the worst. Proof: docs/explanation/multi-poking.md.
    Source:
        APEx, section 3.5.2 (multi-poking), with the discrete backward chain of ``noise_chain`` instead of its
        published program's forward one, and exact discrete tails.
    """
    if wanted.kind != "icq" or compiled.sensitivity.l1 == 0:
        return None
    try:
        finest = promises.largest_scale(promises.LaplaceAbove(1), wanted.m, _share(compiled, wanted))
    except AccuracyUnreachable:
        return None
    l1 = compiled.sensitivity.l1
    finest = min(finest, _FINEST)
    scales = steps(sharpened(finest, lambda one: NoiseReduction(scales=(one,), l1=l1), wanted.affords))
    margins = margins_of(scales, compiled, wanted)
    event = NoiseReduction(scales=scales, l1=l1)

    def run(workload: Compiled, columns: list[Integers]) -> Outcome:
        from siloquent.privacy.noise import noise_chain

        noisy = answers(workload, columns) + noise_chain(workload.answers, scales=scales)
        reported, clear = looks(noisy, margins, wanted)
        stop = int(clear.argmax())
        return Outcome(np.flatnonzero(reported[stop]), replace(event, stop=stop))

    return Priced("multi-poking", "chosen", event, run, reusable=False, least=replace(event, stop=0))


def _share(compiled: Compiled, wanted: Wanted) -> float:
    """What one look at one answer may fail with: an answer fails on one side only, whichever it is."""
    return wanted.together / (POKES * compiled.answers)


def steps(finest: Fraction) -> tuple[Fraction, ...]:
    """Decreasing scales that end at ``finest``, each 1.2 times the next, in 1/1024; fewer where they would be equal.

    Where ``finest`` itself has more digits, all have so many.
    """
    parts = max(promises.DENOMINATOR, finest.denominator)
    wanted = (Fraction(int(finest * GROWTH**i * parts), parts) for i in range(POKES))
    return tuple(sorted(set(wanted), reverse=True))


def margins_of(scales: tuple[Fraction, ...], compiled: Compiled, wanted: Wanted) -> Integers:
    """For each look what its noise passes with a share of beta at most, shape (looks,).

    At the last it is m - 1, which leaves no answer undecided.
    """
    law, share = promises.LaplaceAbove(1), _share(compiled, wanted)
    return np.array([*(promises.smallest_error(law, scale, share) - 1 for scale in scales[:-1]), wanted.m - 1])


def looks(noisy: Integers, margins: Integers, wanted: Wanted) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which answers each look reports, shape (looks, .., answers), and whether it decides all of them, (looks, ..).

    An answer is reported if it is no more than alpha below the threshold unless its noise passed the margin, and left
    out if it is no more than alpha above it. The threshold of the question lies in [t, t + 1], t that of ``wanted``:
    both are measured from the end that is worse.

    Args:
        noisy: Shape (looks, .., answers).
        margins: Shape (looks,).
    """
    above = noisy - wanted.threshold
    margin = margins.reshape(-1, *[1] * (noisy.ndim - 1))
    reported = above - margin >= 2 - wanted.m
    return reported, np.all(reported | (above + margin <= wanted.m - 1), axis=-1)
