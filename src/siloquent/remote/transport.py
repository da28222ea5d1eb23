"""Attempts over kept connections: HTTP/1.1 by the standard library, with a timeout for each read and write."""

from __future__ import annotations

import http.client
import io
import json
import os
import select
import ssl
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from siloquent.remote.calls import ApiCall
from siloquent.remote.exchange import Attempt, ServerLink
from siloquent.remote.replies import Lost, Reply, build_too_long, build_untrusted
from siloquent.version import VERSION

MAX_KEPT = 8
PIECE_BYTES = 2**16
STREAM_SECONDS = 45.0
"""The silence after which a stream has ended: three times the 15 seconds between a server's events."""


def build_headers(call: ApiCall, token: str) -> dict[str, str]:
    """Return the headers of one attempt."""
    found = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Accept-Encoding": "identity"}
    found |= {"User-Agent": f"siloquent/{VERSION}", **call.headers}
    if call.body is not None:
        found["Content-Type"] = "application/json"
    if call.data is not None:
        found["Content-Type"] = "application/octet-stream"
    if call.key is not None:
        found["Idempotency-Key"] = call.key
    return found


def encode_body(call: ApiCall) -> bytes | None:
    """Return the bytes that a call sends, except a file's."""
    if call.body is not None:
        return json.dumps(call.body).encode()
    return call.data if isinstance(call.data, bytes) else None


def describe_failure(broken: BaseException) -> str:
    """Return the reason for a missing answer, in our own words."""
    if isinstance(broken, TimeoutError):
        return "it took too long"
    if isinstance(broken, ConnectionRefusedError):
        return "the connection is refused"
    return "the connection broke"


