"""Whole sessions in one process under seeded faults: real roles, envelopes, journals and relay logic, no sockets.

Roles run one at a time and hand over at every call to the relay or journal; who goes on, and how long anything takes,
hangs on the seed alone, and time is virtual. A run is a seed and a list of faults, each a number of a call and a kind;
``shrunk`` drops faults from a failing run until no more can go.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, Member, Members
from siloquent.federation.identity.roster import Roster
from siloquent.federation.identity.roster import RosterEntry as RosterRole
from siloquent.federation.identity.seal import Keys
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import SessionRecord
from siloquent.federation.messages.message import Envelope, Header
from siloquent.federation.peer import Peer
from siloquent.federation.policy import Policy, Rule
from siloquent.federation.protocols import ProtocolRegistry
from siloquent.federation.relay.store import RelayStore, StoredEnvelope
from siloquent.federation.role import RoleRunner, begin, moderate_session
from siloquent.federation.sums import (
    PROTOCOL,
    SERVICE,
    SumResult,
    SumSpec,
    build_worker_part,
    contribute_vector,
    gather_sum,
)
from simulation.parts import At, SimJournal, SimTransport, VirtualClock

MEMBERS = Members(
    (
        Member("north", "party", "North"),
        Member("river", "party", "River"),
        Member("hill", "party", "Hill"),
        Member("w1", "worker", "University"),
        Member("w2", "worker", "Institute"),
        Member("office", "moderator", "Registry"),
    )
)
NAMES = tuple(member.name for member in MEMBERS)
LASTS_S = 3_000
CALLS = 260  # about as many calls as a run without faults makes
NEEDLE = 0x0D2C_3B4A_5968_7786  # a value that must never be seen in the relay
FAULTS = (
    "drop request", "drop response", "duplicate", "delay", "pause", "kill", "kill after", "kill for long",
    "lose state", "disk full", "clock jump", "flip byte", "swap", "replay", "second process", "relay away",
)  # fmt: skip


class Killed(BaseException):
    """The role's process ended here."""


@dataclass(frozen=True, slots=True)
class Run:
    """What happens: everything hangs on it."""

    seed: int
    faults: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, seed: int, most: int = 6, calls: int = CALLS) -> Run:
        """The run of a seed: up to ``most`` faults at random ones of the first ``calls`` calls."""
        choose = np.random.default_rng(seed)
        count = int(choose.integers(0, most + 1))
        faults = [(int(choose.integers(0, calls)), FAULTS[choose.integers(len(FAULTS))]) for _ in range(count)]
        return cls(seed, tuple(sorted(faults)))


