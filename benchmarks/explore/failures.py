"""How often promises are broken, for every mechanism on the data that is worst for it, against beta."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.datasets.published import SCHEMAS, TWELVE, Asked, question
from benchmarks.explore.costs import PLENTY
from benchmarks.row import Options, Row
from benchmarks.trials.worst_case import misses
from siloquent.explore import parse
from siloquent.explore.plan.planner import Plan, plan

FALSE_ALARM = 1e-9
NAMES = ("QW1", "QW2", "QI1", "QI2", "QT1", "QT2")
BY_MECHANISM = tuple((name, accountant) for accountant in ("pure", "zcdp") for name in NAMES)


def limit(runs: int, rate: float) -> int:
    """The most misses that a true rate of ``rate`` gives, but once in 10^9."""
    from scipy.stats import binom

    return int(binom.isf(FALSE_ALARM, runs, rate))


def planned(asked: Asked, accountant: str, confidence: str) -> Plan:
    """The plan of one of the twelve at .02 |D|."""
    text = question(asked, confidence=confidence)
    return plan(parse(text), SCHEMAS[asked.table](accountant), left=PLENTY)


def rows(options: Options) -> Iterator[Row]:
    """The miss rate over beta, and the largest ratio that a right program shows."""
    runs = 20_000 if options.quick else 1_000_000
    confidence, beta = ("0.95", 0.05) if options.quick else ("0.9995", 0.0005)
    for name, accountant in BY_MECHANISM:
        row = f"misses-{accountant}-{name}"
        if options.wants(row):
            asked = next(asked for asked in TWELVE if asked.name == name)
            found = planned(asked, accountant, confidence)
            missed = misses(found, runs)
            yield Row(
                row,
                ours=missed / runs / beta,
                goal=limit(runs, beta) / runs / beta,
                unit="of beta",
                how=f"{found.chosen.name}: {missed} misses in {runs} runs on the worst data, beta {beta}; "
                "goal: one-sided binomial limit at 1e-9",
            )
