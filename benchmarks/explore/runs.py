"""The twelve questions asked a hundred times each: what they cost, how far off they were, how often the promise broke.

And the thesis's figures 3.2 to 3.4 as rows: F1 scores over alpha, costs over workload size, threshold and k.
"""

from __future__ import annotations

import gzip
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

import siloquent as sq
from benchmarks.datasets.published import ADULT_ROWS, TAXI_ROWS, TAXI_SAMPLE_ROWS, TWELVE, Asked, adult, question, taxi
from benchmarks.explore.costs import PLENTY
from benchmarks.explore.failures import limit
from benchmarks.row import Options, Row
from siloquent.api import Session
from siloquent.explore import parse
from siloquent.explore.estimate.reconstruct import compute_values, select_reported
from siloquent.explore.measure.base import compute_answers
from siloquent.explore.measure.run import run_mechanism
from siloquent.explore.plan.planner import Plan, plan
from siloquent.explore.spec.stored_measurement import StoredMeasurement
from siloquent.ledger import Permit
from siloquent.privacy import get_accountant

BETA, RUNS = 5e-4, 100
SHARES = ("0.01", "0.02", "0.04", "0.08", "0.16", "0.32", "0.64")
THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
ASKED = {asked.name: asked for asked in TWELVE}
HERE = {"adult": ADULT_ROWS, "taxi": TAXI_SAMPLE_ROWS}
FILES = {"adult": "explore-adult/adult.csv.gz", "taxi": "explore-nyctaxi-sample/taxis.csv.gz"}
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """One answer: its price as settled, its error in rows (0 if nothing is wrong), the F1 score of what it chose."""

    cost: float
    error: float
    f1: float


class Tables:
    """The published tables in accounts without a limit, with exact counts: they are public here."""

    def __init__(self, folder: str, data: Path, name: str) -> None:
        self.folder, self.data, self.accountant = f"{folder}/{name}", data, name

    @cached_property
    def session(self) -> Session:
        """Opened when a row needs it."""
        sq.create_workspace(self.folder)
        opened = sq.open(self.folder)
        for schema in (adult(self.accountant), taxi(self.accountant, TAXI_SAMPLE_ROWS)):
            with gzip.open(self.data / FILES[schema.name]) as file:
                opened.add_frame(schema, pyarrow.csv.read_csv(file))
        return opened

    def planned(self, asked: Asked, share: str = "0.02") -> Plan:
        """A question with its numbers of rows scaled to the table that is here."""
        text = asked.text.replace("971012", str(Decimal(HERE["taxi"]) / 10))
        error = Decimal(share) * HERE[asked.table]
        query = f"BIN {asked.table} ON COUNT(*) WHERE {text} ERROR {error} CONFIDENCE 0.9995"
        return plan(parse(query), self.session.schema(asked.table), left=PLENTY)

    def columns(self, found: Plan) -> list[Integers]:
        """What the mechanism reads."""
        account = self.session.get_account(found.schema.name).name
        permit = self.session.ledger.reserve(account, found.event, key=None, digest="public")
        assert isinstance(permit, Permit)
        parts = found.compiled.parts
        counted = self.session.table(found.schema.name).count_by_cell([part.block for part in parts], permit)
        return [part.fold(cells) for part, cells in zip(parts, counted, strict=True)]

    def runs(self, found: Plan, times: int = RUNS) -> list[Run]:
        """The mechanism as the product runs it, again and again."""
        columns = self.columns(found)
        exact = compute_answers(found.compiled, columns)
        return [_run(found, columns, exact) for _ in range(times)]


def _run(found: Plan, columns: list[Integers], exact: Integers) -> Run:
    out = run_mechanism(found.chosen, found.compiled, columns)
    measured = StoredMeasurement(
        found.chosen.name,
        found.chosen.form,
        out.event,
        tuple(out.values.tolist()),
        str(found.alpha),
        found.chosen.strategy,
    )
    cost = float(get_accountant(found.schema.budget.accountant).compute_price(out.event).amount)
    if found.kind == "wcq":
        values = np.array([float(value) for value in compute_values(found.compiled, measured)])
        return Run(cost, float(np.abs(values - exact).max()), 1.0)
    chosen = np.zeros(len(exact), dtype=bool)
    chosen[select_reported(found.query, found.compiled, measured)] = True
    true, cut = _truth(found, exact)
    wrong = np.where(chosen, cut - exact, exact - cut)
    # A missing answer that equals the k-th is no error, nor is one that is left out at the threshold.
    error = float(np.where(chosen != true, wrong, 0).max(initial=0))
    both = int((chosen & true).sum())
    return Run(cost, max(error, 0.0), 2 * both / max(1, int(chosen.sum() + true.sum())))


def _truth(found: Plan, exact: Integers) -> tuple[NDArray[np.bool_], float]:
    """What should be reported, and the number that parts it from the rest."""
    if found.query.having is not None:
        cut = float(found.query.having.threshold)
        return exact > cut, cut
    assert found.query.top is not None
    order = np.argsort(-exact, kind="stable")[: found.query.top.k]
    true = np.zeros(len(exact), dtype=bool)
    true[order] = True
    return true, float(exact[order[-1]])


def rows(options: Options) -> Iterator[Row]:
    """See the module."""
    names = ["QI2"] if options.quick else list(ASKED)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("pure", "zcdp"):
            yield from _with_data(Tables(folder, options.data, name), names, options)
    if not options.quick:
        yield from _sweeps(options)


