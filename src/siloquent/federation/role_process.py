"""A role as a process: its bundle's lock, journal and connection, a thread that reads the inbox, and heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any

from siloquent.errors import NotAllowed
from siloquent.federation.channel.relay import RelayChannel
from siloquent.federation.identity.bundle import Bundle
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import RoleJournal, hold_folder_lock
from siloquent.federation.peer import Peer, run_polling
from siloquent.federation.policy import Policy
from siloquent.federation.protocols import Part, ProtocolRegistry
from siloquent.federation.role import (
    BEAT_S,
    MAX_SESSIONS,
    RoleRunner,
    SessionResult,
    begin,
    moderate_session,
    send_heartbeat,
)
from siloquent.federation.transport import HttpTransport

JOURNAL = "journal.sqlite"


@contextmanager
def open_journal(bundle: Bundle) -> Iterator[RoleJournal]:
    """Open a role's journal; a second process may read it and write a person's decision into it."""
    with closing(RoleJournal(bundle.state / JOURNAL)) as journal:
        yield journal


@contextmanager
def open_peer(bundle: Bundle) -> Iterator[Peer]:
    """Open the role of ``bundle``, as the only process that uses its state folder.

    Raises:
        ProtocolError: ``role_running_twice``: another process of this machine is this role; ``certificate_expired``.
    """
    bundle.require_valid()
    with hold_folder_lock(bundle.state), open_journal(bundle) as journal, closing(HttpTransport(bundle)) as transport:
        yield Peer(bundle.name, bundle.keys, bundle.roster, journal, transport, judge=bundle.explain_refusal)


def serve(
    bundle: Bundle,
    walks: ProtocolRegistry,
    stop: threading.Event,
    *,
    open_desk: Callable[[], AbstractContextManager[Any]] = nullcontext,
    policy: Policy | None = None,
    most_sessions: int = MAX_SESSIONS,
) -> None:
    """Run a party or a worker until ``stop`` is set. Sessions that an earlier process left open are continued.

    Raises:
        NotAllowed: the bundle is a moderator's or the relay's.
        ProtocolError: the relay no longer accepts this role: ``certificate_expired``, ``certificate_refused``.
    """
    if bundle.kind not in ("party", "worker"):
        raise NotAllowed(f"{bundle.name} is a {bundle.kind}.", fix="use the bundle of a party or a worker")
    with open_peer(bundle) as peer, run_polling(peer) as ends:
        role = RoleRunner(peer, walks, open_desk=open_desk, policy=policy, most_sessions=most_sessions)
        role.run(stop)
        ends.set()


def moderate(
    bundle: Bundle,
    invitation: Invitation,
    members: tuple[str, ...],
    part: Part,
    *,
    desk: Any = None,
    session: str | None = None,
    watch: Callable[[RelayChannel], None] = lambda channel: None,
) -> SessionResult:
    """Run one session as the moderator; blocks until it has ended.

    Args:
        members: Names of parties and workers; the moderator is added.
        part: The moderator's part, run once all have joined.
        session: A session that an earlier process began, to continue it.
        watch: Called about every second with the channel, for example to show its status.
    Raises:
        ProtocolError: the cause of the session's end.
        NotAllowed: the bundle is not a moderator's.
    """
    with open_peer(bundle) as peer, run_polling(peer):
        session = session or begin(peer, invitation, members)
        with _run_heartbeat(peer, watch) as shown:
            return moderate_session(peer, invitation, members, part, desk=desk, session=session, started=shown)


@contextmanager
def _run_heartbeat(peer: Peer, watch: Callable[[RelayChannel], None]) -> Iterator[Callable[[RelayChannel], None]]:
    """Run a thread that reports the moderator's progress to the relay and to ``watch``."""
    stop = threading.Event()
    current: list[RelayChannel | None] = [None]

    def run() -> None:
        last = 0.0
        while not stop.wait(0.2):
            channel = current[0]
            if channel is not None and time.monotonic() - last >= BEAT_S:
                last = time.monotonic()
                send_heartbeat(peer, channel)
                watch(channel)

    thread = threading.Thread(target=run, name="beats", daemon=True)
    thread.start()
    try:
        yield lambda channel: current.__setitem__(0, channel)
    finally:
        stop.set()
        thread.join(5)
