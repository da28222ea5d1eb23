"""How fast exact noise is drawn, beside OpenDP's samplers and beside the operating system's random words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from benchmarks.row import Options, Row
from siloquent.privacy.noise import add_gaussian, add_laplace

DRAWS = 1_000_000


def cpu(run: Callable[[], object], rounds: int = 3) -> float:
    """The median CPU seconds of a run, after one to warm up."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return sorted(found)[rounds // 2]


def rows(options: Options) -> Iterator[Row]:
    """CPU seconds for 10^6 draws; the peer is OpenDP 0.16 on the same vector."""
    zeros = np.zeros(DRAWS, dtype=np.int64)
    part = zeros[: DRAWS // 10]
    words = cpu(lambda: os.urandom(40 * DRAWS))
    how = f"10^6 draws, one thread; the limit is the system's random source: {words:.2f} s for the 40 bytes a draw"
    if options.wants("draws-laplace"):
        ours = cpu(lambda: add_laplace(zeros, scale=1000))
        yield Row(
            "draws-laplace",
            ours=ours,
            peer=10 * cpu(lambda: _opendp("make_laplace", part, 1000.0), 1),
            goal=0.5,
            unit="CPU s",
            how=how,
        )
    if options.wants("draws-gaussian"):
        ours = cpu(lambda: add_gaussian(zeros, variance=Fraction(10**6)))
        yield Row(
            "draws-gaussian",
            ours=ours,
            peer=10 * cpu(lambda: _opendp("make_gaussian", part, 1000.0), 1),
            goal=0.8,
            unit="CPU s",
            how=how,
        )
    if options.wants("draws-small"):
        small = zeros[:16]
        ours = cpu(lambda: [add_laplace(small, scale=1000) for _ in range(100)]) * 10
        yield Row("draws-small", ours=ours, goal=0.3, unit="CPU ms", how="a vector of 16, scale seen before")


def _opendp(constructor: str, values: np.ndarray[tuple[int], np.dtype[np.int64]], scale: float) -> object:
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    import opendp.mod as mod

    mod.enable_features("contrib")
    metric = metrics.l1_distance(T="i64") if constructor == "make_laplace" else metrics.l2_distance(T="f64")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    return getattr(measurements, constructor)(domain, metric, scale=scale)(values.tolist())
