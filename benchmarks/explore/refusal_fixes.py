"""What refusals offer, pasted and tried: wrong questions, declarations and command lines made from right ones."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.refusals.judge import judge_all
from benchmarks.row import Options, Row

QUICK = 8
"""With --quick, one of so many."""


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module; ``FIXES_REPORT`` names a file for the faults."""
    if not options.wants("refusal-fixes"):
        return
    verdicts = list(judge_all(every=QUICK if options.quick else 1))
    if report := os.environ.get("FIXES_REPORT"):
        Path(report).write_text(
            json.dumps([[v.interface, v.mutation, v.asked, v.reason, v.fix, v.fault] for v in verdicts])
        )
    faults = Counter(verdict.fault.partition(":")[0] for verdict in verdicts if verdict.fault)
    how = (
        f"{len(verdicts):,} refusals of wrong questions, declarations and command lines; {dict(faults) or 'no faults'}"
    )
    parsed = sum(not verdict.fault or verdict.fault.startswith("refused again") for verdict in verdicts)
    right = sum(not verdict.fault for verdict in verdicts)
    yield Row("refusal-fixes-asked", ours=len(verdicts), goal=None if options.quick else 3_000, better="higher",
              unit="refusals", how="made from right ones by mutations, in Python and at the command line")  # fmt: skip
    yield Row("refusal-fixes-parsed", ours=100 * parsed / len(verdicts), goal=100, better="higher", unit="%", how=how)
    yield Row("refusal-fixes-work", ours=100 * right / len(verdicts), goal=100, better="higher", unit="%", how=how)
