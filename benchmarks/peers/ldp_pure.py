"""pure-ldp: reports of optimised local hashing over 125 values at epsilon 2, 50,000 a run."""

import sys

from clock import report
from pure_ldp.frequency_oracles.local_hashing import LHClient

client = LHClient(epsilon=2.0, d=125, use_olh=True)


def run():
    for value in range(50_000):
        client.privatise(value % 125 + 1)


report(run, rounds=int(sys.argv[2]), warm=1, reports=50_000)