def _with_data(tables: Tables, names: list[str], options: Options) -> Iterator[Row]:
    failed = asked = 0
    for name in names:
        row = f"runs-{tables.accountant}-{name}"
        if options.wants(row) or options.wants(f"{row}-cost"):
            found = tables.planned(ASKED[name])
            done = tables.runs(found)
            failed += sum(run.error > found.alpha for run in done)
            asked += len(done)
            yield from _rows_of(row, found, done)
    if asked and options.wants(f"runs-{tables.accountant}-misses"):
        how = f"broken promises in all {asked} runs, beta 5e-4; goal: binomial limit at 1e-9"
        yield Row(f"runs-{tables.accountant}-misses", ours=failed, goal=limit(asked, BETA), unit="runs", how=how)
    if tables.accountant == "pure" and not options.quick:
        yield from _f1(tables, options)
        yield from _thresholds(tables, options)


def _rows_of(row: str, found: Plan, done: list[Run]) -> Iterator[Row]:
    size = HERE[found.schema.name]
    errors = np.array([run.error for run in done]) / size
    low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75])
    costs = [run.cost for run in done]
    broken = sum(run.error > found.alpha for run in done)
    symbol = get_accountant(found.schema.budget.accountant).symbol
    where = f"{len(done)} runs, {found.schema.name}, |D| = {size:,}, alpha .02 |D|, beta 5e-4"
    yield Row(
        row,
        ours=float(middle),
        goal=0.02,
        unit="of |D|",
        how=f"largest error, median; quartiles {low:.2g} and {high:.2g}; {broken} beyond alpha; {found.chosen.name}, "
        f"{symbol} {statistics.median(costs):.4g}; {where}",
    )
    if found.chosen.least is not None:
        goal, paper = (0.0052, 0.00636) if row == "runs-pure-QI2" else (None, None)
        how = f"median cost as settled, {min(costs):.4g} to {max(costs):.4g}; {where}"
        yield Row(f"{row}-cost", ours=statistics.median(costs), paper=paper, goal=goal, unit=symbol, how=how)


def _f1(tables: Tables, options: Options) -> Iterator[Row]:
    for name in ("QI4", "QT1"):
        for share in SHARES:
            row = f"f1-{name}-{share}"
            if options.wants(row):
                found = tables.planned(ASKED[name], share)
                done = tables.runs(found)
                low, middle, high = np.quantile([run.f1 for run in done], [0.25, 0.5, 0.75])
                how = f"F1 of what was chosen, median of {RUNS}; quartiles {low:.3g} and {high:.3g}; epsilon "
                how += f"{done[0].cost:.4g} at alpha {share} |D|, |D| = {HERE[found.schema.name]:,}"
                yield Row(row, ours=float(middle), better="higher", unit="F1", how=how)


def _thresholds(tables: Tables, options: Options) -> Iterator[Row]:
    asked = ASKED["QI2"]
    for share in THRESHOLDS:
        row = f"threshold-QI2-{share:g}"
        if options.wants(row):
            text = asked.text.replace("3256", str(round(share * ADULT_ROWS)))
            found = tables.planned(replace(asked, text=text))
            costs = [run.cost for run in tables.runs(found)]
            worst = float(get_accountant("pure").compute_price(found.event).amount)
            how = f"QI2 with c = {share:g} |D|: median cost of {RUNS} runs; worst {worst:.4g}; {found.chosen.name}"
            yield Row(row, ours=statistics.median(costs), unit="epsilon", how=how)


def _sweeps(options: Options) -> Iterator[Row]:
    """Costs that need no data; beside them what the thesis's Laplace mechanism pays by its formula."""
    size = 0.02 * ADULT_ROWS
    for name, shape in (("QW1", "HISTOGRAM"), ("QW2", "PREFIX")):
        for answers_asked in (25, 50, 100, 200, 400):
            row = f"size-{name}-{answers_asked}"
            if options.wants(row):
                text = f"W = {shape}(capgain, 0, {50 * answers_asked}, 50)"
                moved = 1 if name == "QW1" else answers_asked
                formula = moved * float(np.log(1 / (1 - (1 - BETA) ** (1 / answers_asked)))) / size
                yield _swept(row, replace(ASKED[name], text=text), formula, f"L = {answers_asked}")
    for name, moved in (("QT3", 1), ("QT4", 12)):
        for k in (1, 5, 10, 20, 40):
            row = f"top-{name}-{k}"
            if options.wants(row):
                text = ASKED[name].text.replace("LIMIT 10", f"LIMIT {k}")
                formula = 2 * min(k, moved) * float(np.log(100 / (2 * BETA))) / (0.02 * TAXI_ROWS)
                yield _swept(row, replace(ASKED[name], text=text), formula, f"k = {k}")


def _swept(row: str, asked: Asked, formula: float, what: str) -> Row:
    schema = adult("pure") if asked.table == "adult" else taxi("pure")
    found = plan(parse(question(asked)), schema, left=PLENTY)
    ours = float(get_accountant("pure").compute_price(found.event).amount)
    how = f"{what}: {found.chosen.name}, worst case at alpha .02 |D|; peer: the thesis's cheaper noise on answers"
    return Row(row, ours=ours, peer=formula, unit="epsilon", how=how)
