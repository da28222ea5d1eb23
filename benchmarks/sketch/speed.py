"""T1: CPU seconds to build, microseconds to ask; one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.baselines import data as race
from benchmarks.row import Options, Row
from benchmarks.sketch import sets as sketch_sets
from siloquent.maths.blas import limit_to_one_thread
from siloquent.maths.lsh import (
    Axes,
    Jaccard,
    MinHashes,
    PStable,
    compute_row_sums,
    compute_set_sums,
    count_dense,
    count_sets,
    count_sparse,
    draw_hashes,
    draw_minhashes,
    hash_ids,
)


def cpu(run: Callable[[], object], rounds: int = 5) -> float:
    """The median CPU seconds of a run, after one to warm up."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return sorted(found)[rounds // 2]


def rows(options: Options) -> Iterator[Row]:
    """Times of exact counting, without noise (.4 s a million counters) and without reading files."""
    with limit_to_one_thread():
        yield from _skin(options)
        yield from _wide(options)
        yield from _slashdot(options)


def _skin(options: Options) -> Iterator[Row]:
    names = ("T1-skin-dense", "T1-skin-sparse", "T1-ask-p2")
    if not any(options.wants(name) for name in names):
        return
    rows_ = race.table(options.data, "skin")[:, :3].astype(np.int64)
    data, queries = rows_[:243_056], rows_[-2_000:]
    axes = Axes(np.full(3, 256), np.zeros(3), np.ones(3))
    hashes = draw_hashes(PStable(2, 5.0), axes, rows=1_000, seed=1, width=None, projections="iid")
    classes = np.zeros(len(data), dtype=np.int64)
    if options.wants("T1-skin-dense"):
        ours = cpu(lambda: count_dense(hashes, data, classes))
        yield Row("T1-skin-dense", ours=ours, paper=15, goal=0.4, unit="CPU s", how="skin, 243,056 x 3, R 1,000")
    if options.wants("T1-skin-sparse"):
        even = draw_hashes(PStable(2, 5.0), axes, rows=1_024, seed=1, width=None)
        words = np.random.default_rng(1).integers(0, 2**64, len(data), dtype=np.uint64)
        ours = 1e3 * cpu(lambda: count_sparse(even, data, classes, hits=1, words=words), 21)
        yield Row("T1-skin-sparse", ours=ours, goal=3, unit="CPU ms", how="skin, R 1,024, one row a record")
    if options.wants("T1-ask-p2"):
        counters = count_dense(hashes, data, classes)
        ours = 1e6 * cpu(lambda: compute_row_sums(hashes, counters, queries)) / len(queries)
        yield Row("T1-ask-p2", ours=ours, paper=400, goal=5, unit="CPU us a query", how="skin, R 1,000, 2,000 at once")


def _wide(options: Options) -> Iterator[Row]:
    names = ("T1-wide-dense", "T1-wide-sparse")
    if not any(options.wants(name) for name in names):
        return
    data = np.random.default_rng(0).integers(0, 1_001, (580_000, 55))
    axes = Axes(np.full(55, 1_001), np.zeros(55), np.full(55, 0.001))
    classes = np.zeros(len(data), dtype=np.int64)
    if options.wants("T1-wide-dense"):
        hashes = draw_hashes(PStable(2, 1.0), axes, rows=512, seed=1, width=None, projections="iid")
        ours = cpu(lambda: count_dense(hashes, data, classes), 3)
        yield Row("T1-wide-dense", ours=ours, paper=120, goal=2.0, unit="CPU s", how="random, 580,000 x 55, R 512")
    if options.wants("T1-wide-sparse"):
        hashes = draw_hashes(PStable(2, 1.0), axes, rows=1_024, seed=1, width=None, projections="iid")
        words = np.random.default_rng(1).integers(0, 2**64, len(data), dtype=np.uint64)
        ours = 1e3 * cpu(lambda: count_sparse(hashes, data, classes, hits=1, words=words), 3)
        yield Row(
            "T1-wide-sparse", ours=ours, goal=50, unit="CPU ms", how="random, 580,000 x 55, R 1,024, one row each"
        )


def _slashdot(options: Options) -> Iterator[Row]:
    names = ("T1-slashdot-dense", "T1-slashdot-sparse", "T1-ask-jaccard")
    if not any(options.wants(name) for name in names):
        return
    targets, ends = race.slashdot(options.data)
    tokens, classes = hash_ids(targets, key=1), np.zeros(len(ends) - 1, dtype=np.int64)
    hashes = draw_minhashes(Jaccard(), rows=2_000, seed=1, width=4_096)
    if options.wants("T1-slashdot-dense"):
        ours = cpu(lambda: count_sets(hashes, tokens, ends, classes), 3)
        yield Row("T1-slashdot-dense", ours=ours, paper=25, goal=0.7, unit="CPU s", how="82,168 sets, R 2,000, W 4,096")
    if options.wants("T1-slashdot-sparse"):
        even: MinHashes = draw_minhashes(Jaccard(), rows=2_048, seed=1, width=4_096)
        words = np.random.default_rng(1).integers(0, 2**64, len(classes), dtype=np.uint64)
        ours = 1e3 * cpu(lambda: count_sets(even, tokens, ends, classes, hits=1, words=words), 5)
        yield Row("T1-slashdot-sparse", ours=ours, goal=20, unit="CPU ms", how="the same, R 2,048, one row a set")
    if options.wants("T1-ask-jaccard"):
        counters = count_sets(hashes, tokens, ends, classes)
        asked = sketch_sets.chosen_nodes(ends)
        flat = np.concatenate([tokens[ends[i] : ends[i + 1]] for i in asked])
        places = np.concatenate([[0], np.cumsum(np.diff(ends)[asked])]).astype(np.int64)
        ours = 1e6 * cpu(lambda: compute_set_sums(hashes, counters, flat, places)) / len(asked)
        yield Row("T1-ask-jaccard", ours=ours, paper=157, goal=25, unit="CPU us a query", how="R 2,000, 1,000 at once")
