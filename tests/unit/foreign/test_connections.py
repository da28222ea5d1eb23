"""Strangers' connections are so many and so patient, and no more."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import uvicorn

from siloquent.foreign import connections

EACH = 5
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


slow: list[int] = []
"""A number for each slow answer that was begun."""


async def application(scope: dict[str, object], receive: object, send: object) -> None:
    """Reads the whole body and says how long it was; a body of 7 bytes makes it slow."""
    assert callable(receive)
    assert callable(send)
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if size == 7:
        slow.append(size)
        await asyncio.sleep(2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": str(min(size, 9)).encode()})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    with serving(max_each=EACH, max_all=100) as port:
        yield port


@contextmanager
def serving(*, max_each: int, max_all: int) -> Iterator[int]:
    protocol = connections.limited_protocol(
        lambda transport: str(transport.get_extra_info("peername")[0]), max_each=max_each, max_all=max_all
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            application,
            http=protocol,
            lifespan="off",
            log_level="error",
            timeout_keep_alive=60,
            limit_concurrency=max_all + 1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        while not server.started:
            time.sleep(0.005)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def opened(port: int, *, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(address, 0))


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


@pytest.mark.slow
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


SILENT = (b"", b"GET /", HEAD, HEAD + b"Content-Length: 50\r\n\r\nab", HEAD + b"\r\n")


def test_whoever_opens_many_connections_and_is_silent_holds_up_nobody_who_speaks() -> None:
    """Before a request, in its head, in its body, after its answer; from one address or from many."""
    with serving(max_each=1_000, max_all=20) as port, ExitStack() as held:
        for number in range(100):
            connection = held.enter_context(opened(port, address=f"127.0.0.{2 + number % 7}"))
            connection.sendall(SILENT[number % len(SILENT)])
            if number % 10 == 9:
                for _ in range(3):
                    with closing(opened(port)) as person:
                        person.sendall(HEAD + b"Content-Length: 2\r\n\r\nab")
                        assert answer(person) == "2"


def begun(port: int, count: int, held: ExitStack) -> list[socket.socket]:
    """So many connections whose requests are being served, which takes two seconds."""
    slow.clear()
    served = [held.enter_context(opened(port)) for _ in range(count)]
    for connection in served:
        connection.sendall(HEAD + b"Content-Length: 7\r\n\r\n1234567")
    while len(slow) < count:
        time.sleep(0.005)
    return served


def test_a_connection_that_speaks_or_is_served_keeps_its_place() -> None:
    with serving(max_each=1_000, max_all=20) as port, ExitStack() as held:
        served = begun(port, 3, held)
        sending = held.enter_context(opened(port, address="127.0.0.2"))
        sending.sendall(HEAD + b"Content-Length: 60\r\n\r\n")
        for number in range(60):
            held.enter_context(opened(port)).sendall(SILENT[number % len(SILENT)])
            sending.sendall(b"x")
        assert answer(sending) == "9"
        assert [answer(connection) for connection in served] == ["7"] * 3


def test_where_everybody_is_served_one_more_is_told_to_come_again() -> None:
    with serving(max_each=1_000, max_all=5) as port, ExitStack() as held:
        served = begun(port, 5, held)
        with closing(opened(port)) as late:
            late.sendall(HEAD + b"\r\n")
            assert late.recv(100).startswith(b"HTTP/1.1 503")
        assert [answer(connection) for connection in served] == ["7"] * 5
