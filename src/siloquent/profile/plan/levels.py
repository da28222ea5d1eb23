"""Which candidates are voted on, level by level: those that can still be minimal, given the votes so far.

A pure function of the verdicts: moderator and parties compute the same list, so it is never taken from anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from siloquent.maths.dependencies import FD, columns_of


@dataclass(slots=True)
class Levels:
    """The walk over attribute sets by size; a candidate is X minus B -> B for a set X of the level.

    Args:
        columns: How many there are.
        most: The largest left side.
        empty_lhs: Whether ``{} -> B`` is a candidate.
    Source:
        TANE (Computer Journal 1999), candidates with right side pruning; keys are not known, so none are pruned.
    """

    columns: int
    most: int
    empty_lhs: bool = False
    level: int = 1
    found: list[FD] = field(default_factory=list)
    _rights: dict[int, int] = field(init=False)  # set -> what can still be a minimal right side in or above it

    def __post_init__(self) -> None:
        self._rights = {1 << column: (1 << self.columns) - 1 for column in range(self.columns)}
        if not self.empty_lhs:
            self._grow()

    def candidates(self) -> list[FD]:
        """The candidates of this level, in order; none when the walk is over."""
        if self.level > self.most + 1:
            return []
        return [
            (one & ~(1 << right), right)
            for one, rights in sorted(self._rights.items())
            for right in columns_of(one & rights)
        ]

    def learn(self, verdicts: Sequence[bool]) -> None:
        """Take the verdicts on this level's candidates and go to the next level."""
        for (lhs, right), holds in zip(self.candidates(), verdicts, strict=True):
            if holds:
                whole = lhs | 1 << right
                self.found.append((lhs, right))
                self._rights[whole] &= whole & ~(1 << right)
        self._grow()

    def _grow(self) -> None:
        """Sets one column larger all of whose subsets can still be part of something."""
        kept = {one: rights for one, rights in self._rights.items() if rights}
        self.level += 1
        self._rights = {}
        for one, rights in kept.items():
            for column in range(one.bit_length(), self.columns):
                larger = one | 1 << column
                for inner in columns_of(one):
                    rights_below = kept.get(larger & ~(1 << inner))
                    if rights_below is None:
                        break
                    rights &= rights_below
                else:
                    self._rights[larger] = rights
                rights = kept[one]


def minimal(found: Sequence[FD]) -> list[FD]:
    """``found`` in the order of lists: right side, number of columns, mask."""
    return sorted(found, key=lambda fd: (fd[1], fd[0].bit_count(), fd[0]))
