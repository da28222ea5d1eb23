"""The only room of a profile where rows are: snapshots, discovery inside one party, ballots and batches for the others.

Guarantee: input privacy; what is revealed to whom stands in ``siloquent.profile.spec.leakage``.
"""

from siloquent.profile.measure.encode import encode_cell, encoded_value
from siloquent.profile.measure.local import (
    LocalResult,
    local,
    own_rows,
    require_readable,
    snapshot_of_arrow,
    snapshot_of_table,
)
from siloquent.profile.measure.party import PartyData
from siloquent.profile.measure.snapshot import Snapshot, snapshot_from_bytes

__all__ = [
    "LocalResult",
    "PartyData",
    "Snapshot",
    "encode_cell",
    "encoded_value",
    "local",
    "own_rows",
    "require_readable",
    "snapshot_from_bytes",
    "snapshot_of_arrow",
    "snapshot_of_table",
]
