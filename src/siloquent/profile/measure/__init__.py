"""The measure room of profiles: snapshots, discovery inside one party, ballots and batches for the others.

No other module of a profile holds rows. Guarantee: input privacy; ``siloquent.profile.spec.leakage`` states what is
revealed to each role.
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
