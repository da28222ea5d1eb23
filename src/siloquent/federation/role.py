"""The life of a role in a session: invited, approved or refused, joined, running, ended or aborted.

Every role's life is plain code over a channel, like the parts of tasks: after a kill it runs again from the start,
and the journal gives it the same answers. A session ends with every role's signed transcript head.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from siloquent.errors import NotAllowed, ProtocolError
from siloquent.federation.channel.base import Channel, RoleState
from siloquent.federation.channel.relay import RelayChannel
from siloquent.federation.messages.invitation import Invitation
from siloquent.federation.messages.journal import SessionRecord
from siloquent.federation.messages.payload import encode_canonical, pack_json, unpack_json
from siloquent.federation.messages.transcript import split_head
from siloquent.federation.peer import INVITE, Peer
from siloquent.federation.policy import Policy
from siloquent.federation.protocols import Part, ProtocolRegistry

JOIN, START, HEAD, END = "join", "start", "head", "end"
BEAT_S = 1.0
MAX_SESSIONS = 4
HEADS = "head"  # the label of the signature at the end
log = logging.getLogger("siloquent.federation")


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A session that ended well: what the moderator's part returned, and every role's signed transcript head."""

    session: str
    result: Any
    heads: Mapping[str, Mapping[str, str]]
    members: tuple[str, ...]


