"""The thesis' traversal: every candidate that does not generalise to a known dependency, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from siloquent.maths.dependencies import FD, list_columns


@dataclass(slots=True)
class LevelwiseSearch:
    """Candidates X -> B by the size of X; one is skipped only if some Y inside X is known to give B.

    Source:
        The SMFD chapter, section 5.4, without its pruning by what holds in every party.
    """

    columns: int
    most: int
    level: int = 1
    found: list[FD] = field(default_factory=list)
    _sent: set[int] = field(default_factory=set)

    def list_candidates(self) -> list[FD]:
        """Return the candidates of this level; empty when the traversal is over."""
        if self.level > min(self.most, self.columns - 1):
            return []
        return [
            (lhs, right)
            for lhs in range(1, 2**self.columns)
            if lhs.bit_count() == self.level
            for right in list_columns(~lhs & ((1 << self.columns) - 1))
            if not any(known & ~lhs == 0 and given == right for known, given in self.found)
        ]

    def list_new_sets(self, candidates: Sequence[FD]) -> list[int]:
        """Return the sets of these candidates that were not sent yet; each is sent once."""
        wanted = dict.fromkeys(one for lhs, right in candidates for one in (lhs, lhs | 1 << right))
        return [one for one in wanted if one not in self._sent]

    def learn(self, candidates: Sequence[FD], verdicts: Sequence[bool]) -> None:
        """Store the verdicts and go to the next level."""
        self._sent |= set(self.list_new_sets(candidates))
        self.found += [candidate for candidate, holds in zip(candidates, verdicts, strict=True) if holds]
        self.level += 1

    def list_minimal(self) -> list[FD]:
        """Return the found dependencies, by right side, number of columns, mask; all are minimal by construction."""
        return sorted(self.found, key=lambda fd: (fd[1], fd[0].bit_count(), fd[0]))
