"""Connections of strangers: a limit for each peer, a time limit for each request, and room for one more at all times.

A socket costs whoever opens it nothing, and a server that waits for it a file and a place. uvicorn waits for ever for a
request that never comes, and refuses newcomers once all places are taken; both of our servers, the workspace's and the
relay's, use this protocol instead.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0


@dataclass(slots=True)
class _Limits:
    who: Callable[[Any], str]
    max_each: int
    max_all: int
    state: Callable[[Any], dict[str, Any]] | None
    hears: Callable[[Any], bool] | None
    open: Counter[str] = field(default_factory=Counter)
    silent: dict[str, dict[_Limited, None]] = field(default_factory=dict)
    """By peer, the connections on which it is to speak next, the one that has been silent for longest first."""

    def make_room(self) -> None:
        """If all places are taken, close the longest silent connection of the peer that has the most of them.

        Not the longest silent of all: many that are opened at once would take the place of one that has just spoken.
        """
        if self.open.total() >= self.max_all and self.silent:
            most = max(self.silent.values(), key=len)
            next(iter(most)).leave()

    def listen(self, to: _Limited, peer: str) -> None:
        """It is the peer's turn to speak on this connection."""
        self.silent.setdefault(peer, {})[to] = None

    def heard(self, from_: _Limited, peer: str) -> None:
        """It is not, for now."""
        of_peer = self.silent.get(peer, {})
        of_peer.pop(from_, None)
        if not of_peer:
            self.silent.pop(peer, None)


def limited_protocol(
    who: Callable[[Any], str],
    *,
    max_each: int,
    max_all: int,
    state: Callable[[Any], dict[str, Any]] | None = None,
    hears: Callable[[Any], bool] | None = None,
) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol with limits on each connection.

    A connection is closed without a word if its peer has ``max_each`` already, if the head of a request takes longer
    than ``REQUEST_SECONDS`` to arrive, and if a body that is waited for is silent for as long. A connection more than
    ``max_all`` takes the place of one on which nothing comes, of the peer that has the most of those: whoever opens
    many holds up nobody who speaks.

    Args:
        who: Whose connection a transport is; its text is what is counted by. "" is not limited in number.
        max_all: Of all peers; give uvicorn a ``limit_concurrency`` above it, for when all of them are being served.
        state: What routes find in ``request.state``, from the transport.
        hears: Whether a connection is taken at all.
    """
    return type("LimitedProtocol", (_Limited,), {"limits": _Limits(who, max_each, max_all, state, hears)})


class _Limited(H11Protocol):
    limits: _Limits
    _peer: str | None = None  # None: refused before it began, or told to leave
    _has_begun = False
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        peer, limits = self.limits.who(transport), self.limits
        is_heard = limits.hears is None or limits.hears(transport)
        if not is_heard or (peer and limits.open[peer] >= limits.max_each):
            transport.abort()
            return
        limits.make_room()
        self._peer = peer
        limits.open[peer] += 1
        self._has_begun = True
        super().connection_made(transport)
        if limits.state is not None:
            self.app_state = {**self.app_state, **limits.state(transport)}
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._has_begun:
            self._forget()
            super().connection_lost(exc)

    def leave(self) -> None:
        """Give the place to another connection."""
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        if self._peer is None:
            return
        self.limits.open[self._peer] -= 1
        if not self.limits.open[self._peer]:
            del self.limits.open[self._peer]
        self._cancel()
        self.limits.heard(self, self._peer)
        self._peer = None

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            return
        super().data_received(data)
        waits_for_head = self.conn.their_state is h11.IDLE
        if waits_for_head and self._timer is not None:
            return  # more of a head that is not whole: its time goes on
        self._cancel()
        self.limits.heard(self, self._peer or "")
        if waits_for_head or self.conn.their_state is h11.SEND_BODY:
            self._expect()

    def eof_received(self) -> None:
        if self._peer is not None:
            super().eof_received()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._cancel()
        if self._peer is not None and self.conn.their_state is h11.IDLE:
            self.limits.listen(self, self._peer)  # uvicorn closes it in time

    def _expect(self) -> None:
        if self._peer is not None:
            self.limits.listen(self, self._peer)
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # it is the application that does not read on
            self._expect()
        elif self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            self.transport.abort()
