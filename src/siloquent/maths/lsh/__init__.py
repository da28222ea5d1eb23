"""Locality-sensitive hashing in whole numbers: places in, buckets out, equal on every machine and engine.

    families    PStable Laplacian Angular Hamming Surrogate Jaccard Power Product; ``.probability(..)`` is the kernel
    hashes      draw_hashes(kernel, axes, rows=.., seed=.., width=..) -> Hashes(.buckets(places), .width, ..)
    counting    count_dense(hashes, places, ..), count_sparse(..) -> counters; row_sums(hashes, counters, places)
    surrogate   lifted_records(..), lifted_models(..): the asymmetric pair of Surrogate
    minhash     draw_minhashes(..) -> MinHashes; count_sets(..), set_sums(..)

The seeds are public: hashing hides nothing, noise does. Only ``draw_hashes`` uses random numbers, from a public seed.
"""

from siloquent.maths.lsh.counting import count_dense, count_sparse, row_sums
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
    kernel_from_plain,
    kernel_to_plain,
)
from siloquent.maths.lsh.hashes import Axes, Hashes, draw_hashes
from siloquent.maths.lsh.minhash import MinHashes, count_sets, draw_minhashes, set_sums, token_of_ids
from siloquent.maths.lsh.surrogate import lifted_models, lifted_records, surrogate_axes

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
    "count_dense",
    "count_sets",
    "count_sparse",
    "draw_hashes",
    "draw_minhashes",
    "kernel_from_plain",
    "kernel_to_plain",
    "lifted_models",
    "lifted_records",
    "row_sums",
    "set_sums",
    "surrogate_axes",
    "token_of_ids",
]
