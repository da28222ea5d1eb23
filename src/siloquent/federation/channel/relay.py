"""A channel over the relay: messages are sealed, signed, chained, and journaled before they are sent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NoReturn

from siloquent.errors import CAUSES, ProtocolError
from siloquent.federation.channel.base import Members, Status, build_missing, check_step
from siloquent.federation.identity.seal import is_signed_by
from siloquent.federation.messages.payload import parse_kind
from siloquent.federation.messages.transcript import compute_head
from siloquent.federation.peer import Peer

MAX_LOOK_SECONDS = 5.0  # the seconds of one wait before the session's state is checked again


class JournalState:
    """A part's small durable values, in the role's journal."""

    def __init__(self, peer: Peer, session: str) -> None:
        self._peer, self._session = peer, session

    def get(self, key: str) -> bytes | None:
        """Return the value stored under ``key``."""
        return self._peer.journal.get(self._session, key)

    def put(self, key: str, value: bytes) -> None:
        """Store ``value``."""
        self._peer.journal.put(self._session, key, value)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Store all of ``values``, or none."""
        self._peer.journal.put_all(self._session, values)

    def erase(self, key: str) -> None:
        """Erase ``key``."""
        self._peer.journal.erase(self._session, key)


class RelayChannel:
    """One role's end of one session at a relay; see ``Channel``.

    ``names`` are the current members: all invited roles, until the start names those that joined. Where the
    invitation says ``on_missing = "abort"``, no wait lasts longer than a step's deadline.
    """

    def __init__(self, peer: Peer, session: str, names: tuple[str, ...] | None = None) -> None:
        known = peer.journal.find_session(session)
        if known is None:
            raise ProtocolError("unknown_session", role=peer.name)
        self._peer, self._session, self._deadline = peer, session, known.deadline
        self._members = peer.roster.build_members(names or known.members)
        asked = known.invitation.get("invitation", {})
        self._longest_s = float(asked["step_deadline_s"]) if asked.get("on_missing") == "abort" else None
        self._state = JournalState(peer, session)
        self._lock = threading.Lock()
        self._step, self._since = "", peer.clock.now()
        self._waiting: tuple[str, ...] = ()

    @property
    def me(self) -> str:
        """The name of this role."""
        return self._peer.name

    @property
    def session(self) -> bytes:
        """The session's id."""
        return bytes.fromhex(self._session)

    @property
    def members(self) -> Members:
        """All members of this session."""
        return self._members

    @property
    def state(self) -> JournalState:
        """This role's durable bytes."""
        return self._state

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        """Send ``payload`` to ``to``; returns when the relay holds it."""
        check_step(step, attempt)
        kind = parse_kind(payload)
        name = self.members[to].name
        self._peer.refuse_if_over(self._session)
        self._set_waiting(step, ())
        try:
            self._peer.leave(self._session, name, step, payload, attempt, kind)
        except ProtocolError as failed:
            self._heed(failed)
            raise

    def is_sent(self, to: str, step: str, attempt: int = 0) -> bool:
        """Return whether the relay holds this message."""
        journal = self._peer.journal
        found = journal.list_envelopes(self._session, self.me, to, step, attempt)
        return bool(found) and not any(envelope.sealed for envelope in found)

    def receive(self, step: str, sender: str, timeout: float | None = None, attempt: int = 0) -> bytes:
        """Wait for one payload."""
        return self.gather(step, [sender], timeout=timeout, attempt=attempt)[sender]

    def gather(
        self,
        step: str,
        senders: Iterable[str],
        enough: int | None = None,
        timeout: float | None = None,
        attempt: int = 0,
    ) -> dict[str, bytes]:
        """Wait for all ``senders``, or for ``enough`` of them at the time-out."""
        check_step(step, attempt)
        wanted = tuple(senders)
        least = len(wanted) if enough is None else enough
        names = self._peer.journal.find_gathered(self._session, step, attempt)
        if names is None:
            names = self._wait_for_messages(step, wanted, least, timeout, attempt)
            if len(names) < len(wanted):
                self._peer.journal.keep_gathered(self._session, step, attempt, names)
        self._peer.refuse_if_over(self._session)
        return {name: self._read_payload(step, name, attempt) for name in names}

    def sign(self, label: str, content: bytes) -> bytes:
        """Sign ``content`` with this role's key in this session."""
        return self._peer.keys.sign(_build_label(label, self.session), content)

    def verify(self, role: str, label: str, content: bytes, signature: bytes) -> bool:
        """Return whether ``role`` signed ``content`` in this session."""
        key = self._peer.roster.get_role(role).sign_key
        return is_signed_by(key, _build_label(label, self.session), content, signature)

    def read_head(self) -> str:
        """Return the transcript's head: fixed by the first call, unchanged by a restart."""
        kept = self.state.get("transcript")
        if kept is None:
            headers = [header for header, _ in self._peer.journal.list_headers(self._session)]
            kept = f"{len(headers)}:{compute_head(self._session, headers)}".encode()
            self.state.put("transcript", kept)
        return kept.decode()

    def abort(self, code: str, *, step: str = "") -> NoReturn:
        """End the session for all."""
        assert code in CAUSES, code
        self._peer.refuse_if_over(self._session)
        step = step or self.get_status().step
        self._peer.abort(self._session, code, step=step)
        raise ProtocolError(code, role=self.me, step=step)

    def get_status(self) -> Status:
        """Return the progress of this role."""
        known = self._peer.journal.find_session(self._session)
        assert known is not None
        with self._lock:
            since = self._peer.clock.now() - self._since
            return Status(self.me, known.state, self._step, self._waiting, since)

    def _wait_for_messages(
        self, step: str, wanted: tuple[str, ...], least: int, timeout: float | None, attempt: int
    ) -> tuple[str, ...]:
        """Return the roles of ``wanted`` whose messages came in time."""
        clock = self._peer.clock
        timeout = self._longest_s if timeout is None else timeout
        until = self._deadline if timeout is None else min(clock.now() + timeout, self._deadline)
        while True:
            self._peer.refuse_if_over(self._session)
            with self._peer.news:
                came = self._peer.list_arrived(self._session)
                here = tuple(name for name in wanted if (name, step, attempt) in came)
                left = until - clock.now()
                self._set_waiting(step, tuple(name for name in wanted if name not in here))
                if len(here) == len(wanted):
                    return here
                if left <= 0:
                    break
                if not self._peer.polls_itself:
                    self._peer.wait(min(left, MAX_LOOK_SECONDS))  # under the lock: no message is missed
                    continue
            self._peer.wait(min(left, MAX_LOOK_SECONDS))
        if len(here) < least:
            raise build_missing(step, self._waiting[0])
        self._set_waiting(step, ())
        return here

    def _read_payload(self, step: str, name: str, attempt: int) -> bytes:
        payload = self._peer.read_payload(self._session, name, step, attempt)
        try:
            parse_kind(payload)
        except ProtocolError:
            self._peer.abort(self._session, "bad_encoding", role=name, step=step)
            raise ProtocolError("bad_encoding", role=name, step=step) from None
        return payload

    def _heed(self, failed: ProtocolError) -> None:
        if failed.code in ("aborted_by", "session_closed"):
            self._peer.record_relay_close(self._session, failed)

    def _set_waiting(self, step: str, names: tuple[str, ...]) -> None:
        with self._lock:
            if (step, names) != (self._step, self._waiting):
                self._step, self._waiting, self._since = step, names, self._peer.clock.now()


def _build_label(label: str, session: bytes) -> bytes:
    return f"siloquent/{label}/1|".encode() + session + b"|"
