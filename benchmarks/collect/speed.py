"""How fast devices, ingestion and questions are, on one core; and what is exact."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
from sqlglot import exp

from benchmarks.baselines.collect_sql import build_decomposed_query, render_spark, run_duckdb
from benchmarks.collect.data import one_service, ordinal, syn1
from benchmarks.row import Options, Row
from siloquent.collect import (
    Client,
    Device,
    ReportStore,
    build_single_row_users,
    check,
    design,
    encode_batch,
    estimate,
    parse_query,
    perturb_all,
)
from siloquent.collect.estimate import answer
from siloquent.collect.measure.simulate import draw_reports
from siloquent.collect.plan.check import compute_largest_ratio
from siloquent.collect.plan.thresholds import compute_truth_threshold
from siloquent.collect.spec.collection import LayerPlan
from siloquent.maths.blas import limit_to_one_thread
from siloquent.maths.local.frequency_oracles import Kind, choose_size

MILLION = 1_000_000


def rows(options: Options) -> Iterator[Row]:
    """CPU time of one process; DuckDB on one thread."""
    for name, kind, nodes, goal in (("olh", "hash", 625, 1e7), ("grr", "subset", 5, 1e7), ("ss", "subset", 125, 2e6)):
        if options.wants(f"speed-perturb-{name}"):
            yield Row(f"speed-perturb-{name}", ours=_per_second(kind, nodes), goal=goal, better="higher",
                      unit="users/s", how=f"eps 2, {nodes} nodes, words from the system; one core")  # fmt: skip
    if options.wants("speed-client"):
        yield _client()
    if any(options.wants(name) for name in ("speed-ingest", "speed-adhoc", "speed-spark", "speed-tallies")):
        yield from _store(options)
    if options.wants("exact-ratio"):
        yield _exact()


def cpu(run: Callable[[], object], rounds: int = 3) -> float:
    """The median CPU seconds of a run, after one to warm up."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return sorted(found)[rounds // 2]


def layer(kind: Kind, nodes: int, epsilon: Fraction) -> LayerPlan:
    """A layer of so many nodes."""
    size = choose_size(kind, nodes, float(epsilon))
    return LayerPlan((0,), (1,), kind, nodes, size, compute_truth_threshold(kind, nodes, size, epsilon=epsilon))


def _per_second(kind: str, nodes: int) -> float:
    plan = layer(kind, nodes, Fraction(2))  # type: ignore[arg-type]
    held = np.random.default_rng(0).integers(0, nodes, 4 * MILLION)
    return 4 * MILLION / cpu(lambda: draw_reports(plan, held))


def _client() -> Row:
    made = design(one_service([ordinal("a", 125, resolution=25), ordinal("b", 125, resolution=25)], "2"))
    client = Client(json.loads(made.to_json()))
    rows_, key = [{"a": 40, "b": 60}], bytes(32)
    users = [f"user {i}" for i in range(20_000)]

    def run() -> None:
        for user in users:
            client.report("t", rows_, Device(user, key, {}))

    return Row("speed-client", ours=1e6 * cpu(run) / len(users), goal=5, unit="CPU us",
               how="plain Python; token, layer, values to node, draw and 40 bytes; SYN-1 design")  # fmt: skip


def _store(options: Options) -> Iterator[Row]:
    made = design(one_service([ordinal("a0", 125, lo=1, resolution=25), ordinal("a1", 125, lo=1, resolution=25)], "2"))
    users = (1 if options.quick else 4) * MILLION
    (batch,) = perturb_all(
        made, [build_single_row_users(np.vstack([syn1(seed, MILLION) for seed in range(users // MILLION)]))]
    )
    with ReportStore(made) as store:
        first = replace(batch, **{name: getattr(batch, name)[:MILLION] for name in _FIELDS})
        data = encode_batch(made, first)
        start = time.perf_counter()
        store.ingest(data)
        minute = 60 * MILLION / (time.perf_counter() - start)
        if options.wants("speed-ingest"):
            yield Row("speed-ingest", ours=minute, goal=1e6, better="higher", unit="reports a minute",
                      how="10^6 reports of 40 bytes, checked, into DuckDB")  # fmt: skip
        store.add([batch])
        sql = "SELECT COUNT(*) FROM t WHERE a0 BETWEEN 21 AND 45"
        estimate(store, sql)
        if options.wants("speed-tallies"):
            asked, counted = parse_query(sql, made.spec), store.tally((0,))
            with limit_to_one_thread():
                ours = 1e3 * cpu(lambda: [answer(made, asked, counted) for _ in range(50)], 5) / 50
            yield Row("speed-tallies", ours=ours, goal=1, unit="CPU ms", how="COUNT of a range, with standard error")
        if options.wants("speed-adhoc"):
            query = build_decomposed_query(made, 0, [(4, 8), None])
            with store.use_one_thread() as connection:
                ours = 1e3 * cpu(lambda: run_duckdb(connection, query), 7)
            yield Row("speed-adhoc", ours=ours, goal=60, unit="CPU ms",
                      how=f"COUNT of a range by its nodes, {users:,} reports, DuckDB on one thread")  # fmt: skip
        if options.wants("speed-spark") and not options.quick:
            yield _spark(store, build_decomposed_query(made, 0, [(4, 8), None]))


def _spark(store: ReportStore, query: exp.Query) -> Row:
    """The same text on Spark: how many numbers differ, and how long a warm run takes."""
    import tempfile

    import pyarrow.parquet
    from pyspark.sql import SparkSession

    with store.use_one_thread() as connection:
        wanted = {tuple(map(int, row)) for row in run_duckdb(connection, query)}
    with tempfile.TemporaryDirectory() as folder:
        pyarrow.parquet.write_table(store.to_arrow(0), f"{folder}/reports.parquet")
        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            spark.read.parquet(f"{folder}/reports.parquet").createOrReplaceTempView("reports")
            for _ in range(3):
                start = time.perf_counter()
                found = {tuple(map(int, row)) for row in spark.sql(render_spark(query)).collect()}
                warm = time.perf_counter() - start
        finally:
            spark.stop()
    return Row("speed-spark", ours=len(found ^ wanted), goal=0, unit="differences",
               how=f"the ad hoc question, one text, on Spark local on one thread: {warm:.2f} s warm")  # fmt: skip


_FIELDS = ("layers", "tokens", "columns", "public")


def _exact() -> Row:
    worst = 0.0
    for epsilon in ("1/20", "1/2", "1", "2", "5", "8"):
        for nodes in (2, 3, 5, 7, 25, 64, 125, 128, 129, 625, 1024):
            for kind in ("subset", "hash"):
                if kind == "hash" or nodes <= 128:
                    ratio = compute_largest_ratio(layer(kind, nodes, Fraction(epsilon)))
                    worst = max(worst, float(ratio) / np.exp(float(Fraction(epsilon))) - 1)
    made = design(one_service([ordinal("a", 25), ordinal("b", 25)], "2"))
    assert all(one.holds for one in check(made))
    return Row("exact-ratio", ours=max(worst, 0.0), goal=1e-9, unit="above e^eps",
               how="largest likelihood ratio over e^eps, less 1; 2 to 1,024 nodes, eps .05 to 8")  # fmt: skip
