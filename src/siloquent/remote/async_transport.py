"""Attempts on an event loop over kept connections: HTTP/1.1 by h11, with the blocking transport's limits.

h11 does no input or output, so bytes that follow an answer on a connection are detected: unsolicited bytes are never
taken for the answer to the next request.
"""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from siloquent.errors import MissingExtra
from siloquent.remote.calls import ApiCall
from siloquent.remote.exchange import Attempt, ServerLink
from siloquent.remote.replies import Lost, Reply, build_too_long, build_untrusted
from siloquent.remote.transport import (
    MAX_KEPT,
    PIECE_BYTES,
    STREAM_SECONDS,
    build_headers,
    describe_failure,
    encode_body,
)

if TYPE_CHECKING:
    import h11

MAX_WAITING_BYTES = 2**20


class AsyncApiTransport:
    """The connections of one asynchronous session, usable from several tasks and after a fork."""

    def __init__(self, link: ServerLink) -> None:
        try:
            import h11  # noqa: F401 - an extra: said when the session is made, not at its first request
        except ImportError:
            raise MissingExtra("client", "An asynchronous session") from None
        self.link, self._parts, self.is_closed = link, urlsplit(link.address), False
        self._idle: deque[_Connection] = deque()
        self._tls: ssl.SSLContext | None = None

    async def attempt(self, asked: Attempt) -> Reply | Lost:
        """Send a call once."""
        call, is_sent, used = asked.call, False, None
        try:
            async with asyncio.timeout(asked.seconds):
                used = await self._get_connection(call)
                is_sent = True
                found = await self._exchange(used, call)
        except ssl.SSLCertVerificationError as refused:
            return build_untrusted(refused.verify_message or "unknown")
        except (OSError, ValueError, _get_protocol_error()) as broken:  # TimeoutError is an OSError
            _abort(used)
            return Lost(describe_failure(broken), is_sent=is_sent)
        except BaseException:  # allowed: a cancelled request leaves no connection behind, and is raised again
            _abort(used)
            raise
        if isinstance(found, Lost) or self.is_closed or len(self._idle) >= MAX_KEPT or not used.begin_anew():
            _abort(used)
        else:
            self._idle.append(used)
        return found

    async def iter_pieces(self, call: ApiCall) -> AsyncIterator[bytes | Reply | Lost]:
        """Yield the pieces of a successful answer as they arrive, then (or instead) the outcome of the attempt."""
        used, is_sent = None, False
        try:
            used = await self._open_connection()
            used.read_seconds = max(used.read_seconds, STREAM_SECONDS)
            is_sent = True
            await self._send(used, call)
            status, headers = await used.receive_head()
            told = b""
            while piece := await used.receive_piece():
                if status == 200:
                    yield piece
                elif len(told) < PIECE_BYTES:
                    told += piece
            yield Reply(told, status, headers)
        except ssl.SSLCertVerificationError as refused:
            yield build_untrusted(refused.verify_message or "unknown")
        except (OSError, ValueError, _get_protocol_error()) as broken:
            yield Lost(describe_failure(broken), is_sent=is_sent)
        finally:
            _abort(used)

    async def close(self) -> None:
        """Close every connection; one in use is closed when its answer has arrived."""
        self.is_closed = True
        while self._idle:
            _abort(self._idle.pop())
        await asyncio.sleep(0)  # the loop closes them in its next iteration

    async def _get_connection(self, call: ApiCall) -> _Connection:
        """Return a kept connection that the server has not closed, or a new one; see ``Transport``."""
        while self._idle and call.may_repeat:
            kept = self._idle.pop()
            if kept.is_usable:
                return kept
            _abort(kept)
        return await self._open_connection()

    async def _open_connection(self) -> _Connection:
        assert self._parts.hostname is not None
        is_tls = self._parts.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = ssl.create_default_context()
        port = self._parts.port or (443 if is_tls else 80)
        loop, times = asyncio.get_running_loop(), self.link.timeouts
        async with asyncio.timeout(times.connect):
            _, made = await loop.create_connection(
                lambda: _Connection(times.read), self._parts.hostname, port, ssl=self._tls if is_tls else None
            )
        return made

    async def _exchange(self, used: _Connection, call: ApiCall) -> Reply | Lost:
        with suppress(ConnectionError):  # the reason for refusing a long body comes before the close: read it
            await self._send(used, call)
        status, headers = await used.receive_head()
        into: IO[bytes] = io.BytesIO()
        is_file = call.sink is not None and status == 200
        if is_file and call.sink is not None:
            into = call.sink
            into.seek(0)
            into.truncate()  # an earlier attempt may have left a part
        size, most = 0, call.max_bytes
        while piece := await used.receive_piece():
            size += len(piece)
            if size > most:
                return build_too_long(most)
            if is_file:
                await asyncio.to_thread(into.write, piece)
            else:
                into.write(piece)
        return Reply(b"" if is_file else into.getvalue(), status, headers)  # type: ignore[attr-defined]

    async def _send(self, used: _Connection, call: ApiCall) -> None:
        import h11

        headers, text = build_headers(call, self.link.token), encode_body(call)
        headers["Host"] = self._parts.netloc
        if isinstance(call.data, Path):
            headers["Content-Length"] = str(call.data.stat().st_size)
        elif text is not None or call.method != "GET":
            headers["Content-Length"] = str(len(text or b""))
        target = f"{self._parts.path.rstrip('/')}/v1{call.path}"
        await used.send(h11.Request(method=call.method, target=target, headers=list(headers.items())))
        if isinstance(call.data, Path):
            with call.data.open("rb") as file:
                while piece := await asyncio.to_thread(file.read, 2**20):
                    await used.send(h11.Data(data=piece))
        elif text:
            await used.send(h11.Data(data=text))
        await used.send(h11.EndOfMessage())


