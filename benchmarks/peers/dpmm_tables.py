"""dpmm on a table of cell numbers with its domain handed over: fit, draw as many rows, print the seconds and memory."""

import json
import resource
import sys
import time

import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM
from dpmm.models.priv_bayes import PrivBayesGM
from dpmm.pipelines.base import GenerativePipeline

MODELS = {"aim": AIMGM, "mst": MSTGM, "privbayes": PrivBayesGM}

folder, method, epsilon, delta = sys.argv[1:5]
rows = pd.read_csv(f"{folder}/cells.csv")
with open(f"{folder}/sizes.json") as file:
    domain = json.load(file)
start, clock = time.process_time(), time.perf_counter()
pipeline = GenerativePipeline(gen=MODELS[method](epsilon=float(epsilon), delta=float(delta)))
pipeline.fit(rows, domain=domain, random_state=0)
made = pipeline.generate(n_records=len(rows), random_state=0)
figures = {
    "cpu_seconds": time.process_time() - start,
    "wall_seconds": time.perf_counter() - clock,
    "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}
made.to_csv(f"{folder}/made.csv", index=False)
print(json.dumps(figures))
