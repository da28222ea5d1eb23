"""Untrusted connections: a limit for each peer, a time limit for each request, and always room for one more.

An open socket costs the client nothing, but the waiting server a file and a slot. uvicorn waits without limit for a
request that never comes, and refuses new clients once all slots are taken; asyncio waits a minute for a TLS handshake
that is not counted. Both servers, the workspace's and the relay's, use this protocol instead, which takes the plain
connection, counts it, and only then speaks TLS on it.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0
HANDSHAKE_SECONDS = 10.0
MAX_BACKLOG = 128
"""A longer queue delays all clients behind a flood: with 2,048, five times as long."""
OTHER_FILES = 512
QUIET_SECONDS = 60.0
_STRANGER = "? "
"""The prefix of a peer's name until its certificate is known."""
_log = logging.getLogger("siloquent.connections")


@dataclass(slots=True)
class _ConnectionLimits:
    who: Callable[[Any], str]
    max_each: int
    max_all: int
    state: Callable[[Any], dict[str, Any]] | None
    hears: Callable[[Any], bool] | None
    tls: ssl.SSLContext | None
    arriving: Callable[[Any], str] | None
    open: Counter[str] = field(default_factory=Counter)
    silent: dict[str, dict[_LimitedProtocol, None]] = field(default_factory=dict)
    """The connections of each peer that are waiting for data, the longest silent first."""

    def arrives(self, transport: Any) -> str:
        """Return the peer of a connection before its certificate is known."""
        return self.who(transport) if self.arriving is None else _STRANGER + self.arriving(transport)

    def has_room(self, peer: str) -> bool:
        """Return whether ``peer`` may open one more connection."""
        return not peer or peer.startswith(_STRANGER) or self.open[peer] < self.max_each

    def make_room(self) -> None:
        """Close the longest silent connection of the peer with the most silent ones, if all slots are taken.

        The longest silent of all would be wrong: many connections opened at once would displace one that has just sent
        data. If certificates name peers, those without one yet come first.
        """
        if self.open.total() >= self.max_all and self.silent:
            _log.warning("all places for connections are taken: the longest silent ones are closed")
            most = max(self.silent, key=lambda peer: (peer.startswith(_STRANGER), len(self.silent[peer])))
            next(iter(self.silent[most])).leave()

    def listen(self, to: _LimitedProtocol, peer: str) -> None:
        """Mark the connection as waiting for data from the peer."""
        self.silent.setdefault(peer, {})[to] = None

    def heard(self, from_: _LimitedProtocol, peer: str) -> None:
        """Mark the connection as not waiting for data for now."""
        of_peer = self.silent.get(peer, {})
        of_peer.pop(from_, None)
        if not of_peer:
            self.silent.pop(peer, None)


def build_limited_protocol(
    who: Callable[[Any], str],
    *,
    max_each: int,
    max_all: int,
    state: Callable[[Any], dict[str, Any]] | None = None,
    hears: Callable[[Any], bool] | None = None,
    tls: ssl.SSLContext | None = None,
    arriving: Callable[[Any], str] | None = None,
) -> type[asyncio.Protocol]:
    """Build uvicorn's HTTP protocol with limits on each connection.

    A connection is closed without a response if its peer already has ``max_each``, if the head of a request takes
    longer than ``REQUEST_SECONDS`` to arrive, or if an expected body is silent or a response unread for as long. A
    connection beyond ``max_all`` displaces a silent one of the peer that has the most of those, so many open
    connections never block active ones. All of this holds from the first packet, before TLS, whose handshake may take
    ``HANDSHAKE_SECONDS``.

    Args:
        who: Returns the peer's name of a transport, by which connections are counted. "" is not limited in number.
        max_all: The limit for all peers; give uvicorn a ``limit_concurrency`` above it, in case all are being served.
        state: Returns the contents of ``request.state`` for routes, from the transport.
        hears: Returns whether a connection is accepted at all, by its address.
        tls: The TLS context of connections; uvicorn itself gets none.
        arriving: Returns the peer's name until the handshake has ended, if ``who`` reads the peer's certificate. Such
            connections have no limit each, and are the first to be displaced.
    """
    limits = _ConnectionLimits(who, max_each, max_all, state, hears, tls, arriving)
    return type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits})


def prepare_process(connections: int, *loggers: str) -> int:
    """Prepare this process for that many connections: enough files, and a log that clients cannot fill.

    Args:
        loggers: The names of loggers that write a line for a request, beside those of the HTTP server.
    Returns:
        The size of uvicorn's backlog of waiting connections. asyncio accepts as many in one turn, and closes those
        without a slot two turns later: all of these need files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = 2 * connections + OTHER_FILES
    wanted = ours + 3 * MAX_BACKLOG
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        most = wanted
    else:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    for name in ("asyncio", "uvicorn.error", _log.name, *loggers):
        logger = logging.getLogger(name)
        if not any(isinstance(one, Seldom) for one in logger.filters):
            logger.addFilter(Seldom())
    return max(64, (most - ours) // 3)


class Seldom(logging.Filter):
    """A log filter that passes repeated messages once a minute: warnings, and that no more files can be opened.

    Our own errors always pass, with their tracebacks.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        text = str(record.msg).partition("\n")[0]
        is_often = record.levelno == logging.WARNING or text.startswith("socket.accept()")
        now = self._clock()
        if not is_often or now - self._told.get(text, -QUIET_SECONDS) < QUIET_SECONDS:
            return not is_often
        if len(self._told) >= 100:
            self._told.clear()
        self._told[text] = now
        return True


