"""Functional dependencies of one table: codes in, minimal dependencies out; and the consequences of known ones.

Sets of columns are bit masks (column j is ``1 << j``); a dependency is a pair (mask of the left side, right column).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError

MAX_COLUMNS = 62
MAX_LATTICE = 16
_PAIRS = 200  # violating pairs considered for one left side: more add little information
_NEIGHBOURS = (1, 2)
_MAX_PRODUCT = 2**62

FD = tuple[int, int]
Codes = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class DiscoveryProgress:
    """The state of a discovery: left sides of ``size`` columns are being checked, ``open`` candidates are unchecked."""

    size: int
    open: int

    def describe(self) -> str:
        """Return the state in words."""
        return f"left sides of {self.size} columns: {self.open:,} candidates remain"


def discover(
    codes: Codes,
    *,
    max_lhs: int | None = None,
    empty_lhs: bool = False,
    progress: Callable[[DiscoveryProgress], None] | None = None,
) -> list[FD]:
    """Return all minimal functional dependencies, exactly.

    Args:
        codes: Equal values have equal codes, shape (rows, columns).
        max_lhs: Only left sides of at most this many columns; the list is complete up to there.
        empty_lhs: Whether ``{} -> B`` counts (B is constant); without it left sides have at least one column.
        progress: Called before each round of checks and inside it, after each left side and each agree set; an
            exception that it raises ends the discovery.
    Returns:
        (left side, right side), ordered by right side, number of columns, mask.
    Raises:
        RequestError: more columns than bit masks hold.
    Source:
        "A Hybrid Approach to Functional Dependency Discovery" (SIGMOD 2016): sampled agree sets, inversion, checks that
        feed new agree sets back. Ours checks smallest left sides first and keeps masks in Python's whole numbers.
    """
    columns = codes.shape[1]
    if columns > MAX_COLUMNS:
        raise RequestError(f"At most {MAX_COLUMNS} columns can be searched at once, not {columns}.")
    table = _compact(codes)
    cover = _Cover(columns, max_lhs=columns if max_lhs is None else max_lhs, empty_lhs=empty_lhs)
    cover.learn(_sample_agree_sets(table), lambda: progress and progress(DiscoveryProgress(1, cover.open)))
    checked: set[FD] = set()
    while wanted := [fd for fd in cover.list_smallest_first() if fd not in checked]:
        size, left = wanted[0][0].bit_count(), len(wanted)
        if progress is not None:
            progress(DiscoveryProgress(size, left))
        now = [fd for fd in wanted if fd[0].bit_count() == size]
        found: set[int] = set()
        for lhs, rights in _group_by_right(now).items():
            broken = _find_violations(table, lhs, rights)
            found |= broken
            if not broken:
                checked |= {(lhs, right) for right in rights}
            left -= len(rights)
            if progress is not None:
                progress(DiscoveryProgress(size, left))
        cover.learn(found, lambda size=size: progress and progress(DiscoveryProgress(size, cover.open)))  # type: ignore[misc]
    return sorted(cover.list_smallest_first(), key=lambda fd: (fd[1], fd[0].bit_count(), fd[0]))


def list_columns(mask: int) -> tuple[int, ...]:
    """Return the columns in a mask, in order.

    >>> list_columns(0b1101)
    (0, 2, 3)
    """
    return tuple(j for j in range(mask.bit_length()) if mask >> j & 1)


def number_groups(codes: Codes, mask: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row by its values in the columns of ``mask``, and the first row of each group.

    Returns:
        Rows' groups, shape (rows,), numbered 0..groups-1; first rows, shape (groups,).
    """
    key = np.zeros(len(codes), dtype=np.int64)
    span = 1
    for column in list_columns(mask):
        more = int(codes[:, column].max(initial=0)) + 1
        if span * more >= _MAX_PRODUCT:
            _, key = np.unique(key, return_inverse=True)
            span = int(key.max(initial=0)) + 1
        key = key * more + codes[:, column]
        span *= more
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return inverse.astype(np.int64), first.astype(np.int64)


def compute_closures(dependencies: Iterable[FD], columns: int) -> NDArray[np.int64]:
    """Return the closure of every set of columns under Armstrong's rules, shape (2^columns,).

    >>> compute_closures([(0b001, 1), (0b010, 2)], 3)[0b001]
    np.int64(7)
    """
    if columns > MAX_LATTICE:
        raise RequestError(f"All sets of {columns} columns are too many: at most {MAX_LATTICE} columns.")
    closed = np.arange(2**columns, dtype=np.int64)
    for lhs, right in dependencies:
        closed[(closed & lhs) == lhs] |= 1 << right
    return tighten_closures(closed)


