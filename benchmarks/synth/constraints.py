"""Constraints: exact counts and their time, hard ones kept on Tax and TPC-H, known rates met, many at once."""

from __future__ import annotations

import csv
import gzip
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets.kamino_rules import ONE_WAY, RATES, Ruled, br2000, tax, tpch
from benchmarks.datasets.kamino_tables import Published, adult
from benchmarks.row import Options, Row
from benchmarks.synth.adult import released
from siloquent.privacy import convert_epsilon_to_rho
from siloquent.privacy.noise import add_gaussian
from siloquent.schema import DenialConstraint, TableSchema, parse_comparisons
from siloquent.synth.estimate.enforce.constraints import (
    Tables,
    build_dependency_table,
    count_violations,
    enforce_constraints,
)
from siloquent.synth.estimate.enforce.counts import build_pair_rule
from siloquent.synth.estimate.match_rates import match_rates
from siloquent.synth.plan.constraints import compile_constraints
from siloquent.synth.spec.compiled import CompiledConstraints
from siloquent.synth.spec.constraint_text import parse_ic

RHO = convert_epsilon_to_rho(1.0, 1e-6)
MILLION = 10**6


def rows(options: Options) -> Iterator[Row]:
    """Everything that needs no model: counts, passes, tables, rates."""
    yield from _counts(options)
    yield from _printed(options)
    yield from _kept(options)
    yield from _rates(options)
    yield from _many(options)


def _counts(options: Options) -> Iterator[Row]:
    """Exact pair counts of BR2000, and what they take."""
    from siloquent.maths.pairs.counting import count_earlier_pairs, count_violating_pairs

    true = br2000(options.data)
    compiled = compile_constraints(true.schema)
    count = len(true.cells)
    for one in compiled.constraints:
        assert one.form is not None
        rule = build_pair_rule(one.form, compiled.split_columns(true.cells), count)
        begun = time.process_time()
        found = count_violating_pairs(rule)
        seconds = time.process_time() - begun
        share = 100 / (count * (count - 1) / 2)
        yield Row(
            f"synth-count-b{one.number}",
            ours=abs(found * share - RATES[one.number]),
            goal=5e-5,
            unit="points",
            how=f"{found:,} pairs in either direction; the data's README says {RATES[one.number]} %",
        )
        yield Row(
            f"synth-count-b{one.number}-one-way",
            ours=count_earlier_pairs(rule) * share,
            paper=ONE_WAY[one.number],
            unit="% of pairs",
            how="the earlier row as t1 only, as the thesis counts",
        )
        yield Row(f"synth-count-b{one.number}-time", ours=seconds, goal=0.05, unit="CPU s", how="38,000 rows, one core")


def _printed(options: Options) -> Iterator[Row]:
    """Table 4.1's constraints as they are printed, which the true tables break."""
    gain, loss = '"capital-gain"', '"capital-loss"'
    printed = f"t1.{gain} > t2.{gain} and t1.{loss} < t2.{loss}"
    right = f"t1.{gain} < t2.{gain} and t1.{loss} < t2.{loss}"
    true = adult(options.data, missing=True)
    schema = replace(true.schema, constraints=(_soft(printed), _soft(right)))
    compiled = compile_constraints(schema)
    rows = [[a.index(v) for v in true.columns[a.name].tolist()] for a in schema.domain]
    found = count_violations(np.array(rows, dtype=np.int64).T, compiled, one_way=False)
    how = "Adult's second constraint with > and <, all 32,561 rows"
    yield Row("synth-printed-adult", ours=abs(found[1].pairs - 4_119_528), goal=0, unit="pairs off", how=how)
    yield Row(
        "synth-printed-adult-ic", ours=found[2].pairs, goal=0, unit="pairs", how="as the released .ic file has it"
    )
    census = br2000(options.data)
    third = "t1.a5 <= t2.a5 and t1.a3 > t2.a3 and t1.a12 != t2.a12 and t1.a11 > t2.a11"
    compiled = compile_constraints(replace(census.schema, constraints=(_soft(third),)))
    rate = 100 * count_violations(census.cells, compiled, one_way=False)[1].rate
    yield Row("synth-printed-br2000", ours=rate, unit="% of pairs", how="BR2000's third one with >; the table says .5")


def _soft(text: str) -> DenialConstraint:
    return DenialConstraint(parse_comparisons(text), hard=False, text=text)


def _noisy_tables(true: Ruled, compiled: CompiledConstraints, share: float) -> Tables:
    """FD tables from histograms with the noise of a share of rho(1, 1e-6)."""
    random, variance = np.random.default_rng(0), round(1 / (2 * RHO * share))
    made = {}
    for need in compiled.needs:
        histogram = None
        if need.measured:
            exact = np.zeros(need.shape, dtype=np.int64)
            np.add.at(exact, tuple(true.cells[:, compiled.find_columns((*need.lhs, need.rhs))].T), 1)
            histogram = add_gaussian(exact, variance=variance)
        made[need.constraint] = build_dependency_table(need, histogram, deviation=variance**0.5, random=random)
    return made


