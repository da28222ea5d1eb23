"""What one report costs other packages' clients, each in an environment of its own, beside ours in plain Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.collect.speed import cpu
from benchmarks.explore.peers import Peer, figures
from benchmarks.row import Options, Row
from siloquent.collect.measure.device import RandomWords, _build_hash_draw
from siloquent.maths.local.frequency_oracles import choose_size, compute_ideal_truth

PEERS = (
    # xxhash 4 takes no text, which this package gives it.
    Peer("pure-ldp", "ldp_pure.py", ("pure-ldp==1.2.0", "scikit-learn", "statsmodels", "xxhash==3.5.0"), 1),
    Peer("multi-freq-ldpy", "ldp_multi_freq.py", ("multi-freq-ldpy==0.2.5", "xxhash==3.5.0"), 1),
)
REPORTS = 50_000


def rows(options: Options) -> Iterator[Row]:
    """CPU microseconds of one report of optimised local hashing, k = 125, eps 2; ours from the system's entropy."""
    wanted = [peer for peer in PEERS if options.wants(f"peer-{peer.name}")]
    if options.quick or not wanted:
        return
    size = choose_size("hash", 125, 2.0)
    draw = _build_hash_draw(125, size, int(compute_ideal_truth("hash", 125, size, 2.0) * 2**64))

    def run() -> None:
        for value in range(REPORTS):
            draw(value % 125, RandomWords(os.urandom))  # allowed: what a device does

    for peer in wanted:
        ours = 1e6 * cpu(run) / REPORTS
        found = figures(peer, Path("no-file"))
        if isinstance(found, str):
            yield Row(f"peer-{peer.name}", ours=ours, unit="CPU us", how=f"no figure of the peer: {found}")
            continue
        theirs = 1e3 * found["cpu_ms"] / found["reports"]
        yield Row(f"peer-{peer.name}", ours=ours, peer=theirs, unit="CPU us",
                  how="one OLH report, plain Python; the peer draws from a generator that is not secure")  # fmt: skip
