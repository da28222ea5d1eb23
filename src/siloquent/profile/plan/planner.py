"""The sets to request next: a pure function of the answers so far, so that a restart is a replay.

The moderator runs it on excesses, parties on the bits that the moderator derived from them: they recompute every
request and refuse any other. Sets are masks of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from siloquent.errors import ProtocolError
from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.plan.knowledge import Answers, Knowledge, find_extremes

FAR_SETS = 2
"""The number of largest and of smallest undecided sets, per right side, probed at a time."""


@dataclass(slots=True)
class _Probe:
    """A left side under test: first its own E, then E of it with halves of the columns that may depend on it."""

    lhs: int
    rights: list[int] | None = None  # a stack of groups of right sides to test; None: its own E comes first
    wants: int = 0  # the set whose E it waits for


@dataclass(slots=True)
class Search:
    """The search for the union's dependencies, one pass at a time.

    ``list_requests`` gives the sets of the next pass (empty: the search is over); ``learn`` takes the answers to
    them.
    """

    knowledge: Knowledge
    wants_keys: bool = False
    _living: list[_Probe] = field(default_factory=list)
    _started: bool = False
    _widened: set[int] = field(default_factory=set)

    def list_requests(self, answers: Answers) -> list[int]:
        """Return the sets that the next pass requests; empty when all is known.

        Args:
            answers: Results of all sets requested before.
        """
        while True:
            self._advance_all(answers)
            if self._living:
                return self._list_wanted()
            self._living = [_Probe(lhs) for lhs in self._list_starts()]
            if not self._living:
                return [self._whole] if self.wants_keys and self.knowledge.find_asked(self._whole) is None else []

    def list_keys(self, answers: Answers) -> list[int]:
        """Return the minimal sets on which no two rows agree, if no party has two equal rows; after the search."""
        asked = self.knowledge.find_asked(self._whole)
        if asked is None or not answers.is_zero(asked):
            return []
        return self.knowledge.list_superkeys()

    @property
    def _whole(self) -> int:
        return (1 << self.knowledge.columns) - 1

    def learn(self, asked: Sequence[int]) -> None:
        """Record that the sets of a pass were measured."""
        self.knowledge.note_asked(asked)

    def _advance_all(self, answers: Answers) -> None:
        """Advance every probe as far as possible; repeated, since one probe's result may answer another."""
        before: list[int] | None = None
        while (waiting := [probe.wants for probe in self._living]) != before:
            before = waiting
            self._living = [probe for probe in self._living if self._advance(probe, answers)]

    def _list_wanted(self) -> list[int]:
        """Return the sets that active probes wait for, one for each closure, whose sets all have the same E."""
        wanted: dict[int, int] = {}
        for probe in self._living:
            wanted.setdefault(int(self.knowledge.closed[probe.wants]), probe.wants)
        return list(wanted.values())

    def _list_starts(self) -> list[int]:
        """Return left sides to probe: first of every party's dependencies, then extremes of the undecided sets."""
        opens = self.knowledge.find_undecided_sets()
        if not self._started:
            self._started = True
            first = sorted({lhs for lhs, _ in self.knowledge.cfds if opens[lhs]}, key=lambda m: (m.bit_count(), m))
            if first:
                return first
        found: dict[int, None] = {}
        for right in range(self.knowledge.columns):
            mine = (opens >> right & 1).astype(bool)
            if mine.any():
                for largest in (True, False):
                    found |= dict.fromkeys(find_extremes(mine, largest=largest, count=FAR_SETS))
                found = self._list_wider(right) | found
        return list(found)

    def _list_wider(self, right: int) -> dict[int, None]:
        """Return, once per right side, sets beyond the longest left side: a no there is a no for all subsets."""
        if right in self._widened or self.knowledge.most >= self.knowledge.columns - 1:
            return {}
        self._widened.add(right)
        return dict.fromkeys(find_extremes(self.knowledge.find_wide(right), largest=True, count=1))

    def _advance(self, probe: _Probe, answers: Answers) -> bool:
        """Advance a probe as far as the answers allow; return whether it waits for one."""
        for wants in self._generate_steps(probe, answers):
            probe.wants = wants
            if self.knowledge.find_asked(wants) is None:
                return True
        return False

    def _generate_steps(self, probe: _Probe, answers: Answers) -> Iterator[int]:
        """Generate the sets that a probe needs, one after the other; each is known when the next is requested."""
        know, lhs = self.knowledge, probe.lhs
        if probe.rights is None:
            if not know.find_undecided(lhs):
                return
            yield lhs
            if answers.is_zero(_get_asked(know, lhs)):
                know.learn_unshared(lhs)
                return
            probe.rights = [know.find_undecided(lhs)]
        while probe.rights:
            rights = probe.rights[-1] & know.find_undecided(lhs)
            if not rights:
                probe.rights.pop()
                continue
            yield lhs | rights
            probe.rights.pop()
            if answers.is_equal(_get_asked(know, lhs), _get_asked(know, lhs | rights)):
                know.learn_yes(lhs, rights)
            elif rights.bit_count() == 1:
                know.learn_no(lhs, rights.bit_length() - 1)
            else:
                probe.rights += reversed(halve_mask(rights))


