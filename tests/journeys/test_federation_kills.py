"""Seven real processes over loopback TLS, killed by SIGKILL: every sum and profile is right, none is drawn twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from siloquent.federation.identity.operator import FederationDescription, init

TESTS = Path(__file__).resolve().parents[1]
KILLS = {"sum": 100, "profile": 30}  # 100 of each: python -m benchmarks profile --only kills
ROLES = (
    ("north", "party", "North"),
    ("river", "party", "River"),
    ("hill", "party", "Hill"),
    ("w1", "worker", "University"),
    ("w2", "worker", "Institute"),
    ("office", "moderator", "Registry"),
)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
@pytest.mark.parametrize("job", KILLS)
def test_kills_cost_no_result_and_no_second_draw(tmp_path: Path, job: str) -> None:
    init(FederationDescription("clinics", f"https://127.0.0.1:{free_port()}", ROLES), tmp_path / "all")
    done = subprocess.run(
        [sys.executable, "-m", "simulation.killed_roles", str(tmp_path / "all"), str(KILLS[job]), "5", job],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["in_time"], told
    assert sum(told["kills"].values()) >= KILLS[job]
    assert job == "profile" or len(told["kills"]) >= 8, "all points are met"
    assert told["sessions"] >= 1
    assert (told["wrong"], told["aborted"], told["measured_twice"]) == ([], [], 0)
