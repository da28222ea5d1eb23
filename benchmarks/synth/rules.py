"""Engine ``tree`` on tables with rules: BR2000's soft rates, Tax and TPC-H with every hard FD and order kept."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

import siloquent
from benchmarks.datasets.kamino_rules import RATES, Ruled, br2000, pair_distance, tax, tpch
from benchmarks.row import Options, Row
from siloquent.privacy.budget import Budget
from siloquent.synth.estimate.enforce.constraints import count_violations
from siloquent.synth.spec.compiled import Violations
from siloquent.synth.spec.spec import SynthSpec

TAX_PAIRS = ("State", "Gender", "MaritalStatus", "HasChild", "Salary", "Rate", "MarriedExemp")
BR_PAIRS = tuple(f"a{i}" for i in range(1, 15))


def rows(options: Options) -> Iterator[Row]:
    """BR2000 over seeds; Tax and TPC-H once each."""
    yield from _soft(options)
    yield from _hard(options, "tax", tax(options.data), TAX_PAIRS, 0.05)
    true = tpch(options.data)
    named = [name for name in true.schema.domain.names if name != "c_custkey"]
    yield from _hard(options, "tpch", true, named, 0.03)


def synthesised(true: Ruled, seed: int) -> tuple[NDArray[np.int32], dict[int, Violations], float]:
    """Cells of a fresh run at epsilon 1, what they break, and the CPU seconds of the run."""
    with tempfile.TemporaryDirectory() as folder:
        siloquent.create_workspace(f"{folder}/w")
        session = siloquent.open(f"{folder}/w")
        session.add_frame(true.schema, true.table)
        begun = time.process_time()
        spec = SynthSpec(true.schema.name, Budget(epsilon="1"), rows=len(true.cells), seed=seed, report=0)
        release = session.synth.synthesize(spec)
        seconds = time.process_time() - begun
        cells = release.model.draw_cells(len(true.cells), seed=seed)
        return cells, count_violations(cells, release.model.frame.compiled, one_way=False), seconds


def _soft(options: Options) -> Iterator[Row]:
    true, seeds = br2000(options.data), 1 if options.quick else 10
    if not options.wants("synth-br2000"):
        return
    rates: dict[int, list[float]] = {number: [] for number in RATES}
    distances, seconds = [], []
    for seed in range(seeds):
        cells, broken, took = synthesised(true, seed)
        distances.append(pair_distance(true, cells, BR_PAIRS))
        seconds.append(took)
        for number in rates:
            rates[number].append(100 * broken[number].rate)
    for number, found in rates.items():
        yield Row(
            f"synth-br2000-b{number}",
            ours=float(np.mean([100 * abs(rate / RATES[number] - 1) for rate in found])),
            paper={1: 50.0, 2: 33.0, 3: 40.0}[number],
            goal=5.0,
            unit="% off",
            how=f"{seeds} seeds, mean rate {np.mean(found):.3f} %, the true one {RATES[number]} %, no DC handed in",
        )
    yield Row(
        "synth-br2000-2way", ours=float(np.mean(distances)), goal=0.016, unit="TV", how=f"{seeds} seeds, all pairs"
    )
    yield Row("synth-br2000-time", ours=float(np.median(seconds)), goal=4.0, unit="CPU s", how="fit and 38,000 rows")


def _hard(options: Options, name: str, true: Ruled, pairs: Sequence[str], goal: float) -> Iterator[Row]:
    if not options.wants(f"synth-{name}"):
        return
    cells, broken, seconds = synthesised(true, 0)
    total = sum(found.pairs for found in broken.values())
    size = f"{len(true.cells):,} rows, epsilon 1"
    yield Row(f"synth-{name}-broken", ours=total, goal=0, unit="pairs", how=f"all hard constraints, {size}")
    yield Row(f"synth-{name}-2way", ours=pair_distance(true, cells, pairs), goal=goal, unit="TV", how=", ".join(pairs))
    yield Row(f"synth-{name}-time", ours=seconds, unit="CPU s", how=size)
