"""Exact sums of squared distances from the centre, for variances, which engines' own sums do not provide."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.data.grouped_counts import GroupedCount
from siloquent.explore.plan.cells.compiled import CompiledWorkload, Integers, SummedAttribute

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.data import PrivateTable
    from siloquent.ledger import Permit
    from siloquent.schema import Attribute, Block

_BITS = 20
_LIMBS = 4
"""The number of limbs: squares of distances below 2^40 are split into 20-bit limbs, whose sums fit 64 bits."""


def sum_square_columns(
    compiled: CompiledWorkload, summed: SummedAttribute, table: PrivateTable, permit: Permit
) -> list[Integers]:
    """Sum (index + offset)^2 of each part's columns in units, each rounded to the nearest, shape (columns,).

    Privacy:
        Exact, hence only for this stage. One row changes a column by at most ``summed.largest`` units.
    """
    blocks = [part.block for part in compiled.parts]
    domain = table.schema.domain
    attribute = summed.computed or domain[summed.attribute]
    computed = {one.name: one for block in blocks for one in block.computed}
    if summed.computed is not None:
        computed[attribute.name] = attribute
    used = [attribute.name, *(name for block in blocks for name in block.attributes)]
    stored = [name for name in used if name not in computed]
    stored += [name for one in computed.values() if one.computed is not None for name in one.computed.inputs]
    kernel = partial(
        _sum_squares, blocks, attribute.name, attribute.steps, summed.offset, computed=tuple(computed.values())
    )
    names = list(dict.fromkeys(domain[name].name for name in stored))
    limbs = table.fold(kernel, np.add, names, permit, encoded=True)
    ends = np.cumsum([block.size for block in blocks])[:-1]
    columns = []
    for part, cells in zip(compiled.parts, np.split(limbs, ends, axis=1), strict=True):
        exact = sum(part.fold(limb.astype(object)) << (_BITS * place) for place, limb in enumerate(cells))
        columns.append(np.asarray((exact + summed.quantum // 2) // summed.quantum, dtype=np.int64))
    return columns


def _sum_squares(
    blocks: list[Block],
    summed: str,
    steps: int,
    offset: int,
    batch: pa.RecordBatch,
    *,
    computed: tuple[Attribute, ...] = (),
) -> NDArray[Any]:
    """Return the limbs' sums of all blocks' cells, concatenated, shape (limbs, cells)."""
    columns = {name: batch.column(name).to_numpy() for name in batch.schema.names}
    columns |= {one.name: one.computed.compute_cells(columns) for one in computed if one.computed is not None}
    places = columns[summed]
    is_value = (places >= 0) & (places < steps)
    distance = np.abs(places.astype(np.int64) + offset)
    low, high = distance & (2**_BITS - 1), distance >> _BITS
    results = []
    for block in blocks:
        scan = GroupedCount(block, ())
        cells, inside = scan.compute_cells([columns[name] for name in block.attributes], batch.num_rows)
        inside &= is_value
        sums = np.zeros((_LIMBS, block.size), dtype=np.int64)
        # (low + 2^20 high)^2, each product split into two limbs.
        for place, product in ((0, low * low), (1, 2 * low * high), (2, high * high)):
            for half, limb in ((place, product & (2**_BITS - 1)), (place + 1, product >> _BITS)):
                np.add.at(sums[half], cells[inside], limb[inside])
        results.append(sums)
    return np.concatenate(results, axis=1)
