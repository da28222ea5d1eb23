"""The same profile with real processes: a relay, three clinics and two hosts, each with keys of its own, over TLS."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from siloquent.demo.profiling_tables import COLUMNS, SILOS
from siloquent.errors import ProtocolError
from siloquent.foreign import load_toml

HOSTS = ("w1", "w2")
READY_S, END_S = 60.0, 20.0

STARTS_BEHIND = ("federation", "init")
"""The step after which the roles start."""


def role_steps(folder: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the steps in place of the session in one process: bundles, roles, a check, the session, its status."""
    bundles = folder / "bundles"
    return (
        (
            "Now the clinics keep their rows to themselves. Every role gets keys of its own. In life each owner makes\n"
            "them at home; all at once is for trials.",
            (*STARTS_BEHIND, str(folder / "clinics.toml"), "-o", str(bundles)),
        ),
        (
            "A relay, three clinics and two hosts now run, each in its own process. Does a clinic reach the relay?",
            ("federation", "check", "--bundle", str(bundles / "north")),
        ),
        (
            "The session: every message is sealed for its receiver, so the relay can open none. Each clinic's policy,\n"
            "federation.toml in its workspace, says yes to just this. No row leaves a clinic, no count is shown.\n"
            "A ward has one specialty in each clinic, and another one elsewhere: a rule of the house, not of all.",
            ("profile", "run", "prices.toml", "--bundle", str(bundles / "office"), "--yes", "-o", "price-rules"),
        ),
        (
            "What the office's journal holds of it.",
            ("federation", "status", "--bundle", str(bundles / "office")),
        ),
    )


def describe(workspace: Path) -> None:
    """Write the federation's description with a free port, and each clinic's policy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    roles = [(name, "party", f"{name.capitalize()} Clinic") for name in SILOS]
    roles += [("w1", "worker", "University"), ("w2", "worker", "Institute"), ("office", "moderator", "Registry")]
    lines = [f'  {{ name = "{name}", kind = "{kind}", owner = "{owner}" }},' for name, kind, owner in roles]
    text = f'name = "clinics"\nrelay = "https://127.0.0.1:{port}"\nrole = [\n' + "\n".join(lines) + "\n]\n"
    (workspace / "clinics.toml").write_text(text, encoding="utf-8")
    for name in SILOS:
        (workspace / "silos" / name / "federation.toml").write_text(_POLICY, encoding="utf-8")


@contextmanager
def running(workspace: Path) -> Iterator[None]:
    """Run relay, clinics and hosts as processes, each with a log in the folder ``roles``, until the block ends.

    Raises:
        ProtocolError: ``relay_unreachable``: The relay did not start.
    """
    (workspace / "roles").mkdir(exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(_role(workspace, "relay", "relay"))
        _await(workspace)
        for name in HOSTS:
            stack.enter_context(_role(workspace, "worker", name))
        for name in SILOS:
            stack.enter_context(_role(workspace, "party", name, "--workspace", f"silos/{name}"))
        yield


@contextmanager
def _role(workspace: Path, kind: str, name: str, *before: str) -> Iterator[None]:
    words = [sys.executable, "-m", "siloquent", *before, kind, "run", "--bundle", f"bundles/{name}"]
    with (workspace / "roles" / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=workspace, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        process.kill()
        process.wait()


def _await(workspace: Path) -> None:
    from urllib.parse import urlsplit

    address = urlsplit(load_toml((workspace / "clinics.toml").read_text(encoding="utf-8"))["relay"])
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        with suppress(OSError):
            socket.create_connection((address.hostname, address.port), 1).close()
            return
        time.sleep(0.1)
    raise ProtocolError("relay_unreachable", where=f"read {workspace / 'roles' / 'relay.log'}")


_POLICY = f"""\
# Sessions that this clinic takes part in without asking a person. All others are refused.
[[allow]]
task = "profile"
tables = ["prices"]
columns = [{", ".join(f'"{name}"' for name in COLUMNS)}]
protocols = ["padded/1"]
max_sets = 300
moderators = ["office"]
approve = "auto"
"""
