"""SmartNoise SQL: a differentially private GROUP BY over a pandas frame."""

import sys

import pandas as pd
import snsql
from clock import report

frame = pd.read_parquet(sys.argv[1], columns=["education"])
table = {"row_privacy": True, "rows": 32561, "education": {"type": "string"}}
reader = snsql.from_df(frame, privacy=snsql.Privacy(epsilon=0.1, delta=1e-6), metadata={"": {"data": {"adult": table}}})
QUESTION = "SELECT education, COUNT(*) AS n FROM data.adult GROUP BY education"


def run():
    found = reader.execute(QUESTION)
    assert len(found) > 10


report(run, rounds=int(sys.argv[2]))
