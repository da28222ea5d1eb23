"""Bytes that are almost HTTP, from a stranger: each is refused or closed, and none writes a traceback."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.trials.served import Running, running
from journeys.served import clinic_workspace

METHODS = (b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"")
PATHS = (b"/v1/me", b"/v1/answers", b"/login", b"/healthz", b"//v1/me", b"*", b"/v1/me\x00", b"/" + b"a" * 20_000)
HEADERS = (
    *(b"Host: a\r\nHost: b", b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 5\r\nContent-Length: 6"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"transfer-encoding : chunked", b" folded"),
    *(b"Expect: 100-continue", b"Upgrade: websocket\r\nConnection: Upgrade", b"Connection: close", b"no colon"),
    *(b"Content-Type: \xff", b"Cookie: siloquent=\xff;;=", b"Accept: text/html", b"Authorization: Bearer x"),
)
BODIES = (
    *(b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\nx", b"-1\r\n", b"+5\r\nhello\r\n0\r\n\r\n"),
    *(b"5;ext=" + b"a" * 9_000, b"GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n" * 9, b"\xff" * 100),
)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A server in a process of its own, and the file in which its log ends."""
    place = tmp_path_factory.mktemp("raw")
    with (place / "log").open("wb") as log, running(clinic_workspace(place / "clinic"), said=log) as server:
        yield server, place / "log"


def exchange(port: int, *pieces: bytes) -> bytes:
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sent:
        try:
            for piece in pieces:
                sent.sendall(piece)
            sent.shutdown(socket.SHUT_WR)
            while piece := sent.recv(65_536):
                found += piece
        except OSError:  # closed while it was sent
            pass
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_of_a_stranger_break_the_server_or_fill_its_log(heard: tuple[Running, Path], seed: int) -> None:
    (server, log), chance = heard, random.Random(seed)
    for _ in range(250):
        line = b" ".join((chance.choice(METHODS), chance.choice(PATHS), b"HTTP/1.1"))
        heads = chance.sample(HEADERS, chance.randrange(6))
        found = exchange(server.port, b"\r\n".join((line, b"Host: y", *heads)) + b"\r\n\r\n", chance.choice(BODIES))
        assert b"HTTP/1.1 5" not in found, (line, heads, found)
    assert "Traceback" not in log.read_text()
    assert exchange(server.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("method", METHODS[:4])
@pytest.mark.parametrize("path", [b"/v1/me", b"/login", b"/healthz", b"/v1/answers"])
def test_a_body_that_is_not_chunked_as_it_says_ends_its_request_and_writes_nothing(
    heard: tuple[Running, Path], method: bytes, path: bytes
) -> None:
    server, log = heard
    head = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(10):
        assert exchange(server.port, head + b"x\r\n")[:10] in (b"", b"HTTP/1.1 4", b"HTTP/1.1 2")
    assert "Traceback" not in log.read_text()
