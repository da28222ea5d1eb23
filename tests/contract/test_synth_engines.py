"""Both engines count the same marginals and the same right answers of classifiers: equal integers, before noise."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from siloquent.data import Engine
from siloquent.data.engines.duckdb import DuckDBEngine
from siloquent.data.engines.spark import SparkEngine
from siloquent.synth.estimate.report.classifiers import train_classifiers
from siloquent.synth.measure.marginals import CoarseDomain, MarginalQuery, count_marginals
from siloquent.synth.measure.quality import ClassifierKernel
from siloquent.synth.measure.run import build_coarse_domains
from unit.data.clinic import on_engine
from unit.synth.people import planned, rows, schema

FRAME = rows(1_500, seed=4)
PLAN = planned(schema())
GROUPS = [np.arange(len(fine.starts)) * 7 // len(fine.starts) for fine in PLAN.fines]
COARSE: list[CoarseDomain] = build_coarse_domains(PLAN.fines, GROUPS)
COLUMNS = tuple(PLAN.compiled.attributes)
AXES = [*((i,) for i in range(len(COARSE))), *combinations(range(len(COARSE)), 2)]


def counted(engine: Engine) -> list[np.ndarray]:
    table, permit = on_engine(schema(), engine)
    return count_marginals(table, permit, columns=COLUMNS, coarse=COARSE, wanted=[MarginalQuery(axes) for axes in AXES])


def right(engine: Engine) -> np.ndarray:
    table, permit = on_engine(schema(), engine)
    random = np.random.default_rng(0)
    sizes = tuple(each.count for each in COARSE)
    output = np.stack([random.integers(0, size, 200) for size in sizes], axis=1)
    kernel = ClassifierKernel(COLUMNS, tuple(COARSE), train_classifiers(output, 0, sizes, seed=0))
    return table.fold(kernel, np.add, list(COLUMNS), permit, encoded=True)


def test_every_row_counts_once_in_every_marginal() -> None:
    found = counted(DuckDBEngine(arrow=FRAME))
    assert {int(counts.sum()) for counts in found} == {FRAME.num_rows}
    for axes, counts in zip(AXES, found, strict=True):
        if len(axes) == 2:
            assert (counts.sum(axis=1) == found[axes[0]]).all()


@pytest.mark.spark
def test_spark_and_duckdb_count_the_same_marginals(spark_session: Any) -> None:
    here, there = counted(DuckDBEngine(arrow=FRAME)), counted(on_spark(spark_session))
    assert all((a == b).all() for a, b in zip(here, there, strict=True))


@pytest.mark.slow
@pytest.mark.spark
def test_spark_and_duckdb_count_the_same_right_answers(spark_session: Any) -> None:
    assert right(DuckDBEngine(arrow=FRAME)).tolist() == right(on_spark(spark_session)).tolist()


def on_spark(session: Any) -> SparkEngine:
    session.createDataFrame(FRAME).createOrReplaceGlobalTempView("synth_people")
    return SparkEngine(session, exp.table_("synth_people", db="global_temp"))
