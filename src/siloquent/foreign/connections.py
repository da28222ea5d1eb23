"""Connections of strangers: so many from each, and so long until a request is whole.

A socket costs whoever opens it nothing, and a server that waits for it a file and a place. uvicorn waits for ever for a
request that never comes; both of our servers, the workspace's and the relay's, use this protocol instead.
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
    state: Callable[[Any], dict[str, Any]] | None
    hears: Callable[[Any], bool] | None
    open: Counter[str] = field(default_factory=Counter)


def limited_protocol(
    who: Callable[[Any], str],
    *,
    max_each: int,
    state: Callable[[Any], dict[str, Any]] | None = None,
    hears: Callable[[Any], bool] | None = None,
) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol with limits on each connection.

    A connection is closed without a word if its peer has ``max_each`` already, if the head of a request takes longer
    than ``REQUEST_SECONDS`` to arrive, and if a body that is waited for is silent for as long.

    Args:
        who: Whose connection a transport is; its text is what is counted by. "" is not limited in number.
        state: What routes find in ``request.state``, from the transport.
        hears: Whether a connection is taken at all.
    """
    return type("LimitedProtocol", (_Limited,), {"limits": _Limits(who, max_each, state, hears)})


class _Limited(H11Protocol):
    limits: _Limits
    _peer: str | None = None  # None: refused before it began
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        peer, limits = self.limits.who(transport), self.limits
        is_heard = limits.hears is None or limits.hears(transport)
        if not is_heard or (peer and limits.open[peer] >= limits.max_each):
            transport.abort()
            return
        self._peer = peer
        limits.open[peer] += 1
        super().connection_made(transport)
        if limits.state is not None:
            self.app_state = {**self.app_state, **limits.state(transport)}
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is None:
            return
        self.limits.open[self._peer] -= 1
        if not self.limits.open[self._peer]:
            del self.limits.open[self._peer]
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            return
        super().data_received(data)
        waits_for_head = self.conn.their_state is h11.IDLE
        if waits_for_head and self._timer is not None:
            return  # more of a head that is not whole: its time goes on
        self._cancel()
        if waits_for_head or self.conn.their_state is h11.SEND_BODY:
            self._expect()

    def eof_received(self) -> None:
        if self._peer is not None:
            super().eof_received()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._cancel()

    def _expect(self) -> None:
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
