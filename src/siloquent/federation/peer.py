"""One role at its relay, over all its sessions: receives, checks and journals envelopes, and sends its own.

The order of the checks is that of the design: size, roster, sender, signature, chain, digest, seal. The first failure
ends the session with one fixed code; the details go only to the local log.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from siloquent.errors import CAUSES, NotAllowed, ProtocolError, SiloquentError, UnknownName
from siloquent.federation.channel.base import parse_step
from siloquent.federation.clock import Clock, SystemClock
from siloquent.federation.identity.seal import MESSAGE, SEAL_BYTES, Keys, is_signed_by
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import RoleJournal, SessionRecord
from siloquent.federation.messages.message import Envelope, Header, split_parts
from siloquent.federation.messages.payload import pack_json, unpack_json

if TYPE_CHECKING:
    from siloquent.federation.identity.roster import Roster
    from siloquent.federation.transport import Transport

T = TypeVar("T")
INVITE, ABORT = "invite", "abort"
LATEST = 2**53
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
# Failures that may pass, or that an operator can fix, are retried until the session's deadline. A relay that stops
# during a first exchange looks like one that refuses a certificate; a real refusal is logged, and `check` shows it.
AGAIN = ("relay_unreachable", "quota", "certificate_refused")
ACK_EVERY, ACK_BYTES = 64, 2**25
"""After so many envelopes, or bytes, the relay hears that the journal has them: its senders may be waiting for room."""
log = logging.getLogger("siloquent.federation")


class Peer:
    """A role with its keys, journal and relay connection. ``poll`` may run in its own thread, or not at all.

    Without a polling thread (``polls_itself``), the caller that waits for a message polls. ``judge`` returns an error
    for a failure that, after a number of repetitions, no waiting can fix: from then on every wait raises that error.
    Sessions are not ended, so that all of them continue once a person has fixed the cause.
    """

    def __init__(
        self,
        name: str,
        keys: Keys,
        roster: Roster,
        journal: RoleJournal,
        transport: Transport,
        *,
        clock: Clock | None = None,
        polls_itself: bool = False,
        judge: Callable[[ProtocolError, int], ProtocolError | None] = lambda failed, times: None,
    ) -> None:
        self.name, self.keys, self.roster, self.journal, self.transport = name, keys, roster, journal, transport
        self.clock: Clock = clock or SystemClock()
        self.polls_itself = polls_itself
        self._judge = judge
        self._refusal: ProtocolError | None = None
        self.news = threading.Condition()
        self._arrived: dict[str, set[tuple[str, str, int]]] = {}
        self._unacked = self._unacked_bytes = 0
        self._sending = threading.RLock()

    # Whether the relay accepts this role at all.

    def is_refused_for_good(self, failed: Exception, times: int) -> bool:
        """Return whether waiting is pointless after ``failed`` occurred ``times`` times in a row."""
        if self._refusal is None and isinstance(failed, ProtocolError):
            self._refusal = self._judge(failed, times)
            with self.news:
                self.news.notify_all()
        return self.is_turned_away

    @property
    def is_turned_away(self) -> bool:
        """Whether the relay no longer accepts this role."""
        return self._refusal is not None

    def require_taken(self) -> None:
        """Check that there is no failure that only a person can fix.

        Raises:
            ProtocolError: ``certificate_expired``, ``certificate_refused``.
        """
        if self._refusal is not None:
            raise self._refusal

    # Receiving.

    def poll(self, wait: float) -> bool:
        """Take the next envelope of the inbox, waiting up to ``wait`` seconds; return whether one came.

        Raises:
            ProtocolError: ``relay_unreachable``, ``certificate_refused`` and other errors of the relay.
        """
        found = self.transport.fetch_next(self.journal.get_cursor(), wait)
        if found is None:
            self.acknowledge()
            return False
        self._take(found.seq, found.wire)
        self._unacked, self._unacked_bytes = self._unacked + 1, self._unacked_bytes + len(found.wire)
        with self.news:
            self.news.notify_all()
        if self._unacked >= ACK_EVERY or self._unacked_bytes >= ACK_BYTES:
            self.acknowledge()
        return True

    def acknowledge(self) -> None:
        """Tell the relay that it may delete envelopes that the journal holds."""
        if self._unacked:
            self.transport.acknowledge(self.journal.get_cursor())
            self._unacked = self._unacked_bytes = 0

    def wait(self, seconds: float) -> None:
        """Wait up to ``seconds``, less if something arrives.

        Raises:
            ProtocolError: the relay no longer accepts this role.
        """
        self.require_taken()
        if not self.polls_itself:
            with self.news:
                self.news.wait(seconds)
            return
        try:
            self.poll(min(seconds, 25.0))
        except ProtocolError as failed:
            if failed.code not in AGAIN:
                raise
            self.clock.sleep(min(seconds, PAUSES_S[0]))

    def list_arrived(self, session: str) -> set[tuple[str, str, int]]:
        """Return sender, step and attempt of every message that arrived completely."""
        with self.news:
            if session not in self._arrived:
                self._arrived[session] = set(self.journal.list_arrived(session, self.name))
            return self._arrived[session]

    def read_payload(self, session: str, sender: str, step: str, attempt: int) -> bytes:
        """Return the decrypted payload of a message that arrived.

        Raises:
            ProtocolError: ``bad_seal``; ``state_lost``: its bytes are gone.
        """
        envelopes = self.journal.list_envelopes(session, sender, self.name, step, attempt)
        if not envelopes or any(not envelope.sealed for envelope in envelopes):
            raise ProtocolError("state_lost", role=self.name, step=step)
        key = self.roster.get_role(sender).seal_key
        return b"".join(self.keys.open(key, envelope.sealed) for envelope in envelopes)

    # Sending.

    def leave(self, session: str, to: str, step: str, payload: bytes, attempt: int, kind: str) -> None:
        """Store a message in the journal, then send it to the relay; returns when the relay holds it.

        Raises:
            ProtocolError: ``message_conflict``: it was sent before with other bytes; errors of the relay.
        """
        with self._sending:
            known = self.journal.list_envelopes(session, self.name, to, step, attempt)
            if known:
                self._require_same(to, known, payload)
            else:
                self.journal.queue(self._seal_parts(session, to, step, payload, attempt, kind))
            self.flush(session)

    def flush(self, session: str) -> None:
        """Send every stored and undelivered message to the relay, oldest first."""
        with self._sending:
            for n, header, envelope in self.journal.list_unsent(session):
                key = (session, header.receiver, header.step, header.attempt, header.part)
                wire = envelope.encode()
                try:
                    self.persist(session, lambda key=key, wire=wire: self.transport.put(key, wire))  # type: ignore[misc]
                except ProtocolError as failed:
                    if failed.code == "message_conflict":
                        # Our own key with other bytes: another process uses our keys, or our journal is incomplete.
                        raise ProtocolError("role_running_twice", role=self.name, step=header.step) from None
                    raise
                self.journal.mark_delivered(n)

    def persist(self, session: str, call: Callable[[], T]) -> T:
        """Return the result of ``call``; while the relay is unreachable or full, retry up to the session's deadline."""
        tries = 0
        while True:
            self.require_taken()
            try:
                return call()
            except ProtocolError as failed:
                if self.is_refused_for_good(failed, 1):
                    self.require_taken()
                known = self.journal.find_session(session)
                if failed.code not in AGAIN or known is None or self.clock.now() >= known.deadline:
                    raise
                log.info("%s: %s, again", session[:8], failed.code)
                pause = PAUSES_S[min(tries, len(PAUSES_S) - 1)]
                # Jitter, so that roles that lost the same relay do not all reconnect at once.
                self.clock.sleep(pause * (0.5 + os.urandom(1)[0] / 512))  # allowed: jitter, no noise
                tries += 1

    # The end of a session.

    def abort(self, session: str, code: str, *, role: str = "", step: str = "") -> None:
        """End a session for all members: journal it, tell every member, close it at the relay. Idempotent.

        Args:
            role: The role named as the cause; this role itself if left out.
            step: The step of the protocol.
        """
        known = self.journal.find_session(session)
        if known is None or known.is_over or self.is_turned_away:
            return
        self.journal.set_state(session, "aborted", code=code, role=role or self.name, step=step)
        log.warning("%s: aborted, %s", session[:8], ", ".join(filter(None, (code, f"step {step}" * bool(step)))))
        self._tell_abort(known, code, step)
        self._end_session(session)

    def refuse_if_over(self, session: str) -> None:
        """Check that this session has not ended.

        Raises:
            ProtocolError: ``aborted_by`` with the first role and its code; ``session_closed``.
        """
        known = self.journal.find_session(session)
        if known is None:
            raise ProtocolError("unknown_session", role=self.name)
        if known.state == "aborted":
            raise ProtocolError("aborted_by", role=known.by_role, step=known.step, where=known.code)
        if known.is_over:
            raise ProtocolError("session_closed")

    def record_relay_close(self, session: str, failed: ProtocolError) -> None:
        """Store what the relay reports about a session that it closed."""
        code = failed.where if failed.where in CAUSES else failed.code
        self.journal.set_state(session, "aborted", code=code, role=failed.role, step=failed.step)
        self._end_session(session)

    def _end_session(self, session: str) -> None:
        self.journal.forget_secrets(session)
        with self.news:
            self.news.notify_all()

    def _tell_abort(self, known: SessionRecord, code: str, step: str) -> None:
        """Tell the members of the abort, best effort: others find the session closed, or receive nothing more."""
        others = [name for name in known.members if name != self.name]
        payload = pack_json({"code": code, "step": step})
        with self._sending, suppress(SiloquentError):
            for to in others:
                for header, envelope in self._seal_parts(known.id, to, ABORT, payload, 0, "json"):
                    key = (known.id, to, header.step, 0, 0)
                    self.journal.queue([(header, envelope)])
                    self.transport.put(key, envelope.encode())
        with suppress(SiloquentError):
            self.transport.close_session(known.id, code, "", step)

    def _seal_parts(
        self, session: str, to: str, step: str, payload: bytes, attempt: int, kind: str
    ) -> list[tuple[Header, Envelope]]:
        pieces, key = split_parts(payload), self.roster.get_role(to).seal_key
        seq, prev = self.journal.find_chain_end(session, self.name, to)
        made = []
        for part, piece in enumerate(pieces):
            blank = Header(
                session, self.name, to, step, attempt, part, len(pieces), seq + part, prev, self.roster.digest, kind,
                len(piece) + SEAL_BYTES, "0" * 64,
            )  # fmt: skip
            sealed = self.keys.seal(key, blank.build_context(), piece)
            header = blank.replace_digest(hashlib.sha256(sealed).hexdigest())
            text = header.encode()
            made.append((header, Envelope(text, self.keys.sign(MESSAGE, text), sealed)))
            prev = hashlib.sha256(text).hexdigest()
        return made

    def _require_same(self, to: str, known: list[Envelope], payload: bytes) -> None:
        """Check that a message sent before has the same payload: sealed again, it has the same digest."""
        pieces, key = split_parts(payload), self.roster.get_role(to).seal_key
        headers = [Header.decode(envelope.header) for envelope in known]
        same = len(pieces) == len(headers) and all(
            header.size == len(piece) + SEAL_BYTES
            and hashlib.sha256(self.keys.seal(key, header.build_context(), piece)).hexdigest() == header.sha256
            for header, piece in zip(headers, pieces, strict=True)
        )
        if not same:
            raise ProtocolError("message_conflict", role=self.name, step=headers[0].step)

    # Receiving one envelope.

    def _take(self, seq: int, wire: bytes) -> None:
        """Check and store one envelope; a bad one ends its session, if it names one of ours."""
        session = ""
        try:
            envelope = Envelope.decode(wire)
            header = Header.decode(envelope.header)
            session = header.session
            self._check_sender(header, envelope)
            if self._is_stale(header, envelope):
                self.journal.skip(seq)
                return
            plain = self._check_content(header, envelope)
            if header.step == ABORT:
                self._heed_abort(seq, header, plain)
                return
            self.journal.take(seq, header, envelope)
            self._note(header)
        except (ProtocolError, NotAllowed, UnknownName) as refused:
            log.warning("%s: an envelope was refused: %s", session[:8], refused)
            code = refused.code if isinstance(refused, ProtocolError) else "planner_mismatch"
            self.journal.skip(seq)
            self.abort(session, code, step=getattr(refused, "step", ""))

    def _check_sender(self, header: Header, envelope: Envelope) -> None:
        if header.receiver != self.name or header.size != len(envelope.sealed):
            raise ProtocolError("bad_encoding", role=header.sender, step=header.step)
        if header.roster != self.roster.digest:
            raise ProtocolError("roster_mismatch", role=header.sender)
        role = self.roster.get_role(header.sender)
        if not is_signed_by(role.sign_key, MESSAGE, envelope.header, envelope.signature):
            raise ProtocolError("bad_signature", role=header.sender, step=header.step)

    def _is_stale(self, header: Header, envelope: Envelope) -> bool:
        """Return whether this is a repeat, or belongs to a session that is over or was never ours."""
        known = self.journal.find_session(header.session)
        if known is None:
            return header.step != INVITE or self.roster.get_role(header.sender).kind != "moderator"
        if known.is_over:
            return True
        if header.sender not in known.members:
            raise ProtocolError("planner_mismatch", role=header.sender, step=header.step)
        before = self.journal.find_header(header.key)
        if before is not None and before != envelope.header:
            raise ProtocolError("message_conflict", role=header.sender, step=header.step)
        return before is not None

    def _check_content(self, header: Header, envelope: Envelope) -> bytes:
        if (header.seq, header.prev) != self.journal.find_chain_end(header.session, header.sender, self.name):
            raise ProtocolError("bad_chain", role=header.sender, step=header.step)
        if hashlib.sha256(envelope.sealed).hexdigest() != header.sha256:
            raise ProtocolError("bad_seal", role=header.sender, step=header.step)
        plain = self.keys.open(self.roster.get_role(header.sender).seal_key, envelope.sealed)
        if header.step == INVITE and self.journal.find_session(header.session) is None:
            self._begin(header, plain)
        return plain

    def _begin(self, header: Header, plain: bytes) -> None:
        """Begin a session from a moderator's invitation."""
        told = unpack_json(plain)
        told = told if isinstance(told, dict) else {}
        members, deadline = told.get("members"), told.get("deadline")
        # Any error other than a refusal would be raised again on every poll: the inbox would be blocked.
        if not isinstance(members, list) or not all(isinstance(name, str) for name in members):
            raise ProtocolError("bad_encoding", role=header.sender, step=INVITE)
        if not isinstance(deadline, int) or not 0 <= deadline < LATEST:
            raise ProtocolError("bad_encoding", role=header.sender, step=INVITE)
        known = {role.name for role in self.roster.roles}
        if not {self.name, header.sender} <= set(members) <= known:
            raise ProtocolError("roster_mismatch", role=header.sender)
        begun = SessionRecord(
            header.session, tuple(members), header.sender, deadline, told, "invited", self.clock.now()
        )
        try:
            Invitation.from_json(told.get("invitation"))
        except ProtocolError:
            self.journal.add_session(replace(begun, invitation={}))  # so that the others learn the reason
            raise
        self.journal.add_session(begun)

    def _heed_abort(self, seq: int, header: Header, plain: bytes) -> None:
        told = unpack_json(plain)
        told = told if isinstance(told, dict) else {}
        code = str(told.get("code"))
        code = code if code in CAUSES else "protocol_failed"
        self.journal.skip(seq)
        step = parse_step(told.get("step"))
        self.journal.set_state(header.session, "aborted", code=code, role=header.sender, step=step)
        self._end_session(header.session)

    def _note(self, header: Header) -> None:
        if header.part == header.parts - 1:  # parts come in order, as the chain ensures
            self.list_arrived(header.session).add((header.sender, header.step, header.attempt))


@contextmanager
def run_polling(peer: Peer, wait: float = 25.0) -> Iterator[threading.Event]:
    """Run a thread that receives envelopes until the block ends; yields the event that ends it early."""
    stop = threading.Event()

    def run() -> None:
        pause, told, times = 0, "", 0
        while not stop.is_set():
            try:
                peer.poll(wait)
                pause, told = 0, ""
            except Exception as failed:  # allowed: a role must not stop to listen in silence
                if stop.is_set():  # the connection was closed during a wait that is no longer needed
                    return
                code = failed.code if isinstance(failed, SiloquentError) else type(failed).__name__
                times = times + 1 if code == told else 1
                if peer.is_refused_for_good(failed, times):
                    return
                fix = f"; {failed.fix}" if isinstance(failed, SiloquentError) and failed.fix and times == 1 else ""
                log.warning("the inbox could not be read: %s%s", code, fix)
                told = code
                stop.wait(PAUSES_S[min(pause, len(PAUSES_S) - 1)])
                pause += 1

    thread = threading.Thread(target=run, name=f"inbox of {peer.name}", daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
