"""Real roles over loopback TLS that are killed by SIGKILL at named points, and started again, until enough have died.

``python -m simulation.killed_roles FOLDER KILLS SEED JOB`` holds sums or profiles over the bundles in FOLDER, one after
the other. Each process is forked from here, so that a start costs milliseconds; it dies at the n-th time it comes to a
point: before or after it writes its journal, after the relay has its message, before it acknowledges.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cryptography.hazmat.primitives.ciphers
import httpx
import nacl.public
import numpy as np
import pyarrow as pa
import rbcl
import uvicorn

from siloquent.errors import ProtocolError
from siloquent.federation import peer, transport
from siloquent.federation.channel import Channel
from siloquent.federation.identity.bundle import Bundle, read_bundle
from siloquent.federation.messages import journal
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.policy import Policy, Rule
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.relay import server
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.role import SessionResult, moderate_session
from siloquent.federation.role_process import _run_heartbeat, open_peer, run_polling, serve
from siloquent.federation.sums import PROTOCOL, SERVICE, SumSpec, build_worker_part, contribute_vector, gather_sum
from siloquent.maths.dependencies import discover
from siloquent.profile import federated
from siloquent.profile.spec import ProfileColumn, ProfileSpec, build_dependencies
from siloquent.profile.task import Terms, respond
from siloquent.testing.profile import open_in_memory

LOADED = (cryptography, httpx, nacl, rbcl, uvicorn)
LENGTH = 64
PARTIES = ("north", "river", "hill")
WORKERS = ("w1", "w2")
SPEC = SumSpec("killed", LENGTH, 2**40, parties=3, min_parties=3)
ASKED = Invitation(PROTOCOL, "test", SERVICE, body={"sum": SPEC.to_json()}, min_parties=3, session_deadline_s=600)
NAMES = ("a", "b", "c")
ROWS = np.random.default_rng(11).integers(0, 3, (3, 8, len(NAMES)))
ROWS[:, :, 2] = ROWS[:, :, 0] // 2  # a -> c holds everywhere, and more inside some parties
TERMS = Terms(ProfileSpec("t", NAMES, min_rows=2), tuple(ProfileColumn(name, "text") for name in NAMES))
POINTS: dict[str, tuple[Any, str, str]] = {
    "before journal": (journal.RoleJournal, "queue", "before"),
    "after journal": (journal.RoleJournal, "queue", "after"),
    "before put": (transport.HttpTransport, "put", "before"),
    "after put": (transport.HttpTransport, "put", "after"),
    "before take": (journal.RoleJournal, "take", "before"),
    "after take": (journal.RoleJournal, "take", "after"),
    "before ack": (transport.HttpTransport, "acknowledge", "before"),
    "after state": (journal.RoleJournal, "put", "after"),
}
ROLE_POINTS = sorted(POINTS)


def vector(name: str, session: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """This party's vector in this session: another one each time, known to whoever checks."""
    generator = np.random.default_rng([PARTIES.index(name), *session[:8]])
    return generator.integers(-(2**40), 2**40, size=LENGTH)


def die_at(point: str, times: int) -> None:
    """Let this process kill itself the ``times``-th time that it comes to ``point``."""
    owner, method, side = POINTS[point]
    plain: Callable[..., Any] = getattr(owner, method)
    left = [times]

    def dying(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if side == "before" and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*arguments, **options)
        if side == "after" and left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, dying)


@dataclass(frozen=True, slots=True)
class Job:
    """What the killed roles are at: parts by protocol, and how a result is checked."""

    asked: Invitation
    party: Callable[[Channel, Invitation, Path], Any]
    worker: Callable[[Channel, Invitation, Any], Any]
    moderator: Callable[[Channel, Invitation, Any], Any]
    is_right: Callable[[SessionResult], bool]
    most_calls: int  # a role dies at one of so many first calls of its point

    @property
    def policy(self) -> Policy:
        """Parties say yes to this alone."""
        asked = self.asked
        rule = Rule(
            asked.task, asked.tables, asked.columns, (asked.protocol,), ("office",), None, "auto", max_sessions=10_000
        )
        return Policy((rule,))


def rows_of_party(channel: Channel, invitation: Invitation, measured: Path) -> None:
    place = PARTIES.index(channel.me)
    table = pa.table({name: [str(value) for value in ROWS[place, :, j]] for j, name in enumerate(NAMES)})
    respond(channel, open_in_memory(table, channel.me))


def is_right_sum(held: SessionResult) -> bool:
    wanted = sum(vector(name, bytes.fromhex(held.session)) for name in held.result.parties)
    return held.result.total.tolist() == wanted.tolist() and len(held.result.parties) == len(PARTIES)


def is_right_profile(held: SessionResult) -> bool:
    return bool(held.result.ufd == build_dependencies(discover(np.concatenate(ROWS)), NAMES))


