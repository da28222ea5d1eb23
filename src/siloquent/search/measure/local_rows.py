"""The owner's exact rows, only for the owner: the input of local scoring. Nothing is written to disk here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from siloquent.search.domains import Feature, JoinKey
from siloquent.search.measure.statistics import compute_key_cells, find_counted_rows
from siloquent.search.records import build_unit_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from siloquent.data import PrivateTable

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ExactRows:
    """Rows in units of -1 to 1: ``numbers`` (rows, columns), the target last; ``cells`` (rows,) of each key."""

    numbers: Floats
    cells: tuple[Integers, ...]


def read_local_rows(table: PrivateTable, features: tuple[Feature, ...], keys: tuple[JoinKey, ...]) -> ExactRows:
    """Read all rows that have every key and feature, for their owner.

    Privacy:
        None: exact rows. They stay in the memory of the owner's process; only the owner may call this.
    """
    names = list(dict.fromkeys([part.name for key in keys for part in key.parts] + [f.name for f in features]))
    numbers, cells = [], []
    for encoded, _ in _read(table, names, shown=[]):
        places = {name: np.asarray(encoded.column(name).to_numpy(), dtype=np.int64) for name in names}
        found = [compute_key_cells(key, places, encoded.num_rows) for key in keys]
        keep = find_counted_rows(features, places, found, encoded.num_rows)
        numbers.append(build_unit_records(features, places, encoded.num_rows)[keep])
        cells.append([cell[keep] for cell in found])
    if not numbers:
        width = sum(len(feature.columns) for feature in features)
        return ExactRows(np.zeros((0, width)), tuple(np.zeros(0, dtype=np.int64) for _ in keys))
    return ExactRows(np.concatenate(numbers), tuple(np.concatenate(parts) for parts in zip(*cells, strict=True)))


def read_local_table(table: PrivateTable, keys: tuple[JoinKey, ...]) -> tuple[pa.Table, tuple[Integers, ...]]:
    """Read all rows with all declared columns, and each row's cell of each key, -1 where it has none.

    Privacy:
        None: exact rows, only for their owner.
    """
    import pyarrow as pa

    names = list(dict.fromkeys(part.name for key in keys for part in key.parts))
    batches, cells = [], []
    for encoded, decoded in _read(table, names, shown=list(table.schema.domain.names)):
        places = {name: np.asarray(encoded.column(name).to_numpy(), dtype=np.int64) for name in names}
        cells.append([compute_key_cells(key, places, encoded.num_rows) for key in keys])
        batches.append(decoded)
    if not batches:
        return pa.table({}), tuple(np.zeros(0, dtype=np.int64) for _ in keys)
    return pa.Table.from_batches(batches), tuple(np.concatenate(parts) for parts in zip(*cells, strict=True))


def _read(
    table: PrivateTable, places: Sequence[str], *, shown: Sequence[str]
) -> list[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Read every row of the source in one pass: the indices of some columns, and the values of others."""
    from siloquent.data.decode import Decoder
    from siloquent.data.units.contribution_bounding import select_bounded_rows
    from siloquent.schema import Unit

    engine, columns, salt = table.open_for_owner()
    by_name = {column.attribute.name: column for column in columns}
    first, second = [by_name[name] for name in places], [by_name[name] for name in shown]
    wanted = list({column.attribute.name: column for column in [*first, *second]}.values())
    # The owner's own model learns from all rows: the bound on rows per user matters only for releases.
    query = select_bounded_rows(columns, Unit(), salt=salt, wanted=wanted)
    encode, decode = Decoder(tuple(first), True), Decoder(tuple(second), False)
    return [(encode(batch), decode(batch)) for batch in engine.read_batches(query)]
