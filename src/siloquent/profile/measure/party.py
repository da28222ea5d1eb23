"""What a party computes from its rows for the others: ballots, batches of blinded values, encrypted values and numbers.

Privacy of everything here: input privacy; the leakage statement of the session says what comes out at whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from siloquent.federation.crypto import chain, mixnet, votes
from siloquent.federation.crypto.group import Group, Ristretto
from siloquent.federation.crypto.hashing import hash_to_group
from siloquent.federation.crypto.points import POINT
from siloquent.federation.crypto.seeds import derive
from siloquent.maths.dependencies import compute_closures, discover
from siloquent.profile.measure.snapshot import Snapshot
from siloquent.profile.plan.canaries import SharingPlan
from siloquent.profile.plan.sizes import compute_size_class

TAG = b"siloquent/profile/1 ristretto255_XMD:SHA-512_R255MAP_RO_"
_CANARY = b"\xff\xff"  # no set of columns has so many: made-up values never meet a party's


@dataclass(slots=True)
class PartyData:
    """One party's snapshot in one session.

    Args:
        session: The session's id: part of what is hashed, so that nothing can be linked to another session.
        most: The longest left side that is searched.
        terms: The SHA-256 of what this party agreed to, hashed along: values meet only those of parties that were told
            the same, so nobody is made to compare one column with another's.
    """

    snapshot: Snapshot
    session: bytes
    most: int
    empty_lhs: bool = False
    group: Group = field(default_factory=Ristretto)
    terms: bytes = bytes(32)
    _closed: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        found = discover(self.snapshot.codes, max_lhs=self.most, empty_lhs=True)
        self._closed = compute_closures(found, len(self.snapshot.columns))

    def compute_batch_size(self, *, rounded: bool) -> int:
        """How many elements a padded batch has: the number of rows, or its size class."""
        return compute_size_class(self.snapshot.rows) if rounded else self.snapshot.rows

    def compute_commitment(self, salt: bytes) -> str:
        """What the party's rows can be compared with in a dispute."""
        return self.snapshot.compute_commitment(salt)

    def holds(self, lhs: int, right: int) -> bool:
        """Whether a dependency holds on this party's rows."""
        return bool(self._closed[lhs] >> right & 1)

    def has_no_duplicate_rows(self) -> bool:
        """Whether no two rows are equal."""
        return self.snapshot.count_distinct((1 << len(self.snapshot.columns)) - 1) == self.snapshot.rows

    def encrypt_ballots(self, cast: Sequence[bool], key: bytes, *, seed: bytes, level: int, tied: bytes) -> bytes:
        """Encrypted votes under the workers' joint key, ``tied`` to those of parties that were told the same.

        Privacy:
            Input privacy; the last worker learns one bit a candidate, whether all parties said yes.
        """
        return votes.cast(self.group, cast, key, seed=seed, session=self.session, level=level, tied=tied)

    def build_batch(self, mask: int, size: int | None, query: int, *, shared: Sequence[bytes], own: bytes) -> bytes:
        """The blinded values of the columns in ``mask``, filled up to ``size`` elements (None: not filled up).

        Privacy:
            Input privacy; the last worker learns how many values each group of parties shares. Without ``size`` all
            workers learn how many different values there are.
        """
        hashed = self._hash_values(mask)
        return self._blind_values(hashed, size, query, shared, own)

    def build_canary_batch(
        self, plan: SharingPlan, place: int, size: int, query: int, *, key: bytes, shared: Sequence[bytes], own: bytes
    ) -> bytes:
        """Made-up values as ``plan`` wants them of party number ``place``: no row is read."""
        messages = [
            self.session + self.terms + _CANARY + derive(key, "canary", self.session, query, group, index)
            for group, count in plan.list_held(place)
            for index in range(count)
        ]
        return self._blind_values(hash_to_group(self.group, messages, TAG), size, query, shared, own)

    def encrypt_values(self, mask: int, key: bytes, query: int, *, own: bytes) -> bytes:
        """The values of the columns in ``mask`` as pairs under the workers' joint key, for the mix network.

        Privacy:
            Input privacy; the first worker learns the number of values, the moderator their tags.
        """
        hashed = self._hash_values(mask)
        return mixnet.encrypt_points(self.group, hashed, key, seed=own, session=self.session, query=query, label="m")

    def compute_surplus(self, lhs: int, right: int) -> int:
        """e(X) - e(XB) of the thesis: by how many values ``lhs`` with ``right`` exceeds ``lhs``."""
        return self.snapshot.count_distinct(lhs | 1 << right) - self.snapshot.count_distinct(lhs)

    def encrypt_number(self, value: int, key: bytes, query: int, *, own: bytes) -> bytes:
        """A small number as a pair under the joint key, for sums that only show whether they are zero."""
        point = mixnet.encode_number(self.group, value)
        return mixnet.encrypt_points(self.group, point, key, seed=own, session=self.session, query=query, label="d")

    def _hash_values(self, mask: int) -> bytes:
        head = self.session + self.terms + len(self.snapshot.columns).to_bytes(2, "big") + mask.to_bytes(8, "big")
        return hash_to_group(self.group, (head + value for value in self.snapshot.list_values(mask)), TAG)

    def _blind_values(self, hashed: bytes, size: int | None, query: int, shared: Sequence[bytes], own: bytes) -> bytes:
        count = len(hashed) // POINT if size is None else size
        return chain.blind_batch(self.group, hashed, count, shared=shared, own=own, session=self.session, query=query)
