"""Releases replayed on neighbours with the same noise: loss against charge, over all tasks; and what is told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchmarks.replay.audit import Found
from benchmarks.replay.declarations import SETTINGS
from benchmarks.replay.devices import reported
from benchmarks.replay.explored import EACH, explored, far_apart
from benchmarks.replay.released import released
from benchmarks.row import Options, Row

QUESTIONS, RELEASES = 20_400, 1_824
REACHED = 1 - 1e-6


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants("replay"):
        return
    share = 40 if options.quick else 1
    questions = Tally(explored(range(QUESTIONS // EACH // share)))
    others = Tally(
        found for part in (released(range(RELEASES // share)), reported(range(600 // share))) for found in part
    )
    pairs = Tally(
        found
        for setting in SETTINGS
        for nth in range(2 if options.quick else 6)
        for found in far_apart(setting, nth=nth)
    )
    yield questions.row("replay-questions", "questions of explore")
    yield others.row("replay-releases", "releases of synth, sketch, search, share, collect")
    whole = questions + others + pairs
    yield whole.combinations()


class Tally:
    """The totals of many audited releases."""

    def __init__(self, found: Iterable[Found]) -> None:
        self.count, self.status, self.faults = 0, Counter[str](), list[str]()
        self.largest: dict[tuple[str, ...], float] = {}
        for one in found:
            self.see(one)

    def see(self, one: Found) -> None:
        """Take one release into account."""
        self.count += 1
        self.status[one.status] += 1
        self.faults += [f"{one.name} ({one.account}, {one.unit}, {one.adjacency}): {fault}" for fault in one.faults]
        if one.charge and one.calls:
            task = one.name if one.name[:5].strip().islower() else "explore"
            key = (task, "+".join(one.calls), one.account, one.unit, one.adjacency)
            self.largest[key] = max(self.largest.get(key, 0.0), one.ratio)

    def __add__(self, other: Tally) -> Tally:
        result = Tally(())
        result.count, result.faults = self.count + other.count, self.faults + other.faults
        result.status = self.status + other.status
        for key in {**self.largest, **other.largest}:
            result.largest[key] = max(self.largest.get(key, 0.0), other.largest.get(key, 0.0))
        return result

    def row(self, name: str, of: str) -> Row:
        """The number that was undercharged, or told neighbours apart beside their noise."""
        shown = f"; first: {self.faults[0][:300]}" if self.faults else ""
        how = f"{self.count:,} {of}, each replayed on a neighbour with the same noise: {dict(self.status)}{shown}"
        return Row(name, ours=len(self.faults), goal=0, unit="undercharged or told apart", how=how)

    def combinations(self) -> Row:
        """Of the combinations of mechanism, account, unit and adjacency, those whose price no pair used up."""
        below = {key: ratio for key, ratio in sorted(self.largest.items()) if ratio < REACHED}
        listed = "; ".join(f"{' '.join(key)} {ratio:.4g}" for key, ratio in below.items())
        how = f"of {len(self.largest)} combinations, largest loss / charge below 1: {listed}"
        return Row("replay-combinations", ours=len(below), unit="combinations below 1", how=how)