class _LimitedProtocol(H11Protocol):
    limits: _ConnectionLimits
    _peer: str | None = None  # None: refused before it began, or asked to close
    _has_begun = False
    _timer: asyncio.TimerHandle | None = None
    _unread: tuple[asyncio.TimerHandle, int] | None = None  # when to look again, and how much the peer had not read
    _handshake: asyncio.Task[None] | None = None
    _early: bytes | None = None  # bytes that arrived with the end of the handshake

    def connection_made(self, transport: Any) -> None:
        limits = self.limits
        is_heard = limits.hears is None or limits.hears(transport)
        if not is_heard or not self._take_place(limits.arrives(transport)):
            transport.abort()
        elif limits.tls is None:
            self._begin(transport)
        else:
            self.transport = transport
            self.connections.add(self)
            limits.listen(self, self._peer or "")
            self._handshake = self.loop.create_task(self._shake_hands(transport, limits.tls))

    def _take_place(self, peer: str) -> bool:
        limits = self.limits
        if not limits.has_room(peer):
            return False
        limits.make_room()
        self._peer = peer
        limits.open[peer] += 1
        return True

    async def _shake_hands(self, plain: Any, tls: ssl.SSLContext) -> None:
        """Speak TLS on a connection that has a slot, then HTTP, under the peer's current name."""
        transport = None
        if self._peer is not None:
            self._early = b""
            try:
                transport = await self.loop.start_tls(
                    plain, self, tls, server_side=True, ssl_handshake_timeout=HANDSHAKE_SECONDS
                )
            except OSError:  # timeout, another protocol, no certificate, or disconnected
                transport = None
        is_there = transport is not None and self._peer is not None
        self._forget()
        if not is_there or transport is None or not self._take_place(self.limits.who(transport)):
            plain.abort()
            return
        early, self._early = self._early, None
        self._begin(transport)
        if early:
            self.data_received(early)

    def _begin(self, transport: Any) -> None:
        self._has_begun = True
        super().connection_made(transport)
        if self.limits.state is not None:
            self.app_state = {**self.app_state, **self.limits.state(transport)}
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        if self._has_begun:
            super().connection_lost(exc)

    def leave(self) -> None:
        """Free the slot for another connection."""
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        if self._peer is None:
            return
        self.limits.open[self._peer] -= 1
        if not self.limits.open[self._peer]:
            del self.limits.open[self._peer]
        self._cancel()
        self._forget_unread()
        self.limits.heard(self, self._peer)
        self.connections.discard(self)
        self._peer = None

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            return
        if not self._has_begun:
            if self._early is None:
                self.leave()  # the connection does not use TLS
            else:
                self._early += data
            return
        super().data_received(data)
        if self._peer is None:
            return
        waits_for_head = self.conn.their_state is h11.IDLE
        if waits_for_head and self._timer is not None:
            return  # more of an incomplete head, whose timeout continues
        self._cancel()
        self.limits.heard(self, self._peer)
        if self.transport.is_closing():
            self.limits.listen(self, self._peer)  # a connection that is never closed must not block a slot
        elif waits_for_head or self.conn.their_state is h11.SEND_BODY:
            self._expect()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; a request that is being answered is told that its client has left.

        Its answer cannot be sent any more, and the attempt would write a traceback; so would a refusal after HEAD, or
        after the answer has begun.
        """
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._peer is not None:  # a response that nobody reads must not block a slot either
            self.limits.listen(self, self._peer)
            self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_unread()
        is_answering = self._has_begun and self.cycle is not None and not self.cycle.response_complete
        if self._peer is not None and is_answering:
            self.limits.heard(self, self._peer)

    def _await_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        if self._unread is not None and left >= self._unread[1]:
            self._unread = None
            self.transport.abort()
            return
        self._unread = self.loop.call_later(REQUEST_SECONDS, self._await_reader), left

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread[0].cancel()
            self._unread = None

    def eof_received(self) -> None:
        if self._has_begun and self._peer is not None:
            super().eof_received()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._cancel()
        if self._peer is not None and (self.conn.their_state is h11.IDLE or self.transport.is_closing()):
            self.limits.listen(self, self._peer)  # uvicorn closes it in time

    def _should_upgrade(self) -> bool:
        return False  # no route upgrades to another protocol, which would escape all limits

    def _expect(self) -> None:
        if self._peer is not None:
            self.limits.listen(self, self._peer)
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._close_if_slow)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_if_slow(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # the application has paused reading
            self._expect()
        elif self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self.transport.abort()
