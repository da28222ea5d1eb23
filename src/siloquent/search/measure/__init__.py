"""The measure room, where noise is added to sums over rows, and the owner's own exact rows for local scoring."""

from siloquent.search.measure.local_rows import ExactRows, read_local_rows, read_local_table
from siloquent.search.measure.statistics import (
    SumBatch,
    add_plan_noise,
    build_sum_kernel,
    compute_key_cells,
    find_counted_rows,
    measure,
)
from siloquent.search.records import build_unit_records, build_whole_records

__all__ = [
    "ExactRows",
    "SumBatch",
    "add_plan_noise",
    "build_sum_kernel",
    "build_unit_records",
    "build_whole_records",
    "compute_key_cells",
    "find_counted_rows",
    "measure",
    "read_local_rows",
    "read_local_table",
]
