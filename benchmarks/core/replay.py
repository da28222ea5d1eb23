"""Releases replayed on neighbours with the same noise: loss against charge, over all tasks; and what is told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from benchmarks.replay.audit import Found
from benchmarks.replay.declarations import SETTINGS
from benchmarks.replay.devices import reported
from benchmarks.replay.discovered import discovered
from benchmarks.replay.explored import EACH, explored, farthest
from benchmarks.replay.linked import linked
from benchmarks.replay.released import kinds, one_release, released, stepwise
from benchmarks.replay.silos import in_sums
from benchmarks.row import Options, Row
from siloquent.privacy.budget import Budget

QUESTIONS, RELEASES, REPORTS, SUMS, KEYS, TREES = 20_400, 1_400, 600, 256, 480, 700
REACHED = 1 - 1e-6
BY_STEPS = "synth"
"""Releases of many steps, each of which is compared with its own price."""


def rows(options: Options) -> Iterator[Row]:
    """The rows of this module."""
    if not options.wants("replay"):
        return
    share = 40 if options.quick else 1
    settings = SETTINGS[::5] if options.quick else SETTINGS
    questions = Tally(explored(range(QUESTIONS // EACH // share)))
    yield questions.row("replay-questions", "questions of explore")
    parts = (
        released(range(RELEASES // share)),
        reported(range(REPORTS // share)),
        in_sums(range(SUMS // share)),
        discovered(range(KEYS // share)),
    )
    others = Tally(chain.from_iterable(parts))
    of = "releases of synth, sketch, search, share, collect, discover, and silos' parts in sums"
    yield others.row("replay-releases", of)
    trees = Tally(linked(range(TREES // share)))
    yield trees.row("replay-linked", "questions about linked tables, their joins and their persons")
    farther = (farthest(setting, nth=nth) for setting in settings for nth in range(2 if options.quick else 6))
    worst = (one_release(name, setting) for setting in settings for name in kinds(Budget(epsilon="2")))
    steps = chain.from_iterable(stepwise(setting) for setting in settings)
    pairs = Tally(chain(chain.from_iterable(farther), worst, steps))
    yield pairs.row("replay-worst", "releases on the worst neighbours that there are")
    yield (questions + others + pairs).combinations()


Key = tuple[str, ...]


class Tally:
    """The totals of many audited releases."""

    def __init__(self, found: Iterable[Found]) -> None:
        self.count, self.status, self.faults = 0, Counter[str](), list[str]()
        self.largest: dict[Key, float] = {}
        self.most: dict[Key, float] = {}
        for one in found:
            self.see(one)

    def see(self, one: Found) -> None:
        """Take one release into account."""
        self.count += 1
        self.status[one.status] += 1
        self.faults += [f"{one.name} ({one.account}, {one.unit}, {one.adjacency}): {fault}" for fault in one.faults]
        setting = (one.account, one.unit, one.adjacency)
        for step, ratio in one.steps.items():
            self._reached((f"{one.name}: {step}", "", *setting), ratio, 1.0)
        if one.charge and one.calls and not one.name.startswith(BY_STEPS):
            task = one.name if one.name[:5].strip().islower() else "explore"
            self._reached((task, "+".join(one.calls), *setting), one.ratio, one.most)

    def _reached(self, key: Key, ratio: float, most: float) -> None:
        """Keep the largest ratio, and what is the most that there can be by the pair that came nearest to its own."""
        if ratio / most > self.largest.get(key, -1.0) / self.most.get(key, 1.0) or ratio >= REACHED:
            self.largest[key], self.most[key] = ratio, most

    def __add__(self, other: Tally) -> Tally:
        result = Tally(())
        result.count, result.faults = self.count + other.count, self.faults + other.faults
        result.status = self.status + other.status
        for one in (self, other):
            for key, ratio in one.largest.items():
                result._reached(key, ratio, one.most[key])
        return result

    def row(self, name: str, of: str) -> Row:
        """The number that was undercharged, or told neighbours apart beside their noise."""
        shown = f"; first: {self.faults[0][:300]}" if self.faults else ""
        how = f"{self.count:,} {of}, each replayed on a neighbour with the same noise: {dict(self.status)}{shown}"
        return Row(name, ours=len(self.faults), goal=0, unit="undercharged or told apart", how=how)

    def combinations(self) -> Row:
        """Of the combinations of mechanism, account, unit and adjacency, those whose price no pair used up.

        Where no pair can (several numbers priced one by one, of which it moves only some as far as it could), the most
        that any pair can use up stands beside the ratio that some pair reached.
        """
        short = {key: ratio for key, ratio in sorted(self.largest.items()) if ratio < self.most[key] * REACHED}
        less = {key: most for key, most in sorted(self.most.items()) if most < REACHED and key not in short}
        listed = "; ".join(f"{' '.join(filter(None, key))} {ratio:.4g}" for key, ratio in short.items())
        whole = "; ".join(f"{' '.join(filter(None, key))} {most:.4g}" for key, most in less.items())
        how = (
            f"of {len(self.largest)} combinations, largest loss / charge below what some neighbours can reach: "
            f"{listed or 'none'}. Reached, where it is below 1 for all neighbours: {whole or 'none'}"
        )
        return Row("replay-combinations", ours=len(short), unit="combinations not reached", how=how)
