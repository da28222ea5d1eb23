"""One SQL text, two engines, the same whole numbers; and the compiled counts are these numbers too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.baselines.collect_sql import (
    build_decomposed_query,
    build_joint_query,
    build_supports_query,
    estimate_decomposed,
    list_all_nodes,
    render_spark,
    run_duckdb,
)
from benchmarks.baselines.decomposition import build_root_weights, cross_weights, decompose_canonical
from siloquent.collect import ReportStore, perturb_all
from siloquent.errors import RequestError
from unit.collect.shops import FINE, ORDERS, PROFILE, collection, shoppers

SHOP = collection(PROFILE, ORDERS, min_reports=2)


@pytest.fixture(scope="module")
def store() -> ReportStore:
    kept = ReportStore(SHOP)
    kept.add(perturb_all(SHOP, shoppers(3_000, seed=1)))
    return kept


def counted(store: ReportStore) -> set[tuple[int, int, int]]:
    """layer, node, support of the second channel, from the compiled counts."""
    return {
        (layers[0], node, int(count))
        for (layers, _), counts in store.tally((1,)).supports.items()
        for node, count in enumerate(counts[:-1])
    }


QUERY = build_supports_query(SHOP, 1, list_all_nodes(SHOP, 1))
FEW = ({0: [0, 1], 2: [3]}, {1: [0, 2], 3: [1, 4]})
JOINT = build_joint_query(SHOP, (0, 1), FEW, relations=("first", "second"))
RANGES = [(5, 17), None]


def test_duckdb_counts_what_the_compiled_code_counts(store: ReportStore) -> None:
    assert {layer.kind for layer in SHOP.channels[1].layers} >= {"subset"}
    with store.use_one_thread(1) as connection:
        assert {tuple(map(int, row)) for row in run_duckdb(connection, QUERY)} == counted(store)


def test_pairs_are_counted_as_the_compiled_code_counts_them(store: ReportStore) -> None:
    wanted = {
        (l1, l2, i, j, int(counts[i, j]))
        for ((l1, l2), _), counts in store.tally((0, 1)).supports.items()
        for i in FEW[0].get(l1, [])
        for j in FEW[1].get(l2, [])
        if counts[i, j]
    }
    with store.use_one_thread() as connection:
        for name, at in (("first", 0), ("second", 1)):
            connection.register(name, store.to_arrow(at))
        assert {tuple(map(int, row)) for row in run_duckdb(connection, JOINT)} == wanted
    assert len(wanted) > 3


def test_hashes_are_counted_in_sql_too() -> None:
    made = collection(FINE)
    from siloquent.collect import build_single_row_users

    random = np.random.default_rng(2)
    with ReportStore(made) as kept:
        places = np.column_stack([random.integers(0, 625, 2_000), random.integers(0, 25, 2_000)])
        kept.add(perturb_all(made, [build_single_row_users(places)]))
        at = next(i for i, layer in enumerate(made.channels[0].layers) if layer.kind == "hash")
        nodes = [0, 1, 17, made.channels[0].layers[at].nodes - 1]
        with kept.use_one_thread() as connection:
            found = {tuple(map(int, row)) for row in run_duckdb(connection, build_supports_query(made, 0, {at: nodes}))}
        counts = kept.tally((0,)).supports[(at,), ()]
        assert found == {(at, node, int(counts[node])) for node in nodes}


def test_a_range_by_its_nodes_is_one_scan_and_near_the_truth() -> None:
    made = collection(PROFILE, epsilon="2", min_reports=2)
    with ReportStore(made) as kept:
        profiles, _ = shoppers(20_000, seed=4)
        kept.add(perturb_all(made, [profiles]))
        trees = made.channels[0].trees
        parts = [decompose_canonical(trees[0], 5, 17), build_root_weights(trees[1])]
        nodes = {
            at: int((cross_weights(parts, layer.levels) != 0).sum())
            for at, layer in enumerate(made.channels[0].layers)
            if cross_weights(parts, layer.levels) is not None
        }
        with kept.use_one_thread() as connection:
            rows = run_duckdb(connection, build_decomposed_query(made, 0, RANGES))
    value = estimate_decomposed(made, 0, rows, nodes)  # type: ignore[arg-type]
    truth = ((profiles.places[:, 0] >= 5) & (profiles.places[:, 0] <= 17)).sum()
    assert abs(value - truth) < 0.3 * len(profiles.places)


def test_nodes_on_layers_that_were_not_planned_are_refused() -> None:
    with pytest.raises(RequestError, match="at most 20,000 nodes"):
        build_supports_query(collection(FINE), 0, {0: range(30_000)})


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_same_numbers_from_the_same_text(store: ReportStore, spark_session: Any) -> None:
    for name, at in (("first", 0), ("second", 1), ("reports", 1)):
        spark_session.createDataFrame(store.to_arrow(at)).createOrReplaceTempView(name)
    found = {tuple(map(int, row)) for row in spark_session.sql(render_spark(QUERY)).collect()}
    assert found == counted(store)
    with store.use_one_thread(1) as connection:
        for name, at in (("first", 0), ("second", 1)):
            connection.register(name, store.to_arrow(at))
        joint = {tuple(map(int, row)) for row in run_duckdb(connection, JOINT)}
        scan = {
            tuple(map(int, row)) for row in run_duckdb(connection, build_decomposed_query(SHOP, 1, [(2, 9), (0, 0)]))
        }
    assert {tuple(map(int, row)) for row in spark_session.sql(render_spark(JOINT)).collect()} == joint
    again = spark_session.sql(render_spark(build_decomposed_query(SHOP, 1, [(2, 9), (0, 0)]))).collect()
    assert {tuple(map(int, row)) for row in again} == scan
