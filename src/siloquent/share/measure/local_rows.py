"""An owner's own rows, for local learning. They are not released, and nothing is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.share.spec.encoding import Encoding


def read_own_indices(table: PrivateTable, encoding: Encoding) -> NDArray[np.int64]:
    """Read the rows that count, as indices (rows, features + 1), the label last; skip rows with a value outside.

    Raises:
        DataError: The source failed.
    Privacy:
        None: exact rows, only for their owner, as the caller ensures. A model learned from them is exact, too.
    """
    from siloquent.data.decode import Decoder
    from siloquent.data.units.contribution_bounding import select_bounded_rows

    engine, columns, salt = table.open_for_owner()
    wanted = [next(c for c in columns if c.attribute.name == name) for name in encoding.names]
    query = select_bounded_rows(columns, table.schema.unit, salt=salt, wanted=wanted)
    decode = Decoder(tuple(wanted), encoded=True)
    batches = [
        np.stack([np.asarray(column.to_numpy(zero_copy_only=False)) for column in decode(batch).columns], axis=1)
        for batch in engine.read_batches(query)
    ]
    places = np.concatenate(batches) if batches else np.zeros((0, len(wanted)), dtype=np.int64)
    return np.asarray(places[encoding.find_inside(places)], dtype=np.int64)