@dataclass(slots=True)
class Outcome:
    """How a run ended: the moderator's result or code, each role's last state, and what must never be."""

    total: Any = None
    code: str = ""
    states: dict[str, str] = field(default_factory=dict)
    sums: dict[tuple[str, bytes], SumResult] = field(default_factory=dict)
    measured: dict[tuple[str, bytes], int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    calls: int = 0
    impossible: list[str] = field(default_factory=list)


class Simulation:
    """One run from its first call to its last."""

    def __init__(self, run: Run, spec: SumSpec | None = None) -> None:
        self.run, self.time, self.outcome = run, 1_000_000.0, Outcome()
        self.spec = spec or SumSpec("run", 4, 2**60, parties=3, min_parties=2)
        self._choose = np.random.default_rng([run.seed, 1])
        self._left = list(run.faults)
        self.keys = {name: _keys(self._choose) for name in NAMES}
        roles = [
            RosterRole(m.name, m.kind, m.owner, self.keys[m.name].sign_key, self.keys[m.name].seal_key) for m in MEMBERS
        ]
        self.roster = Roster("simulated", "https://127.0.0.1:1", 1, "0" * 64, tuple(roles))
        self.store = RelayStore(":memory:", clock=lambda: self.time)
        self.wires: list[bytes] = []
        self._journals: dict[str, SimJournal] = {}
        self._clocks: dict[str, VirtualClock] = {}
        self._ready: dict[str, float] = {}  # thread of a role -> when it goes on
        self._gates: dict[str, threading.Semaphore] = {}
        self._main = threading.Semaphore(0)
        self._restarts: list[tuple[float, str]] = []
        self._away_until = 0.0
        self._threads: list[threading.Thread] = []
        self._started = 0
        for name in NAMES:
            self._fresh(name)
        self.vectors = {name: self._vector() for name in MEMBERS.parties}

    # The world.

    def play(self) -> Outcome:
        """Run until nobody can go on; then look for what must never be."""
        for name in NAMES:
            self._start(name)
        while self._ready or self._restarts:
            self._step()
        for thread in self._threads:
            thread.join(5)
        self._judge()
        for journal in self._journals.values():
            journal.close()
        self.store.close()
        return self.outcome

    def at(self, name: str, *, is_network: bool = False) -> At:
        """Around every call of a role."""
        return At(self, name, is_network)

    def hand_over(self, name: str, seconds: float) -> None:
        """Let others go on; the caller comes back once ``seconds`` of virtual time have passed."""
        me = threading.current_thread().name
        self._ready[me] = self.time + seconds
        self._main.release()
        self._gates[me].acquire()

    def see(self, wire: bytes) -> None:
        """Remember what went to the relay."""
        self.wires.append(wire)

    def next_fault(self, name: str) -> str:
        """The fault of this call, if the run has one."""
        self.outcome.calls += 1
        if self._left and self.outcome.calls > self._left[0][0]:
            return self._left.pop(0)[1]
        return ""

    def before(self, fault: str, name: str, is_network: bool) -> None:
        """What goes wrong before the call takes place."""
        if fault == "relay away":
            self._away_until = self.time + 20
        if is_network and (self.time < self._away_until or fault in ("drop request", "disk full")):
            raise ProtocolError("relay_unreachable")
        if fault == "disk full":
            raise sqlite3.OperationalError("database or disk is full")
        if fault in ("delay", "pause"):
            self.hand_over(name, 600.0 if fault == "pause" else float(self._choose.integers(1, 30)))
        if fault == "clock jump":
            self._clocks[name].jumped += float(self._choose.integers(-7200, 600))
        if fault in ("kill", "kill for long", "lose state"):
            self._kill(name, fault)
        if fault == "second process":
            self._second(name)

    def after(self, fault: str, is_network: bool) -> None:
        """What goes wrong once it has."""
        if fault == "drop response" and is_network:
            raise ProtocolError("relay_unreachable")
        if fault == "kill after":
            self._kill(threading.current_thread().name.split("#")[0], fault)

    def tampered(self, fault: str, name: str, found: StoredEnvelope) -> StoredEnvelope:
        """What a malicious relay hands out instead."""
        wire = bytearray(found.wire)
        if fault == "flip byte":
            place = int(self._choose.integers(2, len(wire)))
            wire[place] ^= 1 << int(self._choose.integers(8))
            return StoredEnvelope(found.seq, bytes(wire))
        others = [seen for seen in self.wires if seen != found.wire]
        if not others:
            return found
        other = others[int(self._choose.integers(len(others)))]
        if fault == "replay":
            return StoredEnvelope(found.seq, other)
        mine, theirs = Envelope.decode(found.wire), Envelope.decode(other)
        return StoredEnvelope(found.seq, replace(mine, sealed=theirs.sealed).encode())

    # Roles.

    def _start(self, name: str, journal: SimJournal | None = None) -> None:
        self._started += 1
        label = f"{name}#{self._started}"
        self._gates[label], self._ready[label] = threading.Semaphore(0), self.time
        thread = threading.Thread(target=self._live, args=(label, name, journal or self._journals[name]), name=label)
        thread.daemon = True
        self._threads.append(thread)
        thread.start()

    def _live(self, label: str, name: str, journal: SimJournal) -> None:
        self._gates[label].acquire()
        try:
            transport, clock = SimTransport(self, name), self._clocks[name]
            peer = Peer(name, self.keys[name], self.roster, journal, transport, clock=clock, polls_itself=True)
            self._be_moderator(peer) if name == "office" else self._be_member(peer)
        except Killed:
            pass
        finally:
            self._ready.pop(label, None)
            self._main.release()

    def _be_member(self, peer: Peer) -> None:
        walks, asked = ProtocolRegistry(), self._asked()
        walks.add("worker", asked.service, self._worker)
        walks.add("party", asked.protocol, self._party)
        rule = Rule(
            asked.task, asked.tables, asked.columns, (asked.protocol,), ("office",), None, "auto", max_sessions=10_000
        )
        role = RoleRunner(peer, walks, policy=Policy((rule,)), open_desk=nullcontext)
        until = self.time + 2 * LASTS_S
        while peer.clock.now() < until:  # by its own clock, as deadlines are: one that went back waits longer
            for known in peer.journal.list_sessions():
                if not known.is_over:
                    role.play(known.id)
            sessions = peer.journal.list_sessions()
            if sessions and all(known.is_over for known in sessions) and not self._moderates():
                return
            with suppress(ProtocolError, sqlite3.OperationalError):  # as the thread that polls does
                peer.poll(5.0)
            peer.clock.sleep(1.0)

    def _party(self, channel: Channel, invitation: Invitation, desk: object) -> None:
        def noisy() -> np.ndarray[Any, np.dtype[np.int64]]:
            return self.vectors[channel.me]

        self.outcome.sums[channel.me, channel.session] = contribute_vector(channel, self.spec, noisy)

    def _asked(self) -> Invitation:
        return Invitation(
            PROTOCOL, "test", SERVICE, body={"sum": self.spec.to_json()}, min_parties=2, session_deadline_s=LASTS_S,
            step_deadline_s=300,
        )  # fmt: skip

    def _worker(self, channel: Channel, invitation: Invitation, desk: object) -> None:
        build_worker_part()(channel, invitation, desk)

    def _moderate(self, channel: Channel, invitation: Invitation, desk: object) -> Any:
        return gather_sum(channel, self.spec, timeout=300.0)

    def _be_moderator(self, peer: Peer) -> None:
        asked = self._asked()
        known = [session.id for session in peer.journal.list_sessions()]
        session = known[0] if known else begin(peer, asked, NAMES)
        try:
            held = moderate_session(peer, asked, NAMES, self._moderate, session=session)
            self.outcome.total = held.result
            self.outcome.sums["office", bytes.fromhex(held.session)] = held.result
        except ProtocolError as failed:
            self.outcome.code = failed.code
        except sqlite3.OperationalError:
            self.outcome.code = "disk full"

    def _moderates(self) -> bool:
        """Whether a moderator lives, or will: it may yet begin a session."""
        lives = any(thread.is_alive() and thread.name.startswith("office#") for thread in self._threads)
        return lives or any(name == "office" for _, name in self._restarts)

    def _kill(self, name: str, fault: str) -> None:
        pause = 600.0 if fault == "kill for long" else float(self._choose.integers(1, 20))
        if fault == "lose state":
            self._fresh(name)
            self.outcome.lost.add(name)
        self._restarts.append((self.time + pause, name))
        raise Killed

    def _second(self, name: str) -> None:
        """Another process with a copy of the bundle and a state of its own."""
        self.outcome.lost.add(name)
        journal = SimJournal(":memory:")
        journal.simulation, journal.name = self, name
        self._start(name, journal)

    def _fresh(self, name: str) -> None:
        journal = SimJournal(":memory:")
        journal.simulation, journal.name = self, name
        self._journals[name] = journal
        self._clocks.setdefault(name, VirtualClock(self, name))

    def _step(self) -> None:
        """Let one role go on, or time pass."""
        for due, name in [one for one in self._restarts if one[0] <= self.time]:
            self._restarts.remove((due, name))
            self._start(name)
        able = sorted(label for label, due in self._ready.items() if due <= self.time)
        if not able:
            self.time = min([*self._ready.values(), *(due for due, _ in self._restarts)])
            return
        label = able[int(self._choose.integers(len(able)))]
        self._ready.pop(label)
        self._gates[label].release()
        self._main.acquire()

    def _vector(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        vector = self._choose.integers(-(2**40), 2**40, size=self.spec.length)
        vector[0] = NEEDLE
        return vector

    # What must never be.

    def _judge(self) -> None:
        out, wrong = self.outcome, self.outcome.impossible
        out.states = {name: _state(journal.list_sessions()) for name, journal in self._journals.items()}
        self._judge_results(wrong)
        for (name, _), times in out.measured.items():
            if times > 1 and name not in out.lost:
                wrong.append(f"{name} measured {times} times")
        if out.total is None and not out.code:
            wrong.append("the moderator has neither a sum nor a code")
        open_roles = {
            name for name, state in out.states.items() if state not in ("ended", "aborted", "none", "expired")
        }
        wrong += [f"{name} is left {out.states[name]}" for name in sorted(open_roles)]
        needle = NEEDLE.to_bytes(8, "little")
        wrong += ["a plain value lies at the relay"] * any(needle in wire for wire in self.wires)
        wrong += _reused(self.wires, out.lost)
        if not self.run.faults and out.total is None:
            wrong.append("a run without faults gave no sum")

    def _judge_results(self, wrong: list[str]) -> None:
        out = self.outcome
        wrong += [
            f"a wrong sum over {one.parties}"
            for one in out.sums.values()
            if one.total.tolist() != sum(self.vectors[name] for name in one.parties).tolist()
        ]
        for session in {session for _, session in out.sums}:
            ends = {(one.parties, tuple(one.total.tolist())) for (_, of), one in out.sums.items() if of == session}
            if len(ends) > 1:
                wrong.append("two roles ended with different results")


def failing(run: Run, play: Callable[[Run], Outcome] | None = None) -> list[str]:
    """What must never be and was, in this run."""
    return (play or (lambda one: Simulation(one).play()))(run).impossible


def shrunk(run: Run, play: Callable[[Run], Outcome] | None = None) -> Run:
    """A failing run with as few faults as still fail."""
    for place in range(len(run.faults)):
        fewer = replace(run, faults=run.faults[:place] + run.faults[place + 1 :])
        if failing(fewer, play):
            return shrunk(fewer, play)
    return run


def _reused(wires: list[bytes], lost: set[str]) -> list[str]:
    """Nonces under which two different payloads were sealed for one receiver: never, whoever died."""
    seen: dict[tuple[str, str, bytes], bytes] = {}
    found = []
    for wire in wires:
        envelope = Envelope.decode(wire)
        header = Header.decode(envelope.header)
        place = (header.sender, header.receiver, envelope.sealed[:24])
        if seen.setdefault(place, envelope.sealed) != envelope.sealed:
            found.append(f"a nonce was used twice from {header.sender} to {header.receiver}")
    return found


def _state(sessions: list[SessionRecord]) -> str:
    return sessions[-1].state if sessions else "none"


def _keys(choose: np.random.Generator) -> Keys:
    return Keys(choose.bytes(32), choose.bytes(32))
