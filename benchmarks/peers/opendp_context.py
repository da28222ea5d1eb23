"""OpenDP's Context over a polars scan, group keys declared or not."""

import sys

import opendp.prelude as dp
import polars as pl
from clock import report

dp.enable_features("contrib")
rows, rounds, keys_known = pl.scan_parquet(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "known"
keys = pl.scan_parquet(sys.argv[1]).select("education").unique().sort("education").collect().lazy()


def context():
    return dp.Context.compositor(
        data=rows,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=0.1, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=100_000), dp.polars.Margin(by=["education"], max_groups=16)],
    )


def run():
    query = context().query().group_by("education").agg(dp.len())
    found = (query.with_keys(keys) if keys_known else query).release().collect()
    assert len(found) > 10


report(run, rounds=rounds)
