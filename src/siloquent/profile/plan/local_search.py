"""The choice of candidates to vote on: those most informative about what holds in every party, given the votes so far.

A pure function of the verdicts: moderator and parties compute the same list, so it is never sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from siloquent.maths.dependencies import FD, list_columns
from siloquent.profile.plan.knowledge import Knowledge, find_extremes

WIDTH = 16
"""The number of largest and of smallest undecided left sides, per right side, voted on in one round."""
NARROW_ROUNDS = 3  # after that each round is twice as wide: few rounds where there is much to vote on


@dataclass(slots=True)
class LocalSearch:
    """The search for what holds in every party, from both ends: a no for a set implies no for all its subsets.

    Args:
        columns: The number of columns.
        most: The largest left side.
        empty_lhs: Whether ``{} -> B`` is a candidate.
    Source:
        "Discovering All Most Specific Sentences" (TODS 2003), with Armstrong's rules; proof: profile-search.md.
    """

    columns: int
    most: int
    empty_lhs: bool = False
    rounds: int = 0
    knowledge: Knowledge = field(init=False)

    def __post_init__(self) -> None:
        everything = [(0, right) for right in range(self.columns)]  # nothing is known, so every dependency may hold
        self.knowledge = Knowledge(self.columns, everything, self.most, self.empty_lhs)

    def list_candidates(self) -> list[FD]:
        """Return the candidates of this round, in order; empty when all is known."""
        opens = self.knowledge.find_undecided_sets()
        count = WIDTH << max(0, self.rounds - NARROW_ROUNDS)
        found: list[FD] = []
        for right in list_columns(int(np.bitwise_or.reduce(opens))):
            still = (opens >> right & 1).astype(bool)
            ends = {*find_extremes(still, largest=True, count=count), *find_extremes(still, largest=False, count=count)}
            # Sets with the same closure have the same answer: the smallest mask is asked.
            asked = {self.knowledge.compute_closure(lhs): lhs for lhs in sorted(ends, reverse=True)}
            found += [(lhs, right) for lhs in sorted(asked.values())]
        return found

    def learn(self, candidates: Sequence[FD], verdicts: Sequence[bool]) -> None:
        """Store the verdicts on this round's candidates and go to the next round."""
        self.knowledge.learn_verdicts(zip(candidates, verdicts, strict=True))
        self.rounds += 1

    def list_dependencies(self) -> list[FD]:
        """Return the minimal dependencies that hold in every party, by right side, number of columns, mask."""
        return self.knowledge.list_minimal()