class _Connection(asyncio.Protocol):
    """One connection: the bytes received and not yet read, and whether the peer has closed it."""

    def __init__(self, read_seconds: float) -> None:
        import h11

        self._h11 = h11.Connection(h11.CLIENT)
        self.read_seconds, self._owner = read_seconds, os.getpid()
        self._loop = asyncio.get_running_loop()
        self._waiting, self._is_over = bytearray(), False
        self._broken: Exception | None = None
        self._news, self._may_write = asyncio.Event(), asyncio.Event()
        self._may_write.set()
        self._transport: Any = None

    @property
    def is_usable(self) -> bool:
        """Whether the connection is this process's and this loop's, is open, and has received no unsolicited bytes."""
        is_ours = self._owner == os.getpid() and self._loop is asyncio.get_running_loop()
        return is_ours and not self._is_over and not self._waiting and not self._transport.is_closing()

    def begin_anew(self) -> bool:
        """Prepare for another request; return whether that is possible."""
        import h11

        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
            return False
        if self._is_over or self._waiting or any(self._h11.trailing_data):
            return False
        self._h11.start_next_cycle()
        return True

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Send an event once the transport can take it."""
        if (data := self._h11.send(event)) and self._broken is None and not self._is_over:
            self._transport.write(data)
        async with asyncio.timeout(self.read_seconds):
            await self._may_write.wait()
        if self._is_over:
            raise ConnectionResetError

    async def receive_head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of the answer."""
        import h11

        while not isinstance(event := await self._receive_event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectionResetError
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
        return event.status_code, headers

    async def receive_piece(self) -> bytes:
        """Return some bytes of the body, empty at its end."""
        import h11

        while not isinstance(event := await self._receive_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ConnectionResetError
            if event.data:
                return bytes(event.data)
        return b""

    async def _receive_event(self) -> Any:
        import h11

        while (event := self._h11.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(self.read_seconds):
                while not self._waiting and not self._is_over:
                    self._news.clear()
                    await self._news.wait()
            if self._broken is not None and not self._waiting:
                raise ConnectionResetError
            data = bytes(self._waiting)
            self._waiting.clear()
            self._transport.resume_reading()
            self._h11.receive_data(data)
        return event

    def abort(self) -> None:
        """Close the connection at once. After a fork it is the parent's: only this process's end is closed."""
        if self._owner == os.getpid() and self._transport is not None and not self._loop.is_closed():
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > MAX_WAITING_BYTES:
            self._transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        self._is_over = True
        self._news.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._broken = True, exc
        self._news.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()


def _get_protocol_error() -> type[Exception]:
    import h11

    return h11.ProtocolError


def _abort(used: _Connection | None) -> None:
    if used is not None:
        used.abort()