def _kept(options: Options) -> Iterator[Row]:
    """Hard constraints on rows of independent columns: the worst that a model may draw."""
    random = np.random.default_rng(1)
    for name, true in (("tax", tax(options.data)), ("tpch", tpch(options.data))):
        compiled = compile_constraints(true.schema)
        tables = _noisy_tables(true, compiled, 0.05)
        for count in (len(true.cells),) if options.quick else (len(true.cells), MILLION):
            drawn = np.stack([random.choice(column, count) for column in true.cells.T], axis=1)
            begun = time.process_time()
            after = enforce_constraints(drawn, compiled, tables, random)
            seconds = time.process_time() - begun
            broken = sum(found.pairs for found in count_violations(after, compiled, one_way=False).values())
            size = "" if count < MILLION else "-million"
            yield Row(f"synth-kept-{name}{size}", ours=broken, goal=0, unit="broken pairs", how=f"{count:,} rows")
            yield Row(
                f"synth-kept-{name}{size}-time",
                ours=seconds / len(compiled.hard),
                goal=1.0,
                unit="CPU s a constraint",
                how=f"passes and the exact count at the end, {count:,} rows",
            )
        yield from _right(name, true, compiled, tables)


def _right(name: str, true: Ruled, compiled: CompiledConstraints, tables: Tables) -> Iterator[Row]:
    """The share of true rows whose y is that of the noisy table."""
    for need in compiled.needs:
        if need.measured:
            flat = np.ravel_multi_index(tuple(true.cells[:, compiled.find_columns(need.lhs)].T), need.lhs_sizes)
            right = tables[need.constraint].values[flat] == true.cells[:, compiled.find_column(need.rhs)]
            yield Row(
                f"synth-table-{name}-{'-'.join((*need.lhs, need.rhs)).replace('_', '.')}",
                ours=float(right.mean()),
                goal=0.9,
                better="higher",
                unit="of rows",
                how=f"{need.way}, at 5 % of rho(1, 1e-6)",
            )


def _shuffled(true: Ruled, random: np.random.Generator) -> NDArray[np.int64]:
    """The true rows with a13 and a11 exchanged within equal a12 for a fifth of them: rates that a poor model has."""
    cells = true.cells.copy()
    by = true.schema.domain.names.index("a12")
    for name in ("a13", "a11"):
        place = true.schema.domain.names.index(name)
        for value in np.unique(cells[:, by]):
            mine = np.flatnonzero((cells[:, by] == value) & (random.random(len(cells)) < 0.2))
            cells[mine, place] = cells[random.permutation(mine), place]
    return cells


def _rates(options: Options) -> Iterator[Row]:
    """Known rates of soft constraints, met by exchanges."""
    true = br2000(options.data)
    compiled = compile_constraints(true.schema)
    begun = time.process_time()
    wanted = {number: rate / 100 for number, rate in RATES.items()}
    parents = dict.fromkeys(("a3", "a5", "a11", "a13"), ("a12",))
    _, reached = match_rates(
        _shuffled(true, np.random.default_rng(2)), compiled, wanted, np.random.default_rng(3), parents=parents
    )
    seconds = time.process_time() - begun
    before = count_violations(_shuffled(true, np.random.default_rng(2)), compiled, one_way=False)
    for number, rate in wanted.items():
        yield Row(
            f"synth-rate-b{number}",
            ours=100 * abs(reached[number] / rate - 1),
            goal=5.0,
            unit="% off",
            how=f"from {100 * before[number].rate:.3f} to {100 * reached[number]:.3f} %, wanted {100 * rate:.3f}",
        )
    yield Row("synth-rate-time", ours=seconds, goal=5.0, unit="CPU s", how="three constraints, 38,000 rows")


def _many(options: Options) -> Iterator[Row]:
    """Counting 128 approximate constraints of Adult against counting two."""
    true = adult(options.data)
    with gzip.open(options.data / "kamino-adult" / "approximate_dcs.csv.gz", "rt") as file:
        texts = [entry["dc"] for entry in csv.DictReader(file)][:128]
    schema = replace(true.schema, constraints=parse_ic("\n".join(texts), hard=False))
    begun = time.process_time()
    compiled = compile_constraints(schema)
    seconds = time.process_time() - begun
    yield Row("synth-many-compile", ours=seconds, goal=1.0, unit="CPU s", how="128 approximate constraints of Adult")
    cells = np.stack(
        [np.array([a.index(v) for v in true.columns[a.name].tolist()], dtype=np.int64) for a in schema.domain], axis=1
    )
    if options.quick:
        return
    times = []
    for some in (compiled.constraints[:2], compiled.constraints):
        begun = time.process_time()
        count_violations(cells, replace(compiled, constraints=some), one_way=False)
        times.append(time.process_time() - begun)
    yield _whole_runs(true, schema)
    yield Row(
        "synth-many-count",
        ours=times[1],
        unit="CPU s",
        how=f"exact counts of 128 constraints, {len(cells):,} rows; two of them take {times[0]:.2f} s",
    )


def _whole_runs(true: Published, schema: TableSchema) -> Row:
    """Plan, measurement, rows and report with 128 soft constraints against the same with two, taking turns."""
    times: dict[int, list[float]] = {2: [], 128: []}
    for turn in range(3):
        for count, taken in times.items():
            some = replace(true, schema=replace(schema, constraints=schema.constraints[:count]))
            with tempfile.TemporaryDirectory() as folder:
                taken.append(released(some, folder, seed=turn, report=0)[1])
    few, many = (float(np.median(taken)) for taken in times.values())
    how = f"Adult, eps 1, request to release, medians of 3: {many:.1f} against {few:.1f} CPU s"
    return Row("synth-many-run", ours=many / few, paper=3.0, goal=1.5, unit="times two of them", how=how)
