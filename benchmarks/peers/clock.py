"""Medians of warm runs. Stands beside the peers' scripts and needs nothing but Python, whatever their version is."""

import json
import os
import statistics
import time


def report(run, *, rounds, warm=3, own_cpu=True, **facts):
    """Run, measure, print; ``own_cpu`` is false where the work is done in another process, as by Spark's JVM."""
    for _ in range(warm):
        run()
    cpu, wall = [], []
    for _ in range(rounds):
        before, start = os.times(), time.perf_counter()
        run()
        after = os.times()
        wall.append(time.perf_counter() - start)
        cpu.append(after.user + after.system - before.user - before.system)
    figures = {"cpu_ms": 1000 * statistics.fmean(cpu) if own_cpu else None, "wall_ms": 1000 * statistics.median(wall)}
    print(json.dumps({**figures, "rounds": rounds, **facts}))