def tighten_closures(closed: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``closed`` (2^columns,) with every set's closure as large as the closures of all its subsets make it."""
    closed = closed.copy()
    columns = len(closed).bit_length() - 1
    while True:
        before = closed
        closed = before.copy()
        for j in range(columns):  # a superset implies whatever its subset implies
            halves = closed.reshape(-1, 2, 1 << j)
            halves[:, 1] |= halves[:, 0]
        closed = closed[closed]
        if np.array_equal(closed, before):
            return closed


@dataclass(slots=True)
class _Cover:
    """The minimal left sides, for each right side, that no agree set seen so far refutes."""

    columns: int
    max_lhs: int
    empty_lhs: bool
    lefts: list[set[int]] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        ones = {1 << j for j in range(self.columns)} if self.max_lhs >= 1 else set()
        self.lefts = [{0} if self.empty_lhs else ones - {1 << right} for right in range(self.columns)]

    @property
    def open(self) -> int:
        """The number of candidates."""
        return sum(len(lefts) for lefts in self.lefts)

    def learn(self, agree_sets: Iterable[int], tell: Callable[[], object]) -> None:
        """Replace left sides refuted by ``agree_sets`` (columns on which some two rows agree) by larger ones.

        ``tell`` is called for each of them, since there may be many.
        """
        for agreed in sorted(set(agree_sets) - self.seen, key=lambda mask: (-mask.bit_count(), mask)):
            tell()
            self.seen.add(agreed)
            outside = ~agreed & ((1 << self.columns) - 1)
            for right in list_columns(outside):
                self._refute(right, agreed, outside & ~(1 << right))

    def _refute(self, right: int, agreed: int, outside: int) -> None:
        lefts = self.lefts[right]
        refuted = [left for left in lefts if not left & ~agreed]
        if not refuted:
            return
        lefts.difference_update(refuted)
        for left in sorted(refuted, key=int.bit_count):
            if left.bit_count() >= self.max_lhs:
                continue
            for column in list_columns(outside):
                larger = left | 1 << column
                if not any(kept & ~larger == 0 for kept in lefts):
                    lefts.add(larger)

    def list_smallest_first(self) -> list[FD]:
        found = [(left, right) for right, lefts in enumerate(self.lefts) for left in lefts]
        return sorted(found, key=lambda fd: (fd[0].bit_count(), fd))


def _compact(codes: Codes) -> NDArray[np.int64]:
    """Return codes 0..distinct-1 for every column."""
    table = np.empty(codes.shape, dtype=np.int64, order="F")
    for j in range(codes.shape[1]):
        table[:, j] = np.unique(codes[:, j], return_inverse=True)[1]
    return table


def _sample_agree_sets(table: NDArray[np.int64]) -> set[int]:
    """Return agree sets of rows that agree on some column: neighbours when sorted by it, otherwise shuffled."""
    mixed = np.random.default_rng(len(table)).permutation(len(table))
    found: set[int] = set()
    for j in range(table.shape[1]):
        order = mixed[np.argsort(table[mixed, j], kind="stable")]
        for distance in _NEIGHBOURS:
            left, right = order[:-distance], order[distance:]
            same = table[left, j] == table[right, j]
            found |= _compute_agree_sets(table, left[same], right[same])
    return found


def _compute_agree_sets(table: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> set[int]:
    masks = np.zeros(len(left), dtype=np.int64)
    for j in range(table.shape[1]):
        masks |= (table[left, j] == table[right, j]).astype(np.int64) << j
    every = (1 << table.shape[1]) - 1
    return {int(mask) for mask in np.unique(masks)} - {every}


def _group_by_right(dependencies: Iterable[FD]) -> dict[int, list[int]]:
    by_left: dict[int, list[int]] = {}
    for left, right in dependencies:
        by_left.setdefault(left, []).append(right)
    return by_left


def _find_violations(table: NDArray[np.int64], lhs: int, rights: Sequence[int]) -> set[int]:
    """Return agree sets of rows equal on ``lhs`` but not on some of ``rights``; none if all dependencies hold."""
    group, first = number_groups(table, lhs)
    partner = first[group]
    found: set[int] = set()
    for right in rights:
        wrong = np.flatnonzero(table[:, right] != table[partner, right])
        if len(wrong):
            chosen = wrong[:: max(1, len(wrong) // _PAIRS)][:_PAIRS]
            found |= _compute_agree_sets(table, chosen, partner[chosen])
    return found
