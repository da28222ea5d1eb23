"""An owner's own rows, to learn at home. Nothing of them is a release, and nothing is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from siloquent.data import PrivateTable
    from siloquent.share.encoding import Encoding


def read_own_indices(table: PrivateTable, encoding: Encoding) -> NDArray[np.int64]:
    """The rows that count, as places (rows, features + 1), the label last, those outside anywhere left out.

    Raises:
        DataError: The source failed.
    Privacy:
        None: exact rows, for their owner alone; the caller makes sure of that. What is learnt from them holds them.
    """
    from siloquent.data.contribution_bounding import select_bounded_rows
    from siloquent.data.decode import Decoder

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
