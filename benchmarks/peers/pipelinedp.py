"""PipelineDP on its local backend, public partitions."""

import sys
from pathlib import Path

import pipeline_dp
from clock import report

values = Path(sys.argv[1]).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
rows = list(enumerate(values))
keys = sorted(set(values))
extract = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda row: 1
)
params = pipeline_dp.AggregateParams(
    noise_kind=pipeline_dp.NoiseKind.LAPLACE,
    metrics=[pipeline_dp.Metrics.COUNT],
    max_partitions_contributed=1,
    max_contributions_per_partition=1,
)


def run():
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=0.1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    result = engine.aggregate(rows, params, extract, public_partitions=keys)
    accountant.compute_budgets()
    assert len(list(result)) == len(keys)


report(run, rounds=int(sys.argv[2]))
