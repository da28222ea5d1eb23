"""Strangers' connections are so many and so patient, and no more."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn

from siloquent.foreign import connections

EACH = 5
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def application(scope: dict[str, object], receive: object, send: object) -> None:
    """Reads the whole body and says how long it was; a body of 7 bytes makes it slow."""
    assert callable(receive)
    assert callable(send)
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await asyncio.sleep(1.0 if size == 7 else 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": str(min(size, 9)).encode()})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    protocol = connections.limited_protocol(lambda transport: "everybody", max_each=EACH)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, http=protocol, lifespan="off", log_level="error", timeout_keep_alive=60)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        while not server.started:
            time.sleep(0.005)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def opened(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def ended(connection: socket.socket) -> bool:
    """Whether the server closes it; it answers nothing before."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def answer(connection: socket.socket) -> str:
    """The body, one character, of the answer that comes next."""
    got = b""
    while b"\r\n\r\n" not in got or got.endswith(b"\r\n\r\n"):
        more = connection.recv(1_000)
        if not more:
            raise ConnectionResetError
        got += more
    return got[-1:].decode()


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"Content-Length: 5\r\n\r\nab"])
def test_a_request_that_does_not_come_is_not_waited_for(port: int, sent: bytes) -> None:
    with closing(opened(port)) as connection:
        connection.sendall(sent)
        assert ended(connection)


def test_a_head_that_trickles_is_not_waited_for(port: int) -> None:
    with closing(opened(port)) as connection:
        try:
            for letter in HEAD * 20:
                connection.sendall(bytes([letter]))
                time.sleep(0.05)
        except (BrokenPipeError, ConnectionResetError):
            return
        assert ended(connection)


def test_a_body_that_keeps_coming_is_read_however_long_it_takes(port: int) -> None:
    with closing(opened(port)) as connection:
        connection.sendall(HEAD + b"Content-Length: 8\r\n\r\n")
        for _ in range(8):
            time.sleep(0.15)
            connection.sendall(b"x")
        assert answer(connection) == "8"


def test_a_slow_answer_is_waited_for_and_the_connection_serves_again(port: int) -> None:
    with closing(opened(port)) as connection:
        for body in (b"1234567", b"12"):
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            assert answer(connection) == str(len(body))
            time.sleep(0.6)  # an idle connection is kept: that is the business of timeout_keep_alive


def test_nobody_has_more_connections_than_allowed(port: int) -> None:
    kept = [opened(port) for _ in range(EACH)]
    for connection in kept:
        connection.sendall(HEAD + b"\r\n")
        assert answer(connection) == "0"
    with closing(opened(port)) as refused:
        assert ended(refused)
    kept.pop().close()
    for _ in range(200):  # until the server has seen it go
        with closing(opened(port)) as again:
            try:
                again.sendall(HEAD + b"\r\n")
                if answer(again) == "0":
                    break
            except ConnectionResetError:
                pass
        time.sleep(0.01)
    else:
        pytest.fail("the place of a closed connection was not given on")
    for connection in kept:
        connection.close()