class ApiTransport:
    """The connections of one session: kept between requests, usable from several threads and after a fork."""

    def __init__(self, link: ServerLink) -> None:
        self.link, self._parts, self.is_closed = link, urlsplit(link.address), False
        # A deque needs no lock: a lock held by another thread at a fork is never released in the child.
        self._idle: deque[tuple[int, http.client.HTTPConnection]] = deque()
        self._tls: ssl.SSLContext | None = None

    def attempt(self, asked: Attempt) -> Reply | Lost:
        """Send a call once."""
        call = asked.call
        until = None if asked.seconds is None else time.monotonic() + asked.seconds
        opened = self._get_connection(call, until)
        if isinstance(opened, Lost):
            return opened
        connection, sock = opened
        sock.until = until
        try:
            with closing(self._send(connection, call)) as response:
                headers = {name.lower(): value for name, value in response.getheaders()}
                body = _read_body(response, call)
        except (OSError, http.client.HTTPException, ValueError) as broken:
            connection.close()
            return Lost(describe_failure(broken), is_sent=True)
        if isinstance(body, Lost):
            connection.close()
            return body
        self._keep(connection)
        return Reply(body, response.status, headers)

    def iter_pieces(self, call: ApiCall) -> Iterator[bytes | Reply | Lost]:
        """Yield the pieces of a successful answer as they arrive, then (or instead) the outcome of the attempt."""
        opened = self._get_connection(call, None, fresh=True)
        if isinstance(opened, Lost):
            yield opened
            return
        connection, sock = opened
        sock.until, sock.read_seconds = None, max(sock.read_seconds, STREAM_SECONDS)
        try:
            with closing(self._send(connection, call)) as response:
                headers = {name.lower(): value for name, value in response.getheaders()}
                while response.status == 200 and (piece := response.read1(PIECE_BYTES)):
                    yield piece
                yield Reply(response.read(PIECE_BYTES), response.status, headers)
        except (OSError, http.client.HTTPException, ValueError) as broken:
            yield Lost(describe_failure(broken), is_sent=True)
        finally:
            connection.close()

    def close(self) -> None:
        """Close every connection; one in use is closed when its answer has arrived."""
        self.is_closed = True
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[1].close()

    def _get_connection(
        self, call: ApiCall, until: float | None, *, fresh: bool = False
    ) -> tuple[http.client.HTTPConnection, _Timed] | Lost:
        """Return a kept connection that the server has not closed, or a new one.

        A request that may not be repeated gets a new one: the server may close a kept one just as it is used.
        """
        while self._idle and call.may_repeat and not fresh:
            with suppress(IndexError):
                owner, kept = self._idle.pop()
                if owner == os.getpid() and isinstance(kept.sock, _Timed) and kept.sock.is_quiet:
                    return kept, kept.sock
                kept.close()  # the server closed it, or the parent process uses it
        try:
            return self._open_connection(until)
        except ssl.SSLCertVerificationError as refused:
            return build_untrusted(refused.verify_message or "unknown")
        except (OSError, ValueError) as broken:
            return Lost(describe_failure(broken), is_sent=False)

    def _open_connection(self, until: float | None) -> tuple[http.client.HTTPConnection, _Timed]:
        assert self._parts.hostname is not None
        times = self.link.timeouts
        wait = times.connect if until is None else max(0.001, min(times.connect, until - time.monotonic()))
        where = (self._parts.hostname, self._parts.port)
        if self._parts.scheme == "https":
            if self._tls is None:
                self._tls = ssl.create_default_context()
            made: http.client.HTTPConnection = http.client.HTTPSConnection(*where, timeout=wait, context=self._tls)
        else:
            made = http.client.HTTPConnection(*where, timeout=wait)
        made.connect()
        sock = _Timed(made.sock, times.read)
        made.sock = sock
        return made, sock

    def _send(self, connection: http.client.HTTPConnection, call: ApiCall) -> http.client.HTTPResponse:
        path = f"{self._parts.path.rstrip('/')}/v1{call.path}"
        headers, text = build_headers(call, self.link.token), encode_body(call)
        try:
            if isinstance(call.data, Path):
                with call.data.open("rb") as file:
                    headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
                    connection.request(call.method, path, file, headers)
            else:
                connection.request(call.method, path, text, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server that refuses a long body says why before it closes the connection: read that
        return connection.getresponse()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is None or self.is_closed or len(self._idle) >= MAX_KEPT:
            connection.close()
        else:
            self._idle.append((os.getpid(), connection))


def _read_body(response: http.client.HTTPResponse, call: ApiCall) -> bytes | Lost:
    """Read the whole body into memory or the call's sink; a truncated one is lost."""
    into: IO[bytes] = io.BytesIO()
    if call.sink is not None and response.status == 200:
        into = call.sink
        into.seek(0)
        into.truncate()  # an earlier attempt may have left a part
    size, most = 0, call.max_bytes
    while piece := response.read(PIECE_BYTES):
        size += len(piece)
        if size > most:
            return build_too_long(most)
        into.write(piece)
    if response.length:  # the standard library takes a truncated body for a whole one
        return Lost("the connection broke", is_sent=True)
    return into.getvalue() if isinstance(into, io.BytesIO) and into is not call.sink else b""


class _Timed:
    """A connected socket whose reads and writes time out, even if single bytes keep arriving."""

    def __init__(self, sock: Any, read: float) -> None:
        self._sock, self.read_seconds = sock, read
        self.until: float | None = None
        self._readers, self._closed = 0, False

    @property
    def is_quiet(self) -> bool:
        """Whether the peer has neither closed the connection nor sent unsolicited bytes."""
        try:
            waiting = select.poll()
            waiting.register(self._sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
            return not waiting.poll(0)
        except (OSError, ValueError):
            return False

    def sendall(self, data: Any) -> None:
        """Send bytes."""
        self._arm()
        self._sock.sendall(data)

    def receive_into(self, room: Any) -> int:
        """Receive some bytes into a buffer."""
        self._arm()
        return int(self._sock.recv_into(room))

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Return a reader of the received bytes, as the standard library expects."""
        self._readers += 1
        return io.BufferedReader(_Reader(self))

    def fileno(self) -> int:
        """Return the socket's file descriptor."""
        return int(self._sock.fileno())

    def close(self) -> None:
        """Close the socket once its readers are closed."""
        self._closed = True
        if not self._readers:
            self._sock.close()

    def let_go(self) -> None:
        """Release a reader."""
        self._readers -= 1
        if self._closed:
            self.close()

    def _arm(self) -> None:
        left = self.read_seconds if self.until is None else min(self.read_seconds, self.until - time.monotonic())
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)


class _Reader(io.RawIOBase):
    """A raw reader of a timed socket."""

    def __init__(self, sock: _Timed) -> None:
        self._from = sock

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        return self._from.receive_into(room)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._from.let_go()