def _get_asked(knowledge: Knowledge, lhs: int) -> int:
    asked = knowledge.find_asked(lhs)
    assert asked is not None
    return asked


def halve_mask(mask: int) -> tuple[int, int]:
    """Split a set of columns in two halves, the first not smaller.

    >>> halve_mask(0b10110)
    (6, 16)
    """
    columns = list_columns(mask)
    middle = (len(columns) + 1) // 2
    first = sum(1 << column for column in columns[:middle])
    return first, mask & ~first


@dataclass(slots=True)
class Excesses:
    """The moderator's answers: E of every requested set; it records each comparison, for the parties."""

    values: dict[int, int]
    bits: list[bool] = field(default_factory=list)

    def is_zero(self, asked: int) -> bool:
        """Return whether E is 0."""
        return self._note_bit(self.values[asked] == 0)

    def is_equal(self, one: int, other: int) -> bool:
        """Return whether two sets have the same E; ``other`` is ``one`` with columns that depend on it in every party.

        Raises:
            ProtocolError: ``canary_failed``: the larger set has the larger E, which no rows can have.
        """
        if self.values[one] < self.values[other]:
            raise ProtocolError("canary_failed")
        return self._note_bit(self.values[one] == self.values[other])

    def _note_bit(self, bit: bool) -> bool:
        self.bits.append(bit)
        return bit


@dataclass(slots=True)
class ReplayedVerdicts:
    """A party's answers: the moderator's comparisons in the order in which the search makes them."""

    bits: list[bool] = field(default_factory=list)
    used: int = 0

    def is_zero(self, asked: int) -> bool:
        """Return the next bit."""
        return self._take_next()

    def is_equal(self, one: int, other: int) -> bool:
        """Return the next bit."""
        return self._take_next()

    @property
    def exhausted(self) -> bool:
        """Whether every bit was used."""
        return self.used == len(self.bits)

    def _take_next(self) -> bool:
        if self.used >= len(self.bits):
            raise IndexError("fewer comparisons than the search needs")
        self.used += 1
        return self.bits[self.used - 1]


def start_search(columns: int, cfds: Sequence[FD], *, most: int, empty_lhs: bool = False, keys: bool = False) -> Search:
    """Start a search that knows the dependencies of every party, and nothing about the union yet.

    With ``empty_lhs`` E of the empty set is known: its one value is held by all parties.
    """
    knowledge = Knowledge(columns, cfds, most=most, empty_lhs=empty_lhs)
    search = Search(knowledge, wants_keys=keys)
    if empty_lhs:
        knowledge.note_asked([0])
    return search
