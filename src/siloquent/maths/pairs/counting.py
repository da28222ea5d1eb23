"""Exact counts of the pairs of rows that pass a conjunction of comparisons, without enumerating all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
FLIPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OUTCOMES: dict[Operator, set[str]] = {
    "=": {"="},
    "!=": {"<", ">"},
    "<": {"<"},
    "<=": {"<", "="},
    ">": {">"},
    ">=": {">", "="},
}
MAX_DENSE = 10**7
"""The most cells of a table of cumulative counts; larger products are sorted instead."""


@dataclass(frozen=True, slots=True, eq=False)
class PairComparison:
    """``t1.left op t2.right``: the values of each row on either side, int64, shape (rows,)."""

    op: Operator
    left: Integers
    right: Integers

    @property
    def reversed(self) -> PairComparison:
        """The same test with t1 and t2 exchanged."""
        return PairComparison(FLIPPED[self.op], self.right, self.left)


@dataclass(frozen=True, slots=True, eq=False)
class PairRule:
    """Rows t1 in ``first`` and t2 in ``second`` (bool, shape (rows,)) that pass every test break the rule."""

    tests: tuple[PairComparison, ...]
    first: Flags
    second: Flags

    @property
    def reversed(self) -> PairRule:
        """The same rule with t1 and t2 exchanged."""
        return PairRule(tuple(test.reversed for test in self.tests), self.second, self.first)

    @property
    def is_symmetric(self) -> bool:
        """Whether exchanging t1 and t2 changes nothing, judged by the identity of the arrays."""
        same = all(test.left is test.right and test.op in ("=", "!=") for test in self.tests)
        return same and (self.first is self.second or np.array_equal(self.first, self.second))

    @property
    def both(self) -> PairRule:
        """The rule for pairs that break this one whichever of the two rows is t1."""
        either = self.first & self.second
        return PairRule((*self.tests, *(test.reversed for test in self.tests)), either, either)

    def find_self_violations(self) -> Flags:
        """Return a mask of the rows that break the rule with themselves, shape (rows,)."""
        found = self.first & self.second
        for test in self.tests:
            found = found & apply_operator(test.left, test.op, test.right)
        return found


def apply_operator(left: Integers, op: Operator, right: Integers) -> Flags:
    """Compare ``left op right``, elementwise."""
    functions = {
        "=": np.equal,
        "!=": np.not_equal,
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
    }
    return np.asarray(functions[op](left, right), dtype=bool)


def count_violating_pairs(rule: PairRule) -> int:
    """Return the number of unordered pairs of two different rows that break ``rule``, in either direction.

    >>> low, every = np.array([1, 2, 3]), np.ones(3, bool)
    >>> falls = PairRule((PairComparison("<", low, low), PairComparison(">", low[::-1], low[::-1])), every, every)
    >>> count_violating_pairs(falls)
    3
    """
    alone = int(rule.find_self_violations().sum())
    ordered = int(count_matches_per_row(rule).sum()) - alone
    if rule.is_symmetric:
        return ordered // 2
    return ordered - (int(count_matches_per_row(rule.both).sum()) - alone) // 2


def count_earlier_pairs(rule: PairRule) -> int:
    """Return the number of pairs that break ``rule`` with the earlier row as t1: the thesis's count, by row order."""
    order = np.arange(len(rule.first), dtype=np.int64)
    return int(
        count_matches_per_row(PairRule((*rule.tests, PairComparison("<", order, order)), rule.first, rule.second)).sum()
    )


def count_violations_per_row(rule: PairRule) -> Integers:
    """Return the number of other rows with which each row breaks ``rule``, in either direction, shape (rows,)."""
    return (
        count_matches_per_row(rule)
        + count_matches_per_row(rule.reversed)
        - count_matches_per_row(rule.both)
        - rule.find_self_violations()
    )


