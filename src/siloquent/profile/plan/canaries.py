"""Canaries: requests that no worker can distinguish from others, with a result known beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.federation.crypto.seeds import derive_stream

YES = -1
"""The value of a vote's canary on which all parties vote yes; 0, 1, ...: the party of that number votes no."""


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """The number of synthetic values shared by each group of parties; a group is a mask of at least two parties."""

    shares: tuple[tuple[int, int], ...]

    def list_held(self, party: int) -> list[tuple[int, int]]:
        """Return (group, count) of the groups that include ``party``."""
        return [(group, count) for group, count in self.shares if group >> party & 1]

    def compute_histogram(self, parties: int) -> NDArray[np.int64]:
        """Compute n_2 to n_m as the last worker must find them."""
        found = np.zeros(parties + 1, dtype=np.int64)
        for group, count in self.shares:
            found[group.bit_count()] += count
        return found[2:]

    def to_list(self) -> list[list[int]]:
        """Return the plan as a JSON-compatible list."""
        return [list(share) for share in self.shares]


def draw_sharing_plan(sizes: Sequence[int], seed: bytes, session: bytes, query: int) -> SharingPlan:
    """Draw a random plan that fits every party's batch; counts are log-uniform.

    At least one value is shared: a request without shared values could not detect lost equalities.
    """
    groups = [group for group in range(2 ** len(sizes)) if group.bit_count() >= 2]
    words = np.frombuffer(derive_stream(seed, "sharing", session, query, size=8 * len(groups)), dtype="<u8")
    left = list(sizes)
    shares = []
    for group, word in zip(groups, words.tolist(), strict=True):
        members = [party for party in range(len(sizes)) if group >> party & 1]
        room = min(left[party] for party in members) // 2
        count = int(2 ** (word / 2**64 * math.log2(room + 1))) - 1 if room > 0 else 0
        if count > 0:
            shares.append((group, count))
        for party in members:
            left[party] -= max(0, count)
    return SharingPlan(tuple(shares) or ((groups[-1], 1),))


def parse_sharing_plan(plain: Any, sizes: Sequence[int]) -> SharingPlan:
    """Parse the plan that a moderator sent.

    Raises:
        ValueError: not a plan, or it does not fit into the batches.
    """
    shares = tuple((int(group), int(count)) for group, count in plain)
    groups = [group for group, _ in shares]
    if len(set(groups)) != len(groups) or any(g.bit_count() < 2 or g >> len(sizes) for g in groups):
        raise ValueError("no groups of parties")
    plan = SharingPlan(shares)
    for party, size in enumerate(sizes):
        if any(count < 1 for _, count in shares) or sum(count for _, count in plan.list_held(party)) > size:
            raise ValueError("more values than places")
    return plan


def count_canaries(sets: int, share: Fraction) -> int:
    """Return the number of canaries due after ``sets`` sets of a session: at least one."""
    return max(1, math.ceil(share * sets))


def count_vote_canaries(candidates: int, share: Fraction) -> int:
    """Return the number of canaries of a round, which limits the parties' additional ballots."""
    return max(2, math.ceil(share * candidates)) if share else 0


def draw_vote_canaries(
    candidates: int, parties: int, share: Fraction, seed: bytes, session: bytes, number: int
) -> list[int]:
    """Draw the values of a round's canaries: ``YES`` or the party that votes no; about ``share`` of the candidates."""
    count = count_vote_canaries(candidates, share)
    words = np.frombuffer(derive_stream(seed, "vote canaries", session, number, size=8 * count), dtype="<u8")
    # At least one of each kind; kinds alternate so that both are always present.
    return [YES if index % 2 == 0 else int(word % parties) for index, word in enumerate(words.tolist())]


def compute_vote_indices(count: int, order: bytes, session: bytes, number: int) -> list[int]:
    """Return the position of each of ``count`` ballots of a round: the real ones in the search's order, then canaries.

    Args:
        order: The seed that the moderator sends to parties and to no worker.
    """
    return shuffle_order(count, order, session, "votes", number)


def shuffle_order(count: int, seed: bytes, session: bytes, label: str, number: int) -> list[int]:
    """Return an order of ``count`` items that workers cannot guess."""
    from siloquent.federation.crypto.permute import derive_permutation

    key = derive_stream(seed, f"shuffle {label}", session, number, size=32)
    return [int(place) for place in derive_permutation(key, count)]
