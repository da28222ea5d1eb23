"""A party's computations on its rows for the others: ballots, batches of blinded values, encrypted values and numbers.

Privacy of everything here: input privacy; the session's leakage statement names what each role learns.
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
_CANARY = b"\xff\xff"  # no value has this many columns: synthetic ones never equal a party's


@dataclass(slots=True)
class PartyData:
    """One party's snapshot in one session.

    Args:
        session: The session's id: part of what is hashed, so that nothing can be linked to another session.
        most: The longest left side that is searched.
        terms: The SHA-256 of the accepted terms, included in the hash: values equal only those of parties with the
            same terms, so no party can be made to compare one column with another.
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
        """Return the number of elements of a padded batch: the number of rows, or its size class."""
        return compute_size_class(self.snapshot.rows) if rounded else self.snapshot.rows

    def compute_commitment(self, salt: bytes) -> str:
        """Compute a commitment to the party's rows, for a dispute."""
        return self.snapshot.compute_commitment(salt)

    def holds(self, lhs: int, right: int) -> bool:
        """Return whether a dependency holds on this party's rows."""
        return bool(self._closed[lhs] >> right & 1)

    def has_no_duplicate_rows(self) -> bool:
        """Return whether no two rows are equal."""
        return self.snapshot.count_distinct((1 << len(self.snapshot.columns)) - 1) == self.snapshot.rows

    def encrypt_ballots(self, cast: Sequence[bool], key: bytes, *, seed: bytes, level: int, tied: bytes) -> bytes:
        """Encrypt votes under the workers' joint key, ``tied`` to those of parties with the same terms.

        Privacy:
            Input privacy; the last worker learns one bit per candidate, whether all parties voted yes.
        """
        return votes.cast(self.group, cast, key, seed=seed, session=self.session, level=level, tied=tied)

    def build_batch(self, mask: int, size: int | None, query: int, *, shared: Sequence[bytes], own: bytes) -> bytes:
        """Blind the values of the columns in ``mask``, filled up to ``size`` elements (None: not filled up).

        Privacy:
            Input privacy; the last worker learns how many values each group of parties shares. Without ``size`` all
            workers learn the number of distinct values.
        """
        hashed = self._hash_values(mask)
        return self._blind_values(hashed, size, query, shared, own)

    def build_canary_batch(
        self, plan: SharingPlan, place: int, size: int, query: int, *, key: bytes, shared: Sequence[bytes], own: bytes
    ) -> bytes:
        """Build the synthetic values that ``plan`` requires of party number ``place``: no row is read."""
        messages = [
            self.session + self.terms + _CANARY + derive(key, "canary", self.session, query, group, index)
            for group, count in plan.list_held(place)
            for index in range(count)
        ]
        return self._blind_values(hash_to_group(self.group, messages, TAG), size, query, shared, own)

    def encrypt_values(self, mask: int, key: bytes, query: int, *, own: bytes) -> bytes:
        """Encrypt the values of the columns in ``mask`` as pairs under the workers' joint key, for the mix network.

        Privacy:
            Input privacy; the first worker learns the number of values, the moderator their tags.
        """
        hashed = self._hash_values(mask)
        return mixnet.encrypt_points(self.group, hashed, key, seed=own, session=self.session, query=query, label="m")

    def compute_surplus(self, lhs: int, right: int) -> int:
        """Return e(X) - e(XB) of the thesis: the number of values of ``lhs`` with ``right`` beyond those of ``lhs``."""
        return self.snapshot.count_distinct(lhs | 1 << right) - self.snapshot.count_distinct(lhs)

    def encrypt_number(self, value: int, key: bytes, query: int, *, own: bytes) -> bytes:
        """Encrypt a small number under the joint key, for sums that only reveal whether they are zero."""
        point = mixnet.encode_number(self.group, value)
        return mixnet.encrypt_points(self.group, point, key, seed=own, session=self.session, query=query, label="d")

    def _hash_values(self, mask: int) -> bytes:
        head = self.session + self.terms + len(self.snapshot.columns).to_bytes(2, "big") + mask.to_bytes(8, "big")
        return hash_to_group(self.group, (head + value for value in self.snapshot.list_values(mask)), TAG)

    def _blind_values(self, hashed: bytes, size: int | None, query: int, shared: Sequence[bytes], own: bytes) -> bytes:
        count = len(hashed) // POINT if size is None else size
        return chain.blind_batch(self.group, hashed, count, shared=shared, own=own, session=self.session, query=query)
