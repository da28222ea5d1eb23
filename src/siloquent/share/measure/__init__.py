"""The room where rows meet noise: count, add noise, let nothing else out; and where an owner's own rows are read."""

from siloquent.share.measure.counting import CountRows, exact_counts, measure_counts, noisy_counts, shared_counts
from siloquent.share.measure.own import own_places
from siloquent.share.measure.tree import measure_tree

__all__ = [
    "CountRows",
    "exact_counts",
    "measure_counts",
    "measure_tree",
    "noisy_counts",
    "own_places",
    "shared_counts",
]