def count_matches_per_row(rule: PairRule) -> Integers:
    """Return, for each row as t1, how many rows as t2 (itself included) pass every test, shape (rows,)."""
    found = np.zeros(len(rule.first), dtype=np.int64)
    first, second = np.flatnonzero(rule.first), np.flatnonzero(rule.second)
    merged = _tighten_tests(rule.tests)
    if not len(first) or not len(second) or merged is None:
        return found
    alike = len(first) == len(second) and np.array_equal(first, second)
    tests: list[_Test] = []
    for op, left, right in merged:
        # One array for both sides is ranked once; see _same_key.
        mine = left[first]
        tests.append((op, mine, mine if alike and left is right else right[second]))
    unequal = [test for test in tests if test[0] == "!="]
    for chosen in range(1 << len(unequal)):
        # "!=" is all minus equal, for each such test: inclusion and exclusion.
        equal: list[_Test] = [("=", left, right) for i, (_, left, right) in enumerate(unequal) if chosen >> i & 1]
        sign = -1 if bin(chosen).count("1") % 2 else 1
        rest = [test for test in tests if test[0] != "!="]
        found[first] += sign * _count_boxes([*rest, *equal], len(first), len(second))
    return found


_Test = tuple[Operator, Integers, Integers]


def _tighten_tests(tests: Sequence[PairComparison]) -> list[_Test] | None:
    """Merge the tests of the same two arrays into one (<= and >= are =); return None if no pair can pass."""
    kept: dict[tuple[int, int], list[PairComparison]] = {}
    for test in tests:
        kept.setdefault((id(test.left), id(test.right)), []).append(test)
    merged = [(combine_operators([test.op for test in same]), same[0]) for same in kept.values()]
    return None if any(op is None for op, _ in merged) else [(op, one.left, one.right) for op, one in merged if op]


def combine_operators(operators: Iterable[Operator]) -> Operator | None:
    """Return the operator equal to all of these on the same two sides; None if they contradict one another.

    >>> combine_operators(["<=", "!="]), combine_operators(["<", ">"])
    ('<', None)
    """
    allowed = {"<", "=", ">"}
    for op in operators:
        allowed &= _OUTCOMES[op]
    return next((op for op, outcomes in _OUTCOMES.items() if outcomes == allowed), None)


def _count_boxes(tests: Sequence[_Test], firsts: int, seconds: int) -> Integers:
    """Return, for each first row, how many second rows pass every test (=, <, <=, >, >=), shape (firsts,)."""
    key_s = np.zeros(seconds, dtype=np.int64)
    key_t = key_s if firsts == seconds else np.zeros(firsts, dtype=np.int64)
    ordered = []
    for op, left, right in tests:
        if op == "=":
            key_t, key_s = _refine_keys(key_t, key_s, left, right)
        else:
            ordered.append(_convert_to_bound(op, left, right))
    ordered.sort(key=lambda one: one[2])
    return _count_at_least(key_t, key_s, ordered)


def rank_values(values: Integers) -> tuple[Integers, Integers]:
    """Return the sorted distinct values and each value's index in them: ``np.unique``, without sorting if dense.

    >>> [part.tolist() for part in rank_values(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low > 2 * len(values) + 2**16:
        known, ranks = np.unique(values, return_inverse=True)
        return known, ranks.astype(np.int64)
    present = np.zeros(high - low + 1, dtype=bool)
    present[values - low] = True
    return np.flatnonzero(present) + low, (np.cumsum(present) - 1)[values - low]


def _refine_keys(key_t: Integers, key_s: Integers, left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Refine keys by one more equality, again 0, 1, ...; keys without a second row share one that has none."""
    known, ranks = rank_values(right)
    if left is right and key_t is key_s:
        _, joint_key = rank_values(key_s * len(known) + ranks)
        return joint_key, joint_key
    at = _find_indices(known, left)
    met = (at >= 0) & (key_t >= 0)
    joint, new_s = rank_values(key_s * len(known) + ranks)
    return np.where(met, _find_indices(joint, key_t * len(known) + at), -1), new_s


