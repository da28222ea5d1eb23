"""All changes of all messages that a party or the moderator sends: what must never follow is counted."""

from __future__ import annotations

import importlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Options, Row
from siloquent.errors import CAUSES

PROTOCOLS = ("padded", "fast", "smfd")


def rows(options: Options) -> Iterator[Row]:
    """For each protocol: changes after which a result was wrong, a vote shown or an end unnamed."""
    if not any(options.wants(f"messages-{protocol}") for protocol in PROTOCOLS):
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    mutations = importlib.import_module("property.profile.mutations")
    logging.getLogger("siloquent.federation").setLevel(logging.CRITICAL)
    for protocol in PROTOCOLS:
        if not options.wants(f"messages-{protocol}"):
            continue
        changes = mutations.all_changes(protocol, 1)[:: 25 if options.quick else 1]
        codes: Counter[str] = Counter()
        wrong: list[str] = []
        for change in changes:
            code, what = mutations.played(protocol, 1, change)
            codes[code or "none"] += 1
            if what or code not in {*CAUSES, ""}:
                wrong.append(f"{change.sender} to {change.to} at {change.step}, {change.what}: {what or code}")
        how = f"{len(changes):,} changes; ends: {dict(codes)}" + (f"; first: {wrong[0]}" if wrong else "")
        yield Row(
            f"messages-{protocol}", ours=len(wrong), goal=0, unit="wrong results, votes shown, unnamed ends", how=how
        )
