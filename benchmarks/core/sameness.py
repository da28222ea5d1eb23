"""How many of the things that an analyst can see differ between neighbouring tables."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Options, Row
from benchmarks.sameness.compare import ASKED, FEW, compare
from benchmarks.sameness.tables import SOME_SETTINGS, pairs


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if options.wants("sameness-differences"):
        yield sameness(quick=options.quick)


def sameness(*, quick: bool) -> Row:
    """Every verb over pairs of neighbours, compared text by text."""
    chosen = list(pairs(SOME_SETTINGS, each=1))[::3] if quick else list(pairs(each=16))
    with tempfile.TemporaryDirectory() as folder:
        found = compare(chosen, Path(folder), labels=FEW if quick else ASKED)
    shown = f"; first: {found.differences[0][:300]}" if found.differences else ""
    return Row(
        "sameness-differences",
        ours=len(found.differences),
        goal=0,
        unit="texts",
        how=f"{found.pairs:,} neighbour pairs, {found.texts:,} pairs of answers, explanations, refusals, replays, "
        f"releases, ledger entries and logs, noise and random ids masked; {len(found.codes)} error codes met{shown}",
    )
