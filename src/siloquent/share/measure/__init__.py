"""The room where rows meet noise: count, add noise, let nothing else out; and where an owner's own rows are read."""

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
