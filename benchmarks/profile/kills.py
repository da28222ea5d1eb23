"""A hundred SIGKILLs over loopback TLS: relay, parties, workers and moderator die at any point and are started again.

Sums and profiles are held one after the other until so many processes have died; every one must end with its right
result, and no party's vector may be drawn twice.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.profile.federation import free_port
from benchmarks.row import Options, Row
from siloquent.federation.identity import operator
from siloquent.federation.identity.operator import FederationDescription

TESTS = Path(__file__).resolve().parents[2] / "tests"
JOBS = ("sum", "profile")
KILLS, QUICK_KILLS, MAX_SECONDS = 100, 10, 300
ROLES = (
    *((name, "party", f"{name} clinic") for name in ("north", "river", "hill")),
    *((name, "worker", f"host {name}") for name in ("w1", "w2")),
    ("office", "moderator", "registry"),
)


def rows(options: Options) -> Iterator[Row]:
    """Wrong results and ended sessions of each job, and whether all ended in time."""
    for job in JOBS:
        if not any(options.wants(f"kills-{job}-{what}") for what in ("wrong", "ended", "hangs")):
            continue
        told = killed(job, QUICK_KILLS if options.quick else KILLS)
        died = sum(told["kills"].values())
        how = f"{died} kills at {len(told['kills'])} points in {told['sessions']} sessions; vectors drawn twice count"
        yield Row(
            f"kills-{job}-wrong", ours=len(told["wrong"]) + told["measured_twice"], goal=0, unit="results", how=how
        )
        yield Row(f"kills-{job}-ended", ours=len(told["aborted"]), goal=0, unit="sessions", how="ended with a code")
        yield Row(f"kills-{job}-hangs", ours=float(not told["in_time"]), goal=0, unit="runs", how="not over in time")


def killed(job: str, kills: int) -> dict[str, Any]:
    """What ``tests/simulation/killed_roles.py`` counted."""
    with tempfile.TemporaryDirectory() as made:
        bundles = Path(made) / "all"
        operator.init(FederationDescription("killed", f"https://127.0.0.1:{free_port()}", ROLES), bundles)  # type: ignore[arg-type]
        done = subprocess.run(
            [sys.executable, "-m", "simulation.killed_roles", str(bundles), str(kills), "8", job],
            cwd=TESTS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=MAX_SECONDS,
            check=True,
        )
    told: dict[str, Any] = json.loads(done.stdout)
    return told
