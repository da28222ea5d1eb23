"""Limits that a process sets for itself, also below those of the service that it runs in."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from siloquent.foreign.process_limits import limit_cpu, limit_memory
kinds = {"memory": (resource.RLIMIT_AS, 2**32, limit_memory), "cpu": (resource.RLIMIT_CPU, 900, limit_cpu)}
kind, wanted, limit = kinds[sys.argv[1]]
if sys.argv[2] != "none":
    resource.setrlimit(kind, (int(sys.argv[2]),) * 2)
limit(wanted)
print(resource.getrlimit(kind)[0])
"""


@pytest.mark.parametrize(
    ("kind", "of_the_service", "expected"),
    [
        ("memory", "none", 2**32),
        ("memory", str(2**31), 2**31),
        ("memory", str(2**33), 2**32),
        ("cpu", "none", 900),
        ("cpu", "600", 600),
    ],
)
def test_the_lower_one_of_a_processs_and_its_services_limits_holds(
    kind: str, of_the_service: str, expected: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, of_the_service], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == expected