def _find_indices(known: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted value in ``known`` (sorted, distinct), -1 if it is missing."""
    low, high = int(known[0]), int(known[-1])
    if high - low <= 2 * (len(known) + len(wanted)) + 2**16:
        table = np.full(high - low + 2, -1, dtype=np.int64)
        table[known - low] = np.arange(len(known))
        return table[np.where((wanted >= low) & (wanted <= high), wanted - low, -1)]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)


def _convert_to_bound(op: str, left: Integers, right: Integers) -> tuple[Integers, Integers, int]:
    """Return the test as "rank of s >= bound of t": bounds 0..K, ranks 0..K-1, K."""
    same = left is right
    if op in (">", ">="):
        left, right = -left, -right
    known, ranks = rank_values(right)
    strict = op in ("<", ">")
    bounds = ranks + strict if same else np.searchsorted(known, left, side="right" if strict else "left")
    return bounds.astype(np.int64), ranks, len(known)


def _count_at_least(key_t: Integers, key_s: Integers, ordered: Sequence[tuple[Integers, Integers, int]]) -> Integers:
    """Count the s of the same key with every rank at least the bound, shape of ``key_t``; key -1 matches none."""
    keys = int(key_s.max(initial=-1)) + 1
    if not keys or not len(key_t):
        return np.zeros(len(key_t), dtype=np.int64)
    cells = keys * math.prod(size + 1 for _, _, size in ordered)
    levels = math.prod(max(size.bit_length(), 1) for _, _, size in ordered[1:])
    if cells <= MAX_DENSE and cells * (len(ordered) + 1) <= 16 * levels * (len(key_t) + len(key_s)) + 10**5:
        return _count_dense(key_t, key_s, ordered, keys)
    if not ordered:
        return _count_dense(key_t, key_s, ordered, keys)
    if len(ordered) == 1:
        return _count_sorted(key_t, key_s, ordered[0])
    return _count_by_levels(key_t, key_s, ordered)


def _count_dense(
    key_t: Integers, key_s: Integers, ordered: Sequence[tuple[Integers, Integers, int]], keys: int
) -> Integers:
    """Count by a table, summed from above along each ordered axis, then read."""
    shape = (keys, *(size + 1 for _, _, size in ordered))
    table = np.bincount(
        np.ravel_multi_index((key_s, *(rank for _, rank, _ in ordered)), shape), minlength=math.prod(shape)
    )
    table = table.reshape(shape)
    for axis in range(1, len(shape)):
        from_above = np.flip(table, axis)
        np.cumsum(from_above, axis=axis, out=from_above)  # in place, since there may be 10^7 cells
    found = table[(np.maximum(key_t, 0), *(bound for bound, _, _ in ordered))]
    return np.where(key_t >= 0, found, 0)


def _count_sorted(key_t: Integers, key_s: Integers, only: tuple[Integers, Integers, int]) -> Integers:
    bounds, ranks, size = only
    line = np.sort(key_s * (size + 1) + ranks)
    ends = np.searchsorted(line, (key_t + 1) * (size + 1))
    return np.where(key_t >= 0, ends - np.searchsorted(line, key_t * (size + 1) + bounds), 0)


def _count_by_levels(key_t: Integers, key_s: Integers, ordered: Sequence[tuple[Integers, Integers, int]]) -> Integers:
    """Remove one ordered axis: a number exceeds another at exactly one binary digit, before which they are equal."""
    (bounds, ranks, size), rest = ordered[-1], ordered[:-1]
    found = np.zeros(len(key_t), dtype=np.int64)
    above = ranks + 1  # rank >= bound is rank + 1 > bound
    for level in range((size + 1).bit_length()):
        t = np.flatnonzero(((bounds >> level) & 1 == 0) & (key_t >= 0))
        s = np.flatnonzero((above >> level) & 1 == 1)
        if not len(t) or not len(s):
            continue
        new_t, new_s = _refine_keys(key_t[t], key_s[s], bounds[t] >> (level + 1), above[s] >> (level + 1))
        found[t] += _count_at_least(new_t, new_s, [(bound[t], rank[s], k) for bound, rank, k in rest])
    return found
