"""Whole federations for tests: fresh keys, one roster, a relay's store, peers in one process."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable

from contract.channel_contract import LONG, MEMBERS
from siloquent.federation.channel import Members, MemoryNetwork
from siloquent.federation.channel.memory import MemoryChannel
from siloquent.federation.channel.relay import RelayChannel
from siloquent.federation.clock import Clock
from siloquent.federation.identity.roster import Roster, RosterEntry
from siloquent.federation.identity.seal import Keys
from siloquent.federation.messages.journal import RoleJournal, SessionRecord
from siloquent.federation.peer import Peer
from siloquent.federation.relay.store import RelayStore
from siloquent.federation.transport import Transport
from siloquent.testing.federation import StoreTransport


def keys_and_roster(members: Members = MEMBERS) -> tuple[dict[str, Keys], Roster]:
    """Fresh keys for every member, and the roster that names them."""
    keys = {member.name: Keys.generate() for member in members}
    roles = tuple(RosterEntry(m.name, m.kind, m.owner, keys[m.name].sign_key, keys[m.name].seal_key) for m in members)
    return keys, Roster("clinics", "https://127.0.0.1:8443", 1, "0" * 64, roles)


class StoreNetwork:
    """A session over a relay's store: real envelopes, seals and journals; no sockets."""

    def __init__(
        self,
        members: Members = MEMBERS,
        *,
        wrap: Callable[[Transport, str], Transport] = lambda transport, name: transport,
        clock: Clock | None = None,
        lasts_s: float = 600.0,
    ) -> None:
        self.members = members
        self.keys, self.roster = keys_and_roster(members)
        self.store, self.news = RelayStore(":memory:"), threading.Condition()
        self.session, self.deadline = secrets.token_hex(32), int(time.time() + lasts_s)
        self.journals = {member.name: RoleJournal(":memory:") for member in members}
        self.names = [member.name for member in members]
        self._wrap, self._clock = wrap, clock
        self.store.open_session(members.moderator, self.session, self.names, self.deadline)
        for journal in self.journals.values():
            now = time.time()
            journal.add_session(
                SessionRecord(self.session, tuple(self.names), members.moderator, self.deadline, {}, "running", now)
            )

    def peer(self, name: str) -> Peer:
        """The role, as a process that starts now would find itself."""
        transport = self._wrap(StoreTransport(self.store, name, self.news), name)
        return Peer(
            name, self.keys[name], self.roster, self.journals[name], transport, clock=self._clock, polls_itself=True
        )

    def open_channel(self, name: str) -> RelayChannel:
        """A new end of ``name``."""
        return RelayChannel(self.peer(name), self.session)


class PatientNetwork(MemoryNetwork):
    """A network in which a time limit passes as soon as ``present`` roles have sent, however slow the machine is."""

    def __init__(self, present: Iterable[str], members: Members = MEMBERS, *, session: bytes | None = None) -> None:
        super().__init__(members, session=session)
        self.present = frozenset(present)

    def open_channel(self, name: str) -> MemoryChannel:
        """The end of ``name``."""
        return _PatientChannel(self, name)


class _PatientChannel(MemoryChannel):
    _net: PatientNetwork

    def gather(
        self,
        step: str,
        senders: Iterable[str],
        enough: int | None = None,
        timeout: float | None = None,
        attempt: int = 0,
    ) -> dict[str, bytes]:
        """Wait for the present roles among ``senders``; then the limit, if there is one, has passed."""
        names = tuple(senders)
        if timeout is not None:
            here = tuple(name for name in names if name in self._net.present)
            with self._net._news:
                self._net._news.wait_for(
                    lambda: self._net._ended is not None or self._list_arrived(here, step, attempt) == here, LONG
                )
        return super().gather(step, names, enough, None if timeout is None else 0.0, attempt)
