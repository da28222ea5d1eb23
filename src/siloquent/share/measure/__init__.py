"""The measure room: counts rows, adds noise, releases nothing else; also reads an owner's own rows."""

from siloquent.share.measure.counting import (
    CountRows,
    add_count_noise,
    count_exactly,
    measure_counts,
    measure_shared_counts,
)
from siloquent.share.measure.local_rows import read_own_indices
from siloquent.share.measure.tree import measure_tree

__all__ = [
    "CountRows",
    "add_count_noise",
    "count_exactly",
    "measure_counts",
    "measure_shared_counts",
    "measure_tree",
    "read_own_indices",
]
