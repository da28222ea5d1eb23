"""Locality-sensitive hashing in whole numbers: cells in, buckets out, equal on every machine and engine.

    families    PStable Laplacian Angular Hamming Surrogate Jaccard Power Product; ``.probability(...)`` is the kernel
    hashes      draw_hashes(kernel, axes, rows=..., seed=..., width=...) -> Hashes: .compute_buckets(places), .width
    counting    count_dense(hashes, places, ...), count_sparse(...) -> counters; compute_row_sums(hashes, counters, ...)
    surrogate   lift_records(...), lift_models(...): the asymmetric pair of Surrogate
    minhash     draw_minhashes(...) -> MinHashes; count_sets(...), compute_set_sums(...)

The seeds are public: privacy comes from noise, not from hashing. Only ``draw_hashes`` uses random numbers, from a seed.
"""

from siloquent.maths.lsh.counting import compute_row_sums, count_dense, count_sparse
from siloquent.maths.lsh.families import (
    KINDS,
    Angular,
    Hamming,
    Jaccard,
    Kernel,
    Laplacian,
    Power,
    Product,
    PStable,
    Surrogate,
    dump_kernel,
    parse_kernel,
)
from siloquent.maths.lsh.hashes import Axes, Hashes, TooNarrow, count_uniforms, draw_hashes
from siloquent.maths.lsh.minhash import MinHashes, compute_set_sums, count_sets, draw_minhashes, hash_ids
from siloquent.maths.lsh.surrogate import build_surrogate_axes, lift_models, lift_records

__all__ = [
    "KINDS",
    "Angular",
    "Axes",
    "Hamming",
    "Hashes",
    "Jaccard",
    "Kernel",
    "Laplacian",
    "MinHashes",
    "PStable",
    "Power",
    "Product",
    "Surrogate",
    "TooNarrow",
    "build_surrogate_axes",
    "compute_row_sums",
    "compute_set_sums",
    "count_dense",
    "count_sets",
    "count_sparse",
    "count_uniforms",
    "draw_hashes",
    "draw_minhashes",
    "dump_kernel",
    "hash_ids",
    "lift_models",
    "lift_records",
    "parse_kernel",
]