def part_of_party(channel: Channel, invitation: Invitation, measured: Path) -> None:
    def noisy() -> np.ndarray[Any, np.dtype[np.int64]]:
        with measured.open("a") as out:
            out.write(channel.session.hex() + "\n")
        return vector(channel.me, channel.session)

    contribute_vector(channel, SPEC, noisy)


JOBS = {
    "sum": Job(
        ASKED,
        part_of_party,
        build_worker_part(),
        lambda channel, _, desk: gather_sum(channel, SPEC),
        is_right_sum,
        most_calls=6,
    ),
    "profile": Job(
        federated.build_invitation(TERMS, parties=len(PARTIES), workers=len(WORKERS)),
        rows_of_party,
        federated._work,
        federated.build_moderator_part(TERMS),
        is_right_profile,
        most_calls=40,
    ),
}


def be_member(bundle: Bundle, job: Job) -> None:
    walks = ProtocolRegistry()
    walks.add("worker", job.asked.service, job.worker)
    walks.add("party", job.asked.protocol, job.party)
    measured = bundle.folder.parent / f"measured-{bundle.name}.txt"
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    serve(bundle, walks, stop, open_desk=lambda: contextlib.nullcontext(measured), policy=job.policy)


def be_relay(bundle: Bundle, job: Job) -> None:
    server.run_relay(bundle, rates=RelayRates(rate=10_000, burst=10_000))


def be_moderator(bundle: Bundle, job: Job) -> None:
    """Go on with the open session, or begin one; write the outcome down for whoever checks."""
    with open_peer(bundle) as me, run_polling(me), _run_heartbeat(me, lambda channel: None) as shown:
        known = [session.id for session in me.journal.list_sessions() if not session.is_over]
        try:
            held = moderate_session(
                me,
                job.asked,
                (*PARTIES, *WORKERS),
                job.moderator,
                session=known[0] if known else None,
                started=shown,
            )
        except ProtocolError as failed:
            told = {"session": known[0] if known else "", "code": failed.code, "role": failed.role, "right": False}
        else:
            told = {"session": held.session, "code": "", "role": "", "right": job.is_right(held)}
    with (bundle.folder.parent / "outcomes.txt").open("a") as out:
        out.write(json.dumps(told) + "\n")


BEING = {"relay": be_relay, "moderator": be_moderator, "party": be_member, "worker": be_member}


def start(bundle: Bundle, job: Job, plan: tuple[str, int] | None) -> int:
    """Fork a role that dies as planned; its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if plan is not None:
            die_at(*plan)
        BEING[bundle.kind](bundle, job)
        status = 0
    finally:
        os._exit(status)


def main(folder: Path, kills: int, seed: int, job: Job, deadline_s: float = 240.0) -> dict[str, Any]:
    """Hold sessions until ``kills`` processes have died, and one more in which nobody dies."""
    peer.PAUSES_S = (0.05, 0.1, 0.2, 0.4)
    choose = np.random.default_rng(seed)
    bundles = {name: read_bundle(folder / name) for name in ("relay", *PARTIES, *WORKERS, "office")}
    died: dict[str, int] = {}
    until = time.monotonic() + deadline_s

    def plan(name: str) -> tuple[str, int] | None:
        if sum(died.values()) >= kills:
            return None
        return ROLE_POINTS[choose.integers(len(ROLE_POINTS))], int(choose.integers(1, job.most_calls))

    plans = {name: None if name == "relay" else plan(name) for name in bundles}
    running = {start(bundle, job, plans[name]): name for name, bundle in bundles.items()}
    beaten, relay_kills = time.monotonic(), 0
    try:
        while time.monotonic() < until:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(0.005)
                if time.monotonic() - beaten > 2 and sum(died.values()) < kills:
                    beaten = time.monotonic()  # the relay has no points of its own: it dies at any time
                    relay_kills += 1
                    os.kill(next(pid for pid, name in running.items() if name == "relay"), signal.SIGKILL)
                continue
            name = running.pop(pid)
            was_killed = os.WIFSIGNALED(status)
            if was_killed:
                where = "any time" if name == "relay" else str((plans[name] or ("unplanned",))[0])
                died[where] = died.get(where, 0) + 1
            if name == "office" and not was_killed and sum(died.values()) >= kills:
                break
            plans[name] = None if name == "relay" else plan(name)
            running[start(bundles[name], job, plans[name])] = name
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    outcomes = [json.loads(line) for line in (folder / "outcomes.txt").read_text().splitlines()]
    measured = [line for name in PARTIES for line in _lines(folder / f"measured-{name}.txt", name)]
    return {
        "kills": died,
        "sessions": len(outcomes),
        "wrong": [told for told in outcomes if not told["right"] and not told["code"]],
        "aborted": [told for told in outcomes if told["code"]],
        "measured_twice": len(measured) - len(set(measured)),
        "in_time": time.monotonic() < until,
    }


def _lines(path: Path, name: str) -> list[str]:
    return [f"{name} {line}" for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), JOBS[sys.argv[4]])) + "\n")
