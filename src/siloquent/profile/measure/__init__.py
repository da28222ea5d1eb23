"""The only room of a profile where rows are: snapshots, discovery inside one party, ballots and batches for the others.

Guarantee: input privacy; what is revealed to whom stands in ``siloquent.profile.spec.leakage``.
"""

from siloquent.profile.measure.encode import encode_cell, encode_value
from siloquent.profile.measure.local import (
    LocalResult,
    discover_locally,
    read_arrow_snapshot,
    read_owner_rows,
    read_table_snapshot,
    require_readable,
)
from siloquent.profile.measure.party import PartyData
from siloquent.profile.measure.snapshot import Snapshot, decode_snapshot

__all__ = [
    "LocalResult",
    "PartyData",
    "Snapshot",
    "decode_snapshot",
    "discover_locally",
    "encode_cell",
    "encode_value",
    "read_arrow_snapshot",
    "read_owner_rows",
    "read_table_snapshot",
    "require_readable",
]
