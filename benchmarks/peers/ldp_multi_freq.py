"""multi-freq-ldpy: reports of optimised local hashing over 125 values at epsilon 2, 20,000 a run."""

import sys

from clock import report
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client


def run():
    for value in range(20_000):
        LH_Client(value % 125, 125, 2.0, optimal=True)


report(run, rounds=int(sys.argv[2]), warm=1, reports=20_000)
