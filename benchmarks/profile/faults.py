"""Fault runs: what must never happen is counted.

``faults``: roles die at random calls, some without their state. ``simulated``: whole sessions over real envelopes,
journals and relay logic on virtual time, with up to 6 of 16 kinds of faults each (``tests/simulation``).
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.row import Options, Row
from benchmarks.trials.failing_roles import Dying, Killed, Part, mortal
from benchmarks.trials.toy_group import ToyGroup
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.maths.dependencies import FD, discover
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec, build_dependencies
from siloquent.profile.task import Terms
from siloquent.testing.profile import build_parts, build_roster, open_in_memory

RUNS, QUICK_RUNS = 1_000, 30
NAMES = ("a", "b", "c")
PROTOCOLS = ("padded", "fast", "smfd")


def rows(options: Options) -> Iterator[Row]:
    """For each protocol: runs that ended with a wrong result, runs that failed without a named cause."""
    for protocol in PROTOCOLS:
        if not any(options.wants(f"faults-{protocol}-{what}") for what in ("wrong", "unnamed", "aborted")):
            continue
        runs = QUICK_RUNS if options.quick else RUNS
        ended = [outcome(protocol, seed) for seed in range(runs)]
        how = f"{runs} seeded runs; 3 parties, 2 workers, deaths of up to 6 roles, 1 in 10 loses its state"
        yield Row(f"faults-{protocol}-wrong", ours=ended.count("wrong"), goal=0, unit="runs", how=how)
        yield Row(f"faults-{protocol}-unnamed", ours=ended.count("unnamed"), goal=0, unit="runs")
        yield Row(f"faults-{protocol}-aborted", ours=ended.count("aborted"), unit="runs", how="with a code, no result")

    yield from _simulated(options)


def _simulated(options: Options) -> Iterator[Row]:
    """For each protocol: runs that end in what must never be, runs that end right, runs that end with a named cause."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    profiles, simulator = (importlib.import_module(f"simulation.{name}") for name in ("profiles", "simulator"))
    logging.getLogger("siloquent.federation").setLevel(logging.CRITICAL)
    runs = QUICK_RUNS if options.quick else RUNS
    for protocol in PROTOCOLS:
        first = f"simulated-{protocol}"
        if not any(options.wants(f"{first}-{what}") for what in ("impossible", "right", "named")):
            continue
        ends: Counter[str] = Counter()
        for seed in range(runs):
            ended = profiles.ProfileSimulation(simulator.Run.of(seed, calls=profiles.CALLS), protocol).play()
            ends["impossible" if ended.impossible else "named" if ended.total is None else "right"] += 1
        how = f"{runs} seeded runs of a whole session: wrong results, nonces used twice, roles that wait unnamed, leaks"
        yield Row(f"{first}-impossible", ours=ends["impossible"], goal=0, unit="runs", how=how)
        yield Row(f"{first}-right", ours=ends["right"], better="higher", unit="runs", how="ended with the right result")
        yield Row(f"{first}-named", ours=ends["named"], unit="runs", how="ended with a code that names the cause")


def outcome(protocol: str, seed: int) -> str:
    """How one run ended: right, wrong, aborted (with a code), unnamed."""
    rng = np.random.default_rng([seed, *protocol.encode()])
    parts = [rng.integers(0, 3, (int(rng.integers(3, 7)), len(NAMES))) for _ in range(3)]
    network = MemoryNetwork(build_roster(3, 2))
    living = _roles(network, parts, protocol)
    roles = dict(living)
    for name in list(roles):
        if rng.random() < 0.8:
            deaths = [(int(rng.integers(1, 30)), bool(rng.integers(2))) for _ in range(int(rng.integers(1, 4)))]
            roles[name] = mortal(network, name, roles[name], deaths)
    if rng.random() < 0.1:
        name = str(rng.choice(list(roles)))
        roles[name] = _forgetful(network, name, living[name], int(rng.integers(1, 30)))
    try:
        report = run_all(network, roles)[network.members.moderator]
    except ProtocolError as ended:
        return "aborted" if ended.code != "protocol_failed" else "unnamed"
    assert isinstance(report, FDReport)
    return "right" if _is_right(report, parts) else "wrong"


def _roles(network: MemoryNetwork, parts: list[NDArray[np.int64]], protocol: str) -> dict[str, Part]:
    tables = [pa.table({name: [str(v) for v in part[:, j]] for j, name in enumerate(NAMES)}) for part in parts]
    opened = [open_in_memory(table, name) for table, name in zip(tables, network.members.parties, strict=True)]
    spec = ProfileSpec("t", NAMES, protocol=protocol, min_rows=2)  # type: ignore[arg-type]
    terms = Terms(spec, tuple(ProfileColumn(name, "text") for name in NAMES))
    return dict(build_parts(network.members, terms, opened, group=ToyGroup()))


def _forgetful(network: MemoryNetwork, name: str, part: Part, at: int) -> Part:
    """A role that dies at its ``at``-th call and comes back without its state folder."""

    def lives(channel: Channel) -> Any:
        try:
            return part(Dying(network.open_channel(name), at, after=True))
        except Killed:
            for key in ("own", "elgamal", "salt", "passes", *(f"with-{member.name}" for member in network.members)):
                network.open_channel(name).state.erase(key)
        return part(network.open_channel(name))

    return lives


def _is_right(report: FDReport, parts: list[NDArray[np.int64]]) -> bool:
    """Whether both lists are those of the rows in the open."""
    union = discover(np.concatenate(parts))
    inside = [set(_all_of(part)) for part in parts]
    everywhere = [fd for fd in inside[0] if all(fd in others for others in inside)]
    minimal = [fd for fd in everywhere if not any(_below(other, fd) for other in everywhere)]
    return report.ufd == build_dependencies(union, NAMES) and report.cfd == build_dependencies(minimal, NAMES)


def _all_of(part: NDArray[np.int64]) -> Iterator[FD]:
    """Every dependency of a table, minimal or not."""
    known = discover(part)
    for lhs in range(1, 2 ** len(NAMES)):
        for right in range(len(NAMES)):
            if not lhs >> right & 1 and any(given == right and inner & ~lhs == 0 for inner, given in known):
                yield lhs, right


def _below(other: FD, fd: FD) -> bool:
    return other != fd and other[1] == fd[1] and other[0] & ~fd[0] == 0
