"""Generated declarations and questions through the session: no error after a charge, no internal one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.row import Options, Row
from benchmarks.trials.dry_assembly import EACH, TABLES, asked

QUESTIONS = 20_400


def rows(options: Options) -> Iterator[Row]:
    """The row of this module."""
    if not options.wants("dry-assembly"):
        return
    workspaces = QUESTIONS // (EACH * TABLES) // (50 if options.quick else 1)
    status, faults = Counter[str](), []
    for one in asked(range(workspaces)):
        status[one.status] += 1
        if one.fault:
            faults.append(f"{one.text}: {one.fault}")
    shown = f"; first: {faults[0][:400]}" if faults else ""
    how = f"{status.total():,} questions of crossed parts: {dict(status.most_common())}{shown}"
    yield Row("dry-assembly", ours=len(faults), goal=0, unit="errors after a charge, or without a stable code", how=how)