class RoleRunner:
    """A party or worker: accepts invitations, applies its policy, and runs its part; several sessions side by side."""

    def __init__(
        self,
        peer: Peer,
        walks: ProtocolRegistry,
        *,
        open_desk: Callable[[], AbstractContextManager[Any]] = nullcontext,
        policy: Policy | None = None,
        most_sessions: int = MAX_SESSIONS,
    ) -> None:
        self.peer, self._walks, self._open_desk, self._policy = peer, walks, open_desk, policy
        self._kind = peer.roster.get_role(peer.name).kind
        self._most = most_sessions
        self._threads: dict[str, threading.Thread] = {}
        self._channels: dict[str, RelayChannel] = {}

    def run(self, stop: threading.Event, *, every_s: float = 0.2) -> None:
        """Serve until ``stop``; needs a thread that polls the peer. Open sessions are continued.

        Raises:
            ProtocolError: the relay no longer accepts this role; open sessions continue with the next process.
        """
        beaten = 0.0
        while not stop.is_set():
            self.peer.require_taken()
            self.start_new()
            if time.monotonic() - beaten >= BEAT_S:
                beaten = time.monotonic()
                self.send_heartbeats()
            with self.peer.news:
                self.peer.news.wait(every_s)

    def start_new(self) -> None:
        """Start a thread for every open session that has none."""
        self._threads = {session: thread for session, thread in self._threads.items() if thread.is_alive()}
        for known in self.peer.journal.list_sessions():
            if known.is_over or known.id in self._threads or len(self._threads) >= self._most:
                continue
            thread = threading.Thread(target=self.play, args=(known.id,), name=known.id[:8], daemon=True)
            self._threads[known.id] = thread
            thread.start()

    def send_heartbeats(self) -> None:
        """Report the progress of every session to the relay."""
        for session in list(self._threads):
            channel = self._channels.get(session)
            if channel is not None:
                send_heartbeat(self.peer, channel)

    def play(self, session: str) -> None:
        """Run one session from invitation to end; any failure ends it with a code, never silently."""
        try:
            channel = RelayChannel(self.peer, session)
            self._channels[session] = channel
            self._play(session, channel)
        except ProtocolError as failed:
            if self.peer.is_turned_away:  # this process ends; the session continues with the next one
                return
            log.warning("%s: %s", session[:8], failed)
            for why in list_reasons(failed):
                log.warning("%s: %s", session[:8], why)
            self._abort(session, failed.code if failed.code != "aborted_by" else "protocol_failed", failed.step)
        except Exception as failed:  # allowed: a part that breaks must not leave the others waiting; the log has it
            if self.peer.is_turned_away:  # the failure was caused by a journal closed in the meantime
                return
            log.exception("%s: this role's part failed: %s", session[:8], type(failed).__name__)
            self._abort(session, "protocol_failed")

    def _abort(self, session: str, code: str, step: str = "") -> None:
        channel = self._channels.get(session)
        self.peer.abort(session, code, step=step or (channel.get_status().step if channel else ""))

    def _play(self, session: str, channel: RelayChannel) -> None:
        known = self.peer.journal.find_session(session)
        assert known is not None
        invitation = Invitation.from_json(known.invitation["invitation"])
        part = self._walks.get_part(self._kind, invitation)
        if not self._is_approved(known, invitation):
            channel.send(known.moderator, JOIN, pack_json({"joined": False, "reason": "policy"}))
            self.peer.journal.set_state(session, "refused")
            return
        self._move(session, "joined")
        channel.send(
            known.moderator, JOIN, pack_json({"joined": True, "digest": compute_invitation_digest(invitation)})
        )
        names = _parse_start(channel, invitation, unpack_json(channel.receive(START, known.moderator)))
        if self.peer.name not in names:
            self.peer.journal.set_state(session, "ended")
            return
        self._move(session, "running")
        inside = RelayChannel(self.peer, session, names)
        self._channels[session] = inside
        with self._open_desk() as desk:
            part(inside, invitation, desk)
        heads = _exchange(inside, known.moderator)
        self.peer.journal.keep_result(session, encode_canonical(heads))
        self.peer.journal.set_state(session, "ended")
        self.peer.journal.forget_secrets(session)

    def _is_approved(self, known: SessionRecord, invitation: Invitation) -> bool:
        """Return whether this role joins: workers do, having no data; a party applies its policy or asks a person."""
        if self._kind != "party" or known.state in ("approved", "joined", "running"):
            return True
        day = int(self.peer.clock.now() // 86_400)
        verdict = (self._policy or Policy()).judge(
            invitation,
            known.moderator,
            lambda rule: self.peer.journal.admit(known.id, rule.digest, day=day, most=rule.max_sessions),
        )
        if verdict == "ask":
            verdict = "auto" if self._read_decision(known.id) == "approved" else "refuse"
        if verdict == "auto":
            self._move(known.id, "approved")
        return verdict == "auto"

    def _read_decision(self, session: str) -> str:
        """Return the decision written to the journal by ``siloquent party approve`` or ``refuse``."""
        while True:
            self.peer.refuse_if_over(session)
            known = self.peer.journal.find_session(session)
            assert known is not None
            if known.decided:
                return known.decided
            if self.peer.clock.now() >= known.deadline:
                raise ProtocolError("peer_missing", role=self.peer.name, step=JOIN)
            self.peer.wait(0.5)

    def _move(self, session: str, state: RoleState) -> None:
        self.peer.journal.set_state(session, state)


def list_reasons(failed: BaseException) -> list[str]:
    """Return the causes of a failure that only this role learns: the notes of the error and of its causes."""
    found: list[str] = []
    cause: BaseException | None = failed
    while cause is not None:
        found += [str(note) for note in getattr(cause, "__notes__", ())]
        cause = cause.__cause__ or cause.__context__
    return found


def moderate_session(
    peer: Peer,
    invitation: Invitation,
    members: tuple[str, ...],
    part: Part,
    *,
    desk: Any = None,
    session: str | None = None,
    started: Callable[[RelayChannel], None] = lambda channel: None,
) -> SessionResult:
    """Run the moderator's life of one session: invite, wait for joins, start, run ``part``, gather heads, end.

    Args:
        session: The id of a session to continue after a restart; None begins a new one.
        started: Called with the channel as soon as there is one: for showing status.
    Raises:
        ProtocolError: the cause of the session's end; ``policy_refused`` if too few parties came.
        NotAllowed: this role is not a moderator.
    """
    if peer.roster.get_role(peer.name).kind != "moderator":
        raise NotAllowed(f"Role {peer.name} is not a moderator.", fix="use the moderator's bundle")
    session = session or begin(peer, invitation, members)
    known = peer.journal.find_session(session)
    if known is None:
        raise ProtocolError("unknown_session", role=peer.name)
    try:
        channel = RelayChannel(peer, session)
        started(channel)
        return _moderate_started(peer, known, channel, invitation, part, desk, started)
    except ProtocolError as failed:
        peer.abort(session, failed.code if failed.code != "aborted_by" else "protocol_failed", step=failed.step)
        raise
    except Exception:  # allowed: raised again; nobody may wait for a moderator whose part broke
        peer.abort(session, "protocol_failed")
        raise


def begin(peer: Peer, invitation: Invitation, members: tuple[str, ...]) -> str:
    """Open a new session and store it in the journal; no role is invited yet."""
    session = os.urandom(32).hex()  # allowed: an id, no noise
    names = tuple(name for name in (role.name for role in peer.roster.roles) if name in {*members, peer.name})
    peer.roster.build_members(names)
    deadline = int(peer.clock.now()) + invitation.session_deadline_s
    told = {"invitation": invitation.to_json(), "members": list(names), "deadline": deadline}
    now = peer.clock.now()
    peer.journal.add_session(SessionRecord(session, names, peer.name, deadline, told, "invited", now))
    return session


def _moderate_started(
    peer: Peer,
    known: SessionRecord,
    channel: RelayChannel,
    invitation: Invitation,
    part: Part,
    desk: Any,
    started: Callable[[RelayChannel], None],
) -> SessionResult:
    others = [name for name in known.members if name != peer.name]
    peer.persist(known.id, lambda: peer.transport.open_session(known.id, list(known.members), known.deadline))
    for name in others:
        channel.send(name, INVITE, pack_json(known.invitation))
    least = len(channel.members.workers) + invitation.min_parties
    joins = channel.gather(JOIN, others, enough=least, timeout=_compute_step_timeout(invitation))
    names = _select_joined(channel, invitation, joins)
    for name in others:
        channel.send(name, START, pack_json({"members": names}))
    peer.journal.set_state(known.id, "running")
    inside = RelayChannel(peer, known.id, tuple(names))
    started(inside)
    result = part(inside, invitation, desk)
    heads = _gather_heads(inside, [name for name in names if name != peer.name])
    for name in names:
        if name != peer.name:
            inside.send(name, END, pack_json(heads))
    peer.journal.keep_result(known.id, encode_canonical(heads))
    peer.persist(known.id, lambda: peer.transport.close_session(known.id, "ended", heads[peer.name]["head"]))
    peer.journal.set_state(known.id, "ended")
    peer.journal.forget_secrets(known.id)
    return SessionResult(known.id, result, heads, tuple(names))


def _select_joined(channel: Channel, invitation: Invitation, joins: Mapping[str, bytes]) -> list[str]:
    """Return the members in order: the moderator, all workers, and the parties that accepted this invitation."""
    answers = {name: unpack_json(payload) for name, payload in joins.items()}
    yes = {name for name, told in answers.items() if told.get("joined") is True}
    for name in yes:
        if answers[name].get("digest") != compute_invitation_digest(invitation):
            raise ProtocolError("planner_mismatch", role=name, step=JOIN)
    for worker in channel.members.workers:
        if worker not in yes:
            raise ProtocolError("peer_missing", role=worker, step=JOIN)
    parties = [name for name in channel.members.parties if name in yes]
    if len(parties) < invitation.min_parties:
        refused = [name for name in channel.members.parties if name in answers and name not in yes]
        if refused:
            raise ProtocolError("policy_refused", role=refused[0])
        raise ProtocolError("peer_missing", step=JOIN)
    inside = {channel.me, *channel.members.workers, *parties}
    return [member.name for member in channel.members if member.name in inside]


def _parse_start(channel: Channel, invitation: Invitation, told: Any) -> tuple[str, ...]:
    """Return the members named by the moderator: a subset of the invited ones, at least the agreed minimum.

    Raises:
        ProtocolError: ``planner_mismatch``: a worker is missing on which this role's trust may depend, there are too
            few parties, or a member was not invited.
    """
    names, members = told.get("members") if isinstance(told, dict) else None, channel.members
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProtocolError("bad_encoding", role=members.moderator, step=START)
    must, parties = {members.moderator, *members.workers}, set(members.parties)
    is_agreed = must <= set(names) <= must | parties and len(set(names)) == len(names)
    if not is_agreed or len(parties & set(names)) < invitation.min_parties:
        raise ProtocolError("planner_mismatch", role=members.moderator, step=START)
    return tuple(names)


def compute_invitation_digest(invitation: Invitation) -> str:
    """Compute the SHA-256 of the whole invitation, which a member repeats when it joins."""
    import hashlib

    return hashlib.sha256(encode_canonical(invitation.to_json())).hexdigest()


def send_heartbeat(peer: Peer, channel: RelayChannel) -> None:
    """Report this role's progress to the relay; learn from the answer whether the session was closed."""
    status = channel.get_status()
    if status.state in ("ended", "aborted", "refused", "expired"):
        return
    told = (status.state, status.step, list(status.waiting_for), status.since_s)
    try:
        peer.transport.send_heartbeat(channel.session.hex(), *told)
    except ProtocolError as failed:
        if failed.code in ("aborted_by", "session_closed"):
            peer.record_relay_close(channel.session.hex(), failed)
        log.debug("a beat did not arrive: %s", failed.code)


def _compute_step_timeout(invitation: Invitation) -> float | None:
    """Return the time limit of a step; None waits for a missing role up to the session's deadline."""
    may_go_on = invitation.on_missing == "abort" or invitation.min_parties > 1
    return float(invitation.step_deadline_s) if may_go_on else None


def _build_own_head(channel: RelayChannel) -> dict[str, str]:
    head = channel.read_head()
    split_head(head)
    return {"head": head, "signature": channel.sign(HEADS, head.encode()).hex()}


def _exchange(channel: RelayChannel, moderator: str) -> dict[str, dict[str, str]]:
    """Run a member's end: send its own head, receive all heads."""
    channel.send(moderator, HEAD, pack_json(_build_own_head(channel)))
    heads: dict[str, dict[str, str]] = unpack_json(channel.receive(END, moderator))
    for name, told in heads.items():
        _check_head(channel, name, told)
    return heads


def _gather_heads(channel: RelayChannel, others: list[str]) -> dict[str, dict[str, str]]:
    heads = {name: unpack_json(payload) for name, payload in channel.gather(HEAD, others).items()}
    heads[channel.me] = _build_own_head(channel)
    for name, told in heads.items():
        _check_head(channel, name, told)
    return heads


def _check_head(channel: RelayChannel, name: str, told: Any) -> None:
    try:
        head, signature = str(told["head"]), bytes.fromhex(told["signature"])
    except (KeyError, TypeError, ValueError):
        raise ProtocolError("bad_encoding", role=name, step=HEAD) from None
    if not channel.verify(name, HEADS, head.encode(), signature):
        raise ProtocolError("bad_signature", role=name, step=HEAD)
