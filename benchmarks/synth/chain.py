"""Engine ``chain`` (Kamino, corrected): Adult at epsilon 1, the thesis's settings and ours; soft rates."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import siloquent
from benchmarks.datasets.kamino_rules import RATES, br2000
from benchmarks.datasets.kamino_tables import Published, adult, distances, learned
from benchmarks.row import Options, Row
from siloquent.privacy import convert_zcdp_to_epsilon
from siloquent.privacy.budget import Budget
from siloquent.schema import TableSchema
from siloquent.synth.estimate.chain.model import ChainModel
from siloquent.synth.estimate.enforce.constraints import count_violations
from siloquent.synth.spec.chain import OURS, PAPER, ChainSpec
from siloquent.synth.spec.spec import SynthSpec

STEPS_DELTA = Fraction(1, 2_000_000)
COUNTS_RHO = Fraction(155, 100_000)  # epsilon 0.24 at half of delta
STEPS_EPSILON = Fraction(75, 100)


def rows(options: Options) -> Iterator[Row]:
    """Adult with both settings, BR2000 with weights at the true rates."""
    if options.wants("synth-chain-adult"):
        yield from _adult(options, "adult", OURS, seeds=1 if options.quick else 3)
    if options.wants("synth-chain-paper") and not options.quick:
        yield from _adult(options, "paper", PAPER, seeds=1)
    if options.wants("synth-chain-br2000"):
        yield from _weights(options)


def _priced(schema: TableSchema) -> TableSchema:
    """The table in an account that holds one run at (1, 1e-6): counts in rho, steps as (epsilon, delta)."""
    whole = STEPS_EPSILON**2 / 2 + COUNTS_RHO
    budget = replace(schema.budget, epsilon=None, rho=2 * whole, delta=Fraction(1, 10**6), delta_events=STEPS_DELTA)
    return replace(schema, budget=budget, size_hint=schema.size_hint)


def _learn(schema: TableSchema, table: Any, chain: ChainSpec, seed: int, **more: Any) -> tuple[ChainModel, float]:
    with tempfile.TemporaryDirectory() as folder:
        siloquent.create_workspace(f"{folder}/w")
        session = siloquent.open(f"{folder}/w")
        session.add_frame(_priced(schema), table)
        whole = STEPS_EPSILON**2 / 2 + COUNTS_RHO
        asked: dict[str, Any] = {"chain": replace(chain, counts=str(COUNTS_RHO / whole)), "report": 0, **more}
        spec = SynthSpec(schema.name, Budget(rho=whole), seed=seed, engine="chain", **asked)
        begun = time.process_time()
        model: ChainModel = session.synth.synthesize(spec).model
        return model, time.process_time() - begun


def _adult(options: Options, name: str, chain: ChainSpec, *, seeds: int) -> Iterator[Row]:
    true = adult(options.data)
    found, seconds, broken = [], [], 0
    for seed in range(seeds):
        model, took = _learn(true.schema, true.table, chain, seed)
        begun = time.process_time()
        cells = model.draw_cells(true.rows, seed=seed)
        seconds.append(took + time.process_time() - begun)
        broken += sum(one.pairs for one in count_violations(cells, model.frame.compiled, one_way=False).values())
        found.append(_measured(true, model.draw(true.rows, seed=seed)))
    one, two, worst, accuracy, auc = (float(part) for part in np.mean(found, axis=0))
    sampled = model.plan.sampled
    assert sampled is not None
    price = float(sampled.epsilon) + convert_zcdp_to_epsilon(float(model.plan.first.price), float(STEPS_DELTA))
    how = f"{seeds} seeds, epsilon {price:.3f} at 1e-6, sigma {float(sampled.multiplier):.2f}, {sampled.steps:,} steps"
    is_paper = name == "paper"
    yield Row(f"synth-chain-{name}-broken", ours=broken, goal=0, unit="pairs", how=how)
    yield Row(f"synth-chain-{name}-1way", ours=one, peer=0.1247 if is_paper else 0.0120, unit="TV", how=how)
    yield Row(
        f"synth-chain-{name}-2way", ours=two, peer=0.2183 if is_paper else 0.0395, unit="TV", how=f"worst {worst:.3f}"
    )
    yield Row(
        f"synth-chain-{name}-income",
        ours=accuracy,
        peer=0.7641 if is_paper else 0.836,
        better="higher",
        unit="accuracy",
        how=f"boosted trees, AUC {auc:.3f}",
    )
    yield Row(
        f"synth-chain-{name}-time", ours=float(np.median(seconds)), unit="CPU s", how="fit and rows, noise included"
    )


def _measured(true: Published, table: Any) -> tuple[float, ...]:
    columns: dict[str, NDArray[Any]] = {n: table.column(n).to_numpy(zero_copy_only=False) for n in table.column_names}
    apart = distances(true, columns)
    return (apart.one, apart.two, apart.two_worst, *learned(true, columns, "income", "hgb"))


def _weights(options: Options) -> Iterator[Row]:
    """BR2000: rates with no weights, with weights fitted to the true rates, by resampling and by acceptance."""
    true = br2000(options.data)
    wanted = {str(number): f"{rate / 100:.6f}" for number, rate in RATES.items()}
    model, took = _learn(true.schema, true.table, ChainSpec(steps=60 if options.quick else 300), 0, rates=wanted)
    count = 5_000 if options.quick else len(true.cells)
    ways: dict[str, tuple[ChainModel, dict[str, Any]]] = {
        "none": (model.replace_weights({}), {}),
        "weights": (model, {}),
        "resampled": (model, {"resample": 1.0}),
        "refusal": (model, {"sampler": "accept-reject"}),
    }
    for way, (chosen, settings) in ways.items():
        spec = replace(chosen.plan.spec, chain=replace(chosen.plan.chain, **settings))
        plan = replace(chosen.plan, first=replace(chosen.plan.first, spec=spec))
        begun = time.process_time()
        cells = replace(chosen, plan=plan).draw_cells(count, seed=1)
        seconds = time.process_time() - begun
        found = count_violations(cells, chosen.frame.compiled, one_way=False)
        off = [100 * abs(100 * found[number].rate / rate - 1) for number, rate in RATES.items()]
        shown = ", ".join(f"{100 * found[number].rate:.3f}" for number in RATES)
        goal = None if way == "none" else 10.0
        how = f"rates {shown} %, {count:,} rows in {seconds:.1f} s, fitted in {took:.0f} s"
        yield Row(f"synth-chain-br2000-{way}", ours=float(np.mean(off)), goal=goal, unit="% off", how=how)
