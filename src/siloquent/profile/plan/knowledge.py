"""The known dependencies of the union and their consequences: pure functions of answers, the same for all roles.

Sets of columns are bit masks; arrays over all sets have shape (2^columns,). E(X), the excess of a set, counts the
values of X held by more than one party: a value of k parties counts k - 1. For T inside the closure of X under the
dependencies that hold in every party, X -> T holds in the union exactly if E(X) = E(X u T), and if E(X) = 0.
Proofs: docs/explanation/profile-search.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from siloquent.maths.dependencies import FD, compute_closures, list_columns, tighten_closures

Sets = NDArray[np.int64]


class Answers(Protocol):
    """The measured results: the holder of excesses compares them, a role that received the results repeats them."""

    def is_zero(self, asked: int) -> bool:
        """Return whether E of the set requested as ``asked`` is 0."""
        ...

    def is_equal(self, one: int, other: int) -> bool:
        """Return whether two requested sets have the same E."""
        ...


@dataclass(slots=True)
class Knowledge:
    """The known dependencies and non-dependencies, closed under the rules.

    Args:
        columns: The number of columns.
        cfds: Dependencies that hold in every party, minimal ones: the only candidates for the union.
        most: The largest left side that is searched.
        empty_lhs: Whether the empty left side is searched.
    """

    columns: int
    cfds: Sequence[FD]
    most: int
    empty_lhs: bool = False
    closed: Sets = field(init=False)
    refuted: Sets = field(init=False)  # columns known not to depend on the set
    _within: Sets = field(init=False)  # closures under cfds
    _searched: NDArray[np.bool_] = field(init=False)
    _noes: list[FD] = field(init=False, default_factory=list)
    _asked: dict[int, int] = field(init=False, default_factory=dict)  # closure -> the requested set

    def __post_init__(self) -> None:
        every = np.arange(2**self.columns, dtype=np.int64)
        self.closed, self.refuted = every.copy(), np.zeros_like(every)
        self._within = compute_closures(self.cfds, self.columns)
        sizes = np.bitwise_count(every)
        self._searched = (sizes <= self.most) & (sizes >= (0 if self.empty_lhs else 1))

    def compute_closure(self, lhs: int) -> int:
        """Compute all columns that ``lhs`` is known to determine, itself included."""
        return int(self.closed[lhs])

    def find_undecided(self, lhs: int) -> int:
        """Return the columns whose dependency on ``lhs`` is unknown."""
        return int(self._within[lhs] & ~self.closed[lhs] & ~self.refuted[lhs])

    def find_wide(self, right: int) -> NDArray[np.bool_]:
        """Return the sets of any size for which it is unknown whether they determine ``right``."""
        still = self._within & ~self.closed & ~self.refuted
        return (still >> right & 1).astype(bool)

    def find_undecided_sets(self) -> Sets:
        """Return ``find_undecided`` of every searched set, 0 for others."""
        return np.where(self._searched, self._within & ~self.closed & ~self.refuted, 0)

    def find_asked(self, lhs: int) -> int | None:
        """Return a requested set with the same E as ``lhs``; None if there is none yet."""
        return self._asked.get(int(self.closed[lhs]))

    def note_asked(self, lhs: Iterable[int]) -> None:
        """Record that E of these sets was measured."""
        for one in lhs:
            self._asked.setdefault(int(self.closed[one]), one)

    def learn_yes(self, lhs: int, rights: int) -> None:
        """Record that ``lhs`` determines all columns of ``rights`` in the union."""
        every = np.arange(len(self.closed))
        self.closed[(every & lhs) == lhs] |= rights
        self._follow()

    def learn_unshared(self, lhs: int) -> None:
        """Record that no two parties share a value of ``lhs``: local dependencies hold in the union, also above it."""
        every = np.arange(len(self.closed))
        above = (every & lhs) == lhs
        self.closed[above] |= self._within[above]
        self._follow()

    def learn_no(self, lhs: int, right: int) -> None:
        """Record that ``lhs`` does not determine the column ``right``."""
        self._noes.append((lhs, right))
        self._follow_noes()

    def learn_verdicts(self, verdicts: Iterable[tuple[FD, bool]]) -> None:
        """Record many answers, each whether a left side determines a column."""
        for (lhs, right), holds in verdicts:
            if holds:
                self.closed[lhs] |= 1 << right
            else:
                self._noes.append((lhs, right))
        self._follow()

    def list_minimal(self) -> list[FD]:
        """Return the known minimal dependencies of the union, among the searched left sides."""
        every = np.arange(len(self.closed))
        gives = np.where(self._searched, self.closed & ~every, 0)
        found: list[FD] = []
        for right in range(self.columns):
            holds = (gives >> right & 1).astype(bool)
            below = np.zeros_like(holds)
            for column in range(self.columns):
                has = (every >> column & 1).astype(bool)
                below[has] |= holds[every[has] ^ (1 << column)]
            found += [(int(lhs), right) for lhs in every[holds & ~below]]
        return sorted(found, key=lambda fd: (fd[1], fd[0].bit_count(), fd[0]))

    def list_superkeys(self) -> list[int]:
        """Return the minimal sets, among the searched, that determine all columns."""
        every = np.arange(len(self.closed))
        whole = self._searched & (self.closed == len(self.closed) - 1)
        found: list[int] = []
        for lhs in sorted(every[whole].tolist(), key=lambda mask: (mask.bit_count(), mask)):
            if not any(known & ~lhs == 0 for known in found):
                found.append(lhs)
        return found

    def _follow(self) -> None:
        """Apply Armstrong's rules, then update refuted and requested sets by the larger closures."""
        self.closed = tighten_closures(self.closed)
        self._follow_noes()
        for one in list(self._asked.values()):
            self._asked.setdefault(int(self.closed[one]), one)

    def _follow_noes(self) -> None:
        """Propagate refutations: nothing that a set determines gives a column that the set itself does not."""
        if not self._noes:
            return
        lefts, rights = np.array(self._noes, dtype=np.int64).T
        np.bitwise_or.at(self.refuted, self.closed[lefts], 1 << rights)
        for column in range(self.columns):  # a column that a set does not determine is not determined by its subsets
            halves = self.refuted.reshape(-1, 2, 1 << column)
            halves[:, 0] |= halves[:, 1]


def find_extremes(opens: NDArray[np.bool_], *, largest: bool, count: int) -> list[int]:
    """Return the ``count`` largest maximal sets of ``opens`` (over masks), or smallest minimal ones, by size, mask."""
    every = np.arange(len(opens))
    beyond = opens.copy()
    for column in list_columns(len(opens) - 1):
        halves = beyond.reshape(-1, 2, 1 << column)
        if largest:
            halves[:, 0] |= halves[:, 1]
        else:
            halves[:, 1] |= halves[:, 0]
    # ``beyond`` now says whether an open set lies at or above (below) each set; extreme: none lies strictly beyond.
    strictly = np.zeros_like(opens)
    for column in list_columns(len(opens) - 1):
        has = (every >> column & 1).astype(bool)
        inside, outside = every[has] ^ (1 << column), every[has]
        if largest:
            strictly[inside] |= beyond[outside]
        else:
            strictly[outside] |= beyond[inside]
    found = every[opens & ~strictly]
    sign = -1 if largest else 1
    return [int(one) for one in sorted(found.tolist(), key=lambda mask: (sign * mask.bit_count(), mask))[:count]]
