"""One SQL text, two engines, the same whole numbers; and the compiled counts are these numbers too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from siloquent.collect import ReportStore, perturb_all
from siloquent.collect.measure.sql import (
    all_nodes,
    decomposed,
    joint_query,
    run_duckdb,
    spark_text,
    supports_query,
    value_of,
)
from siloquent.errors import RequestError
from siloquent.maths.decomposition import canonical, crossed, everything
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


QUERY = supports_query(SHOP, 1, all_nodes(SHOP, 1))
FEW = ({0: [0, 1], 2: [3]}, {1: [0, 2], 3: [1, 4]})
JOINT = joint_query(SHOP, (0, 1), FEW, relations=("first", "second"))
RANGES = [(5, 17), None]


def test_duckdb_counts_what_the_compiled_code_counts(store: ReportStore) -> None:
    assert {layer.kind for layer in SHOP.channels[1].layers} >= {"subset"}
    with store.one_thread(1) as connection:
        assert {tuple(map(int, row)) for row in run_duckdb(connection, QUERY)} == counted(store)


def test_pairs_are_counted_as_the_compiled_code_counts_them(store: ReportStore) -> None:
    wanted = {
        (l1, l2, i, j, int(counts[i, j]))
        for ((l1, l2), _), counts in store.tally((0, 1)).supports.items()
        for i in FEW[0].get(l1, [])
        for j in FEW[1].get(l2, [])
        if counts[i, j]
    }
    with store.one_thread() as connection:
        for name, at in (("first", 0), ("second", 1)):
            connection.register(name, store.arrow(at))
        assert {tuple(map(int, row)) for row in run_duckdb(connection, JOINT)} == wanted
    assert len(wanted) > 3


def test_hashes_are_counted_in_sql_too() -> None:
    made = collection(FINE)
    from siloquent.collect import one_row_each

    random = np.random.default_rng(2)
    with ReportStore(made) as kept:
        places = np.column_stack([random.integers(0, 625, 2_000), random.integers(0, 25, 2_000)])
        kept.add(perturb_all(made, [one_row_each(places)]))
        at = next(i for i, layer in enumerate(made.channels[0].layers) if layer.kind == "hash")
        nodes = [0, 1, 17, made.channels[0].layers[at].nodes - 1]
        with kept.one_thread() as connection:
            found = {tuple(map(int, row)) for row in run_duckdb(connection, supports_query(made, 0, {at: nodes}))}
        counts = kept.tally((0,)).supports[(at,), ()]
        assert found == {(at, node, int(counts[node])) for node in nodes}


def test_a_range_by_its_nodes_is_one_scan_and_near_the_truth() -> None:
    made = collection(PROFILE, epsilon="2", min_reports=2)
    with ReportStore(made) as kept:
        profiles, _ = shoppers(20_000, seed=4)
        kept.add(perturb_all(made, [profiles]))
        trees = made.channels[0].trees
        parts = [canonical(trees[0], 5, 17), everything(trees[1])]
        nodes = {
            at: int((crossed(parts, layer.levels) != 0).sum())
            for at, layer in enumerate(made.channels[0].layers)
            if crossed(parts, layer.levels) is not None
        }
        with kept.one_thread() as connection:
            rows = run_duckdb(connection, decomposed(made, 0, RANGES))
    value = value_of(made, 0, rows, nodes)  # type: ignore[arg-type]
    truth = ((profiles.places[:, 0] >= 5) & (profiles.places[:, 0] <= 17)).sum()
    assert abs(value - truth) < 0.3 * len(profiles.places)


def test_nodes_on_layers_that_were_not_planned_are_refused() -> None:
    with pytest.raises(RequestError, match="at most 20,000 nodes"):
        supports_query(collection(FINE), 0, {0: range(30_000)})


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_same_numbers_from_the_same_text(store: ReportStore, spark_session: Any) -> None:
    for name, at in (("first", 0), ("second", 1), ("reports", 1)):
        spark_session.createDataFrame(store.arrow(at)).createOrReplaceTempView(name)
    found = {tuple(map(int, row)) for row in spark_session.sql(spark_text(QUERY)).collect()}
    assert found == counted(store)
    with store.one_thread(1) as connection:
        for name, at in (("first", 0), ("second", 1)):
            connection.register(name, store.arrow(at))
        joint = {tuple(map(int, row)) for row in run_duckdb(connection, JOINT)}
        scan = {tuple(map(int, row)) for row in run_duckdb(connection, decomposed(SHOP, 1, [(2, 9), (0, 0)]))}
    assert {tuple(map(int, row)) for row in spark_session.sql(spark_text(JOINT)).collect()} == joint
    again = spark_session.sql(spark_text(decomposed(SHOP, 1, [(2, 9), (0, 0)]))).collect()
    assert {tuple(map(int, row)) for row in again} == scan
