"""How fast exact noise is drawn, beside OpenDP's samplers; and whether any claim about it can be refuted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.row import Options, Row
from siloquent.privacy.noise import add_gaussian, add_laplace
from siloquent.privacy.noise.opendp_noise import Kind, add_opendp_noise

DRAWS = 1_000_000
LARGER = 4  # claims are tried here with so many times the draws of the tests


def cpu(run: Callable[[], object], rounds: int = 5) -> float:
    """The median CPU seconds of a run, after one to warm up."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return sorted(found)[rounds // 2]


def rows(options: Options) -> Iterator[Row]:
    """CPU time of draws beside OpenDP 0.16 on the same values, then the audits."""
    yield from _draws(options)
    yield from _small(options)
    yield from _audits(options)


def _draws(options: Options) -> Iterator[Row]:
    zeros = np.zeros(DRAWS, dtype=np.int64)
    words = cpu(lambda: os.urandom(40 * DRAWS), 1)
    how = f"10^6 draws of scale 1000, one thread, warm; the system takes {words:.2f} s for 40 random bytes a draw"
    if options.wants("draws-laplace"):
        ours = cpu(lambda: add_laplace(zeros, scale=1000))
        yield Row("draws-laplace", ours=ours, peer=_opendp("laplace", zeros), goal=0.5, unit="CPU s", how=how)
    if options.wants("draws-gaussian"):
        ours = cpu(lambda: add_gaussian(zeros, variance=Fraction(10**6)))
        yield Row("draws-gaussian", ours=ours, peer=_opendp("gaussian", zeros), goal=0.8, unit="CPU s", how=how)


def _opendp(kind: Kind, zeros: NDArray[np.int64]) -> float:
    """CPU seconds of OpenDP for as many values, from a tenth of them."""
    part = zeros[: DRAWS // 10]
    return 10 * cpu(lambda: add_opendp_noise(part, kind, 1000.0), 1)


def _small(options: Options) -> Iterator[Row]:
    """The noise step of a GROUP BY with 16 groups, in milliseconds."""
    small = np.arange(16, dtype=np.int64)
    steps: dict[str, Callable[[], object]] = {
        "draws-small": lambda: add_laplace(small, scale=1000),
        "draws-small-gaussian": lambda: add_gaussian(small, variance=Fraction(1_000_003, 1024)),
    }
    for name, step in steps.items():
        if options.wants(name):
            ours = 10 * cpu(lambda step=step: [step() for _ in range(100)])  # type: ignore[misc]
            yield Row(name, ours=ours, goal=0.3, unit="CPU ms", how="a vector of 16 values, scale seen before")


def _audits(options: Options) -> Iterator[Row]:
    """Every noise function on trial, and every planted fault (docs/explanation/audit.md)."""
    if not any(options.wants(name) for name in ("audits-refuted", "audits-missed")) or options.quick:
        return
    # The cases live with the tests, so that both try the same ones.
    from tests.audit.noise_cases import claims, faults

    if options.wants("audits-refuted"):
        found = [case.audit(times=LARGER) for case in claims()]
        how = f"of {2 * len(found)} audits ({len(found)} cases, both directions), most of 400,000 draws a side"
        refuted = sum(result.refuted for result in found)
        yield Row("audits-refuted", ours=refuted, goal=0, unit="audits", how=f"{how}; gamma 1e-9")
    if options.wants("audits-missed"):
        found = [case.audit() for case in faults()]
        missed = sum(not result.refuted for result in found)
        yield Row("audits-missed", ours=missed, goal=0, unit="faults", how=f"of {len(found)} planted faults")
