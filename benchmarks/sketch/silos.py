"""Ten silos under one hash plan: exact counters add up to the central ones, shared noise to one central release's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from benchmarks.baselines import data as race
from benchmarks.row import Options, Row
from siloquent.maths.lsh import PStable
from siloquent.privacy.noise.distributed import add_gaussian_share, add_laplace_share
from siloquent.sketch.measure import add_counter_noise, count_places
from siloquent.sketch.plan import compute_noise_variance

SILOS = 10
DRAWN = 2**19
"""So many counters show one hundredth of a Gaussian variance at five standard deviations, of a Laplace one at three."""


def rows(options: Options) -> Iterator[Row]:
    """Counters that differ, and how far the summed shares' variance lies from one release's."""
    if options.wants("silos-counters"):
        yield _counters(options)
    accounts: tuple[Literal["zcdp", "pure"], ...] = ("zcdp", "pure")
    for account in accounts:
        if options.wants(f"silos-variance-{account}"):
            yield _variance(options, account)


def _counters(options: Options) -> Row:
    task = race.skin(options.data, PStable(2, 5.0))
    made = race.planned(task, "zcdp", "1", seed=1, rows=256)
    places = race.places(task, task.data)
    central, _ = count_places(made, places, None)
    parts = [count_places(made, part, None)[0] for part in np.array_split(places, SILOS)]
    return Row(
        "silos-counters",
        ours=int(np.count_nonzero(np.sum(parts, axis=0) != central)),
        goal=0,
        unit="counters that differ before noise",
        how=f"skin, 243,056 x 3 over {SILOS} silos, R = 256, W = {central.shape[2]}",
    )


def _variance(options: Options, account: Literal["zcdp", "pure"]) -> Row:
    task = race.skin(options.data, PStable(2, 5.0))
    # Laplace shares take longer the wider the noise, and no wider noise is made otherwise: a scale of 4 will do.
    made = race.planned(task, account, "1" if account == "zcdp" else "4", seed=1, rows=256 if account == "zcdp" else 16)
    shares: Any = np.zeros(DRAWN, dtype=np.int64)
    for _ in range(SILOS):
        if account == "zcdp":
            shares = add_gaussian_share(shares, variance=made.parameter, honest=SILOS)
        else:
            shares = add_laplace_share(shares, scale=made.parameter, honest=SILOS)
    stated = float(compute_noise_variance(made.noise, made.parameter))
    central = float(add_counter_noise(made, np.zeros(DRAWN, dtype=np.int64), made.parameter).var())
    found = float(shares.var())
    return Row(
        f"silos-variance-{account}",
        ours=max(abs(found / stated - 1), abs(found / central - 1)),
        goal=0.01,
        unit="relative distance of variances",
        how=f"{SILOS} shares of {made.noise} noise, {DRAWN:,} counters: {found:.1f}; one release: {central:.1f}, "
        f"stated {stated:.1f}",
    )
