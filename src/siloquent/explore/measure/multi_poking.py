"""Iceberg queries that stop paying as soon as the answer is clear: the looks, and which of them decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from siloquent.explore.measure.base import Outcome
from siloquent.explore.plan.cells.compiled import Integers
from siloquent.explore.plan.mechanisms.draws import LooksDraw
from siloquent.privacy import NoiseReduction


def look_until_clear(draw: LooksDraw, event: NoiseReduction, exact: Integers) -> Outcome:
    """Return the ids of ``exact`` answers above the threshold, as seen by the first look that decides all of them.

    Privacy:
        (L1 / b_i)-DP ex post, where i is the published stop and b_i its scale: the event of the outcome. Proof:
        docs/explanation/multi-poking.md.
    """
    from siloquent.privacy.noise import draw_noise_chain

    noisy = exact + draw_noise_chain(len(exact), scales=draw.scales)
    reported, clear = check_looks(noisy, draw)
    stop = int(clear.argmax())
    return Outcome(np.flatnonzero(reported[stop]), replace(event, stop=stop))


def check_looks(noisy: Integers, draw: LooksDraw) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which answers each look reports, (looks, ..., answers), and whether it decides all, (looks, ...).

    An answer is reported if it is no more than alpha below the threshold unless its noise exceeded the margin, and left
    out if it is no more than alpha above it. The query's threshold lies in [t, t + 1], t that of ``draw``:
    both are measured from the worse end.

    Args:
        noisy: Shape (looks, ..., answers).
    """
    above = noisy - draw.threshold
    margin = draw.margins.reshape(-1, *[1] * (noisy.ndim - 1))
    reported = above - margin >= 2 - draw.m
    return reported, np.all(reported | (above + margin <= draw.m - 1), axis=-1)
