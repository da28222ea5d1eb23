"""Tumult Analytics over a cached Spark frame, keys declared."""

import os
import sys

from clock import report
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers take the first python3 on the path
quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
frame = spark.read.parquet(sys.argv[1]).select("education").cache()
keys = [row.education for row in frame.distinct().collect()]
query = QueryBuilder("adult").groupby(KeySet.from_dict({"education": keys})).count()
session = Session.from_dataframe(PureDPBudget(1000), "adult", frame, protected_change=AddOneRow())


def run():
    assert session.evaluate(query, PureDPBudget(0.1)).count() == len(keys)


report(run, rounds=int(sys.argv[2]), own_cpu=False)
