"""Planted faults: how many changes of the library its tests do not notice. See ``benchmarks.mutants``.

What tests run, and the verdicts, are kept in ``.mutants``: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.mutants import coverage
from benchmarks.mutants.declared import Named, equivalents, named, stale
from benchmarks.mutants.places import SEED, Planted, everything, parse_library, sample
from benchmarks.mutants.planting import Field, Verdict, copied
from benchmarks.mutants.verdicts import KeptVerdicts
from benchmarks.row import Options, Row

LEAST = 150
BATCHES = (1, 2, 4, None)
"""Of tests that are tried before the next fault is: most faults are noticed by the likeliest ones."""
SOURCE = Path(__file__).resolve().parents[2] / "src"


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants("mutants"):
        return
    trees = parse_library(SOURCE)
    found = list(everything(SOURCE, trees))
    old = stale(found, SOURCE)
    how = f"faults and equivalents that speak of lines that are no longer so{': ' if old else ''}{'; '.join(old)}"
    yield Row("mutants-stale", ours=len(old), goal=0, unit="entries", how=how)
    if options.quick:
        return
    proven = equivalents()
    drawn = sample(found)
    chosen = [one for one in drawn if not any(each.matches(one) for each in proven)]
    start = time.monotonic()
    with copied(SOURCE) as clean, copied(SOURCE) as copy:
        field = Field(copy, coverage.Ranked(clean), trees)
        generated = _judged(field, chosen)
        by_hand = _judged(field, [fault for fault in named() if not any(fault.name in one for one in old)])
    hours = (time.monotonic() - start) / 3_600
    yield Row(
        "mutants-planted",
        ours=len(drawn),
        goal=LEAST,
        better="higher",
        unit="faults",
        how=f"seed {SEED}, of {len(found):,} possible ones; {hours:.2f} hours; {len(by_hand)} by hand beside them",
    )
    yield Row("mutants-equivalent", ours=len(drawn) - len(chosen), unit="faults", how="drawn and proven to do the same")
    for name, verdicts in (("mutants-named", by_hand), ("mutants-survived", generated)):
        left = [verdict for verdict in verdicts if verdict.survived]
        listed = "; ".join(f"{_named(verdict)} ({verdict.tried} tests)" for verdict in left)
        yield Row(
            name, ours=len(left), goal=0, unit="survivors", how=f"of {len(verdicts)}{': ' if left else ''}{listed}"
        )


def _judged(field: Field, faults: Sequence[Planted | Named]) -> list[Verdict]:
    kept = KeptVerdicts(field)
    verdicts: dict[int, Verdict] = {}
    for batches in BATCHES:
        for nth, fault in enumerate(faults):
            if nth in verdicts:
                continue
            found = kept.judge(fault, batches=batches)
            if found.by or batches is None:
                verdicts[nth] = found
                print(
                    f"{len(verdicts)}/{len(faults)} {_named(found)}: {found.by or 'SURVIVED'}",
                    file=sys.stderr,
                    flush=True,
                )
    checked = field.check([verdicts[nth] for nth in range(len(faults))])
    for one in checked:
        kept.keep(one)
    return checked


def _named(verdict: Verdict) -> str:
    return getattr(verdict.fault, "name", None) or str(verdict.fault)
