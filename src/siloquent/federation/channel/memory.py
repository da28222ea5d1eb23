"""A channel within one process, with a thread for each role: for tests, the demo and sessions on one laptop."""

from __future__ import annotations

import hashlib
import hmac
import secrets  # allowed: session ids, no noise
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from siloquent.errors import CAUSES, ProtocolError
from siloquent.federation.channel.base import Channel, Members, RoleState, Status, build_missing, check_step
from siloquent.federation.messages.payload import parse_kind

T = TypeVar("T")
Key = tuple[str, str, str, int]  # sender, receiver, step, attempt


class MemoryNetwork:
    """All roles of one session in one process. Give each role ``open_channel(name)`` and its own thread.

    A second ``open_channel(name)`` is that role after a restart: its messages and its state are unchanged.
    """

    def __init__(self, members: Members, *, session: bytes | None = None) -> None:
        self.members = members
        self.session = session if session is not None else secrets.token_bytes(32)  # allowed: an id, no noise
        self.secret = secrets.token_bytes(32)  # allowed: a key, no noise
        self._news = threading.Condition()
        self._messages: dict[Key, bytes] = {}
        self._gathered: dict[tuple[str, str, int], tuple[str, ...]] = {}
        self._states: dict[str, MemoryState] = {name: MemoryState() for name in self._list_names()}
        self._ended: tuple[str, str, str] | None = None  # the role that aborted, the code, the step

    def open_channel(self, name: str) -> MemoryChannel:
        """Open the channel end of ``name``."""
        return MemoryChannel(self, self.members[name].name)

    def list_traffic(self) -> dict[Key, bytes]:
        """Return every message so far, for tests that check what messages must not contain."""
        with self._news:
            return dict(self._messages)

    def _list_names(self) -> list[str]:
        return [member.name for member in self.members]


class MemoryState:
    """Durable values that last as long as their network."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return the value stored under ``key``."""
        return self._kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Store ``value``."""
        self._kept[key] = bytes(value)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        """Store all of ``values``."""
        self._kept |= {key: bytes(value) for key, value in values.items()}

    def erase(self, key: str) -> None:
        """Erase ``key``."""
        self._kept.pop(key, None)


class MemoryChannel:
    """One role's end of a ``MemoryNetwork``; see ``Channel``. Calls block the calling thread."""

    def __init__(self, network: MemoryNetwork, me: str) -> None:
        self._net, self._me = network, me
        self._step, self._since = "", time.monotonic()
        self._waiting: tuple[str, ...] = ()

    @property
    def me(self) -> str:
        """The name of this role."""
        return self._me

    @property
    def session(self) -> bytes:
        """The session's id."""
        return self._net.session

    @property
    def members(self) -> Members:
        """All members of this session."""
        return self._net.members

    @property
    def state(self) -> MemoryState:
        """This role's durable bytes."""
        return self._net._states[self._me]

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        """Send ``payload`` to ``to``."""
        check_step(step, attempt)
        parse_kind(payload)
        key = (self._me, self.members[to].name, step, attempt)
        with self._net._news:
            self._refuse_if_ended()
            if self._net._messages.setdefault(key, bytes(payload)) != payload:
                raise ProtocolError("message_conflict", role=self._me, step=step)
            self._net._news.notify_all()

    def is_sent(self, to: str, step: str, attempt: int = 0) -> bool:
        """Return whether this message was sent."""
        with self._net._news:
            return (self._me, to, step, attempt) in self._net._messages

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
        until = None if timeout is None else time.monotonic() + timeout
        with self._net._news:
            decided = self._net._gathered.get((self._me, step, attempt))
            while decided is None and len(found := self._list_arrived(wanted, step, attempt)) < len(wanted):
                self._refuse_if_ended()
                self._set_waiting(step, tuple(name for name in wanted if name not in found))
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    if len(found) < (len(wanted) if enough is None else enough):
                        raise build_missing(step, self._waiting[0])
                    decided = found
                else:
                    self._net._news.wait(left)
            self._refuse_if_ended()
            self._set_waiting(step, ())
            names = self._net._gathered.setdefault((self._me, step, attempt), decided or wanted)
            return {name: self._net._messages[name, self._me, step, attempt] for name in names}

    def sign(self, label: str, content: bytes) -> bytes:
        """Return this role's mark on ``content``; it replaces a signature only here: one network knows all keys."""
        key = hashlib.blake2b(self._net.session + self._me.encode(), key=self._net.secret, digest_size=32).digest()
        return hashlib.blake2b(label.encode() + b"|" + content, key=key, digest_size=64).digest()

    def verify(self, role: str, label: str, content: bytes, signature: bytes) -> bool:
        """Return whether ``role`` made this mark."""
        return hmac.compare_digest(self._net.open_channel(role).sign(label, content), signature)

    def read_head(self) -> str:
        """Return a hash over this role's messages; fixed by the first call."""
        kept = self.state.get("transcript")
        if kept is None:
            mine = sorted(
                f"{key}{hashlib.sha256(value).hexdigest()}"
                for key, value in self._net.list_traffic().items()
                if self._me in key[:2]
            )
            kept = f"{len(mine)}:{hashlib.sha256(''.join(mine).encode()).hexdigest()}".encode()
            self.state.put("transcript", kept)
        return kept.decode()

    def abort(self, code: str, *, step: str = "") -> NoReturn:
        """End the session for all."""
        assert code in CAUSES, code
        step = step or self._step
        with self._net._news:
            self._refuse_if_ended()
            self._net._ended = (self._me, code, step)
            self._net._news.notify_all()
        raise ProtocolError(code, role=self._me, step=step)

    def get_status(self) -> Status:
        """Return the progress of this role."""
        with self._net._news:
            state: RoleState = "running" if self._net._ended is None else "aborted"
            return Status(self._me, state, self._step, self._waiting, time.monotonic() - self._since)

    def _list_arrived(self, wanted: tuple[str, ...], step: str, attempt: int) -> tuple[str, ...]:
        return tuple(name for name in wanted if (name, self._me, step, attempt) in self._net._messages)

    def _set_waiting(self, step: str, names: tuple[str, ...]) -> None:
        if (step, names) != (self._step, self._waiting):
            self._step, self._waiting, self._since = step, names, time.monotonic()

    def _refuse_if_ended(self) -> None:
        if self._net._ended is not None:
            role, code, step = self._net._ended
            raise ProtocolError("aborted_by", role=role, step=step, where=code)


def run_all(network: MemoryNetwork, parts: Mapping[str, Callable[[Channel], T]]) -> dict[str, T]:
    """Run every role's part in its own thread and return each part's result.

    The first part that fails aborts the session, so that no role waits for it; its error is raised here.
    """
    results: dict[str, T] = {}
    failed: list[BaseException] = []

    def run(name: str) -> None:
        channel = network.open_channel(name)
        try:
            results[name] = parts[name](channel)
        except BaseException as error:  # allowed: raised below, in the caller's thread
            failed.append(error)
            _abort_quietly(channel, error if isinstance(error, ProtocolError) else ProtocolError())

    threads = [threading.Thread(target=run, args=(name,), name=name, daemon=True) for name in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return {name: results[name] for name in parts}


def _abort_quietly(channel: Any, failed: ProtocolError) -> None:
    try:
        channel.abort("protocol_failed" if failed.code == "aborted_by" else failed.code, step=failed.step)
    except ProtocolError:
        return
