"""Attempts on an event loop: HTTP/1.1 by httpx, with the same bounds as the blocking transport has."""

from __future__ import annotations

import asyncio
import io
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from siloquent.errors import MissingExtra
from siloquent.remote.calls import Call
from siloquent.remote.exchange import Attempt, Link
from siloquent.remote.replies import Lost, Reply, too_long, untrusted
from siloquent.remote.transport import MAX_KEPT, PIECE_BYTES, headers_of, reason_of, text_of

if TYPE_CHECKING:
    import httpx


class AsyncTransport:
    """The connections of one asynchronous session. It belongs to the event loop that uses it first."""

    def __init__(self, link: Link) -> None:
        try:
            import httpx  # noqa: F401 - an extra: said when the session is made, not at its first request
        except ImportError:
            raise MissingExtra("client", "An asynchronous session") from None
        self.link, self.is_closed = link, False
        self._clients: dict[bool, httpx.AsyncClient] = {}
        self._owner = os.getpid()

    async def attempt(self, asked: Attempt) -> Reply | Lost:
        """Send a call once."""
        import httpx

        call = asked.call
        try:
            async with asyncio.timeout(asked.seconds), self._stream(call) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                body = await _body(response, call)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as broken:
            return _not_sent(broken)
        except httpx.TimeoutException:
            return Lost(reason_of(TimeoutError()), is_sent=True)
        except (OSError, httpx.HTTPError, httpx.StreamError) as broken:  # TimeoutError too
            return Lost(reason_of(broken), is_sent=True)
        return body if isinstance(body, Lost) else Reply(body, response.status_code, headers)

    async def pieces(self, call: Call) -> AsyncIterator[bytes | Reply | Lost]:
        """The pieces of a good answer as they come; at its end, or where there is none, what became of it."""
        import httpx

        try:
            async with self._stream(call) as response:
                told = b""
                async for piece in response.aiter_raw():
                    if response.status_code == 200:
                        yield piece
                    elif len(told) < PIECE_BYTES:
                        told += piece
                headers = {name.lower(): value for name, value in response.headers.items()}
                yield Reply(told, response.status_code, headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as broken:
            yield _not_sent(broken)
        except (OSError, httpx.HTTPError, httpx.StreamError) as broken:
            yield Lost(reason_of(broken), is_sent=True)

    async def close(self) -> None:
        """Close every connection."""
        self.is_closed = True
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    @asynccontextmanager
    async def _stream(self, call: Call) -> AsyncIterator[httpx.Response]:
        client = self._client(may_repeat=call.may_repeat)
        headers = headers_of(call, self.link.token)
        content: bytes | AsyncIterator[bytes] | None = text_of(call)
        if isinstance(call.data, Path):
            headers["Content-Length"] = str(call.data.stat().st_size)
            content = _file(call.data)
        url = f"{self.link.address.rstrip('/')}/v1{call.path}"
        async with client.stream(call.method, url, headers=headers, content=content) as response:
            client.cookies.clear()  # no proxy's cookie is kept
            yield response

    def _client(self, *, may_repeat: bool) -> httpx.AsyncClient:
        """The client with kept connections; another for what may not be repeated, which never meets a closed one."""
        import httpx

        if self._owner != os.getpid():  # after a fork the parent's connections are left alone
            self._clients, self._owner = {}, os.getpid()
        if may_repeat not in self._clients:
            times = self.link.timeouts
            self._clients[may_repeat] = httpx.AsyncClient(
                verify=ssl.create_default_context(),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(times.read, connect=times.connect),
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=MAX_KEPT if may_repeat else 0),
            )
        return self._clients[may_repeat]


def _not_sent(broken: BaseException) -> Lost:
    seen: BaseException | None = broken
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return untrusted(seen.verify_message or "unknown")
        seen = seen.__cause__ or seen.__context__
    return Lost("no connection could be made", is_sent=False)


async def _file(path: Path) -> AsyncIterator[bytes]:
    """A file's bytes; the disk is read beside the event loop."""
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, 2**20):
            yield piece


async def _body(response: httpx.Response, call: Call) -> bytes | Lost:
    """The whole body, in memory or in the call's sink."""
    into: IO[bytes] = io.BytesIO()
    if call.sink is not None and response.status_code == 200:
        into = call.sink
        into.seek(0)
        into.truncate()  # an earlier attempt may have left a part
    size, most = 0, call.max_bytes
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > most:
            return too_long(most)
        if into is call.sink:
            await asyncio.to_thread(into.write, piece)
        else:
            into.write(piece)
    return into.getvalue() if isinstance(into, io.BytesIO) and into is not call.sink else b""
