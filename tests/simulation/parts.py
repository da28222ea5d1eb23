"""What a simulated role meets: a clock, a journal and a relay that hand over at each call, where faults happen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.federation.messages.journal import RoleJournal
from siloquent.federation.messages.message import Envelope, Header
from siloquent.federation.relay.store import StoredEnvelope
from siloquent.federation.sums import Y

if TYPE_CHECKING:
    from simulation.simulator import Simulation

HOSTILE = ("flip byte", "swap", "replay")


class VirtualClock:
    """One role's clock: the simulation's time, and what it jumped by."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation, self._name = simulation, name
        self.jumped = 0.0

    def now(self) -> float:
        return self._simulation.time + self.jumped

    def sleep(self, seconds: float) -> None:
        self._simulation.hand_over(self._name, seconds)


class SimJournal(RoleJournal):
    """A journal whose role may die right before or after a transaction."""

    simulation: Simulation
    name: str

    def queue(self, envelopes: list[tuple[Header, Envelope]]) -> None:
        with self.simulation.at(self.name):
            super().queue(envelopes)

    def take(self, seq: int, header: Header, envelope: Envelope) -> None:
        with self.simulation.at(self.name):
            super().take(seq, header, envelope)

    def put(self, session: str, key: str, value: bytes) -> None:
        with self.simulation.at(self.name):
            super().put(session, key, value)
            if key == Y:  # a vector that was drawn and never kept has left nothing, and may be drawn again
                place = (self.name, bytes.fromhex(session))
                self.simulation.outcome.measured[place] = self.simulation.outcome.measured.get(place, 0) + 1

    def mark_delivered(self, n: int) -> None:
        with self.simulation.at(self.name):
            super().mark_delivered(n)


class SimTransport:
    """The relay's store, seen through a network that misbehaves as the run says."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._sim, self._name = simulation, name

    def open_session(self, session: str, members: list[str], deadline: int) -> bool:
        with self._sim.at(self._name, is_network=True):
            return self._sim.store.open_session(self._name, session, members, deadline)

    def put(self, key: tuple[str, str, str, int, int], wire: bytes) -> bool:
        self._sim.see(wire)
        with self._sim.at(self._name, is_network=True) as fault:
            is_new = self._sim.store.put(self._name, key, wire)
            if fault == "duplicate":
                self._sim.store.put(self._name, key, wire)
            return is_new

    def fetch_next(self, after: int, wait: float) -> StoredEnvelope | None:
        with self._sim.at(self._name, is_network=True) as fault:
            found = self._sim.store.find_next(self._name, after)
            if found is not None and fault in HOSTILE:
                found = self._sim.tampered(fault, self._name, found)
        if found is None and wait > 0:
            self._sim.hand_over(self._name, min(wait, 5.0))
        return found

    def acknowledge(self, upto: int) -> None:
        with self._sim.at(self._name, is_network=True):
            self._sim.store.acknowledge(self._name, upto)

    def send_heartbeat(self, session: str, state: str, step: str, waiting_for: list[str], since_s: float) -> None:
        self._sim.store.beat(self._name, session, state, step, waiting_for, since_s)

    def look(self, session: str) -> dict[str, Any]:
        return self._sim.store.look(self._name, session)

    def close_session(self, session: str, code: str, transcript: str, step: str = "") -> None:
        with self._sim.at(self._name, is_network=True):
            self._sim.store.finish(self._name, session, code, transcript, step)


class At:
    """One call of one role: hand over first, then let the run's fault for this call happen."""

    def __init__(self, simulation: Simulation, name: str, is_network: bool) -> None:
        self._sim, self._name, self._is_network, self._fault = simulation, name, is_network, ""

    def __enter__(self) -> str:
        self._sim.hand_over(self._name, 0.0)
        self._fault = self._sim.next_fault(self._name)
        self._sim.before(self._fault, self._name, self._is_network)
        return self._fault

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._sim.after(self._fault, self._is_network)
