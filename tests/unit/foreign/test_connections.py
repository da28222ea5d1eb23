"""Strangers' connections are so many and so patient, and no more."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pytest
import uvicorn

from siloquent.federation.identity import operator
from siloquent.federation.identity.operator import FederationDescription
from siloquent.foreign import connections
from siloquent.foreign.addresses import address_of

EACH = 5
LONG = 400
HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


slow: list[int] = []
"""A number for each slow answer that was begun."""


async def application(scope: dict[str, object], receive: object, send: object) -> None:
    """Reads the whole body and says how long it was; a body of 7 bytes makes it slow, one of 6 makes it say much."""
    assert callable(receive)
    assert callable(send)
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    if size == 7:
        slow.append(size)
        await asyncio.sleep(2)
    if size == 6:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(LONG):
            await send({"type": "http.response.body", "body": bytes(2**16), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": str(min(size, 9)).encode()})


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    with serving(max_each=EACH, max_all=100) as port:
        yield port


@contextmanager
def serving(
    *,
    max_each: int,
    max_all: int,
    tls: ssl.SSLContext | None = None,
    who: Callable[[Any], str] = address_of,
    arriving: Callable[[Any], str] | None = None,
    ws: Any = "auto",
) -> Iterator[int]:
    protocol = connections.build_limited_protocol(who, max_each=max_each, max_all=max_all, tls=tls, arriving=arriving)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            application,
            http=protocol,
            ws=ws,
            lifespan="off",
            log_level="error",
            timeout_keep_alive=60,
            limit_concurrency=max_all + 1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            while not server.started:
                time.sleep(0.005)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def opened(port: int, *, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(address, 0))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of 127.0.0.1 speaks TLS with, and what its clients do."""
    folder = tmp_path_factory.mktemp("tls") / "all"
    operator.init(FederationDescription("x", "https://127.0.0.1:1", (("north", "party", "North"),)), folder)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=folder / "relay/ca.pem")
    server.load_cert_chain(folder / "relay" / "tls.pem", folder / "relay" / "tls.key")
    return server, client


def secured(port: int, client: ssl.SSLContext, *, address: str = "127.0.0.1") -> ssl.SSLSocket:
    return client.wrap_socket(opened(port, address=address), server_hostname="127.0.0.1")


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


MUCH = HEAD + b"Content-Length: 6\r\nConnection: close\r\n\r\n123456"


@pytest.mark.parametrize("is_secured", [False, True])
def test_an_answer_that_is_not_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch, certified: tuple[ssl.SSLContext, ssl.SSLContext], is_secured: bool
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.4)
    server, client = certified
    with serving(max_each=EACH, max_all=100, tls=server if is_secured else None) as port, ExitStack() as held:
        unread = [
            held.enter_context(closing(secured(port, client) if is_secured else opened(port))) for _ in range(EACH)
        ]
        for one in unread:
            one.sendall(MUCH)
        time.sleep(2)
        with closing(secured(port, client) if is_secured else opened(port)) as next_one:  # their places are free again
            next_one.sendall(HEAD + b"\r\n")
            assert answer(next_one) == "0"
        for one in unread:
            assert read_all(one) < LONG * 2**16


def test_an_answer_that_is_read_slowly_comes_whole(port: int) -> None:
    with closing(opened(port)) as connection:
        connection.sendall(MUCH)
        assert read_all(connection, pause=0.001) > LONG * 2**16


def read_all(connection: socket.socket, *, pause: float = 0.0) -> int:
    """How many bytes come before the end."""
    size = 0
    with suppress(ConnectionResetError, ssl.SSLError):
        while data := connection.recv(2**15):
            size += len(data)
            time.sleep(pause)
    return size


def test_places_of_unread_answers_go_to_others_when_all_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(max_each=EACH, max_all=EACH) as port, ExitStack() as held:
        for number in range(EACH):
            one = held.enter_context(closing(opened(port, address=f"127.0.0.{2 + number}")))
            one.sendall(MUCH)
        time.sleep(0.5)
        with closing(opened(port)) as next_one:
            next_one.sendall(HEAD + b"\r\n")
            assert answer(next_one) == "0"


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


def hello(client: ssl.SSLContext) -> bytes:
    """The bytes with which a TLS handshake begins."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1").do_handshake()
    return sent.read()


Certified = tuple[ssl.SSLContext, ssl.SSLContext]


@pytest.mark.parametrize("arriving", [None, address_of], ids=["by address", "by certificate"])
def test_connections_that_never_finish_their_handshake_hold_up_nobody(
    certified: Certified, arriving: Callable[[Any], str] | None
) -> None:
    """Before the first byte, in the first message, after an answer to it, after the handshake, after a bad request."""
    server, client = certified
    begins = (b"", hello(client)[:9], hello(client), b"GET / HTTP/1.1\r\n\r\n")
    with serving(max_each=1_000, max_all=20, tls=server, arriving=arriving) as port, ExitStack() as held:
        for number in range(72):
            here = f"127.0.0.{2 + number % 7}"
            if number % 6 < 4:
                held.enter_context(opened(port, address=here)).sendall(begins[number % 6])
            else:
                held.enter_context(secured(port, client, address=here)).sendall((b"", b"BAD\r\n\r\n")[number % 2])
            if number % 12 == 11:
                for _ in range(3):
                    with closing(secured(port, client)) as person:
                        person.sendall(HEAD + b"Content-Length: 2\r\n\r\nab")
                        assert answer(person) == "2"


@pytest.mark.parametrize("sent", [0, 9, 10_000])
def test_a_handshake_that_does_not_end_is_not_waited_for(
    certified: Certified, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    server, client = certified
    monkeypatch.setattr(connections, "HANDSHAKE_SECONDS", 0.3)
    with serving(max_each=2, max_all=20, tls=server) as port:
        for _ in range(3):  # each gives its place on
            with closing(opened(port)) as one, closing(opened(port)) as two, closing(opened(port)) as refused:
                assert ended(refused)
                for connection in (one, two):
                    connection.sendall(hello(client)[:sent])
                    with suppress(ConnectionResetError):
                        while connection.recv(10_000):
                            pass
        with closing(secured(port, client)) as person:
            person.sendall(HEAD + b"\r\n")
            assert answer(person) == "0"


def test_whom_a_certificate_names_has_so_many_places_and_loses_none_to_strangers(certified: Certified) -> None:
    server, client = certified
    with (
        serving(max_each=EACH, max_all=20, tls=server, who=lambda _: "north", arriving=address_of) as port,
        ExitStack() as held,
    ):
        named = [held.enter_context(secured(port, client)) for _ in range(EACH)]
        for connection in named:
            connection.sendall(HEAD + b"\r\n")
            assert answer(connection) == "0"
        with closing(opened(port)) as plain, suppress(ConnectionResetError), closing(secured(port, client)) as refused:
            assert plain.fileno() > 0
            assert ended(refused)
        for number in range(40):
            held.enter_context(opened(port, address=f"127.0.0.{2 + number}"))
        for connection in named:
            connection.sendall(HEAD + b"\r\n")
            assert answer(connection) == "0"


def test_a_connection_that_was_refused_and_never_takes_leave_holds_no_place(certified: Certified) -> None:
    server, client = certified
    with serving(max_each=1_000, max_all=20, tls=server) as port, ExitStack() as held:
        for number in range(30):
            held.enter_context(secured(port, client, address=f"127.0.0.{2 + number % 7}")).sendall(b"BAD\r\n\r\n")
        with closing(secured(port, client)) as person:
            person.sendall(HEAD + b"\r\n")
            assert answer(person) == "0"


def test_a_request_that_comes_with_the_end_of_the_handshake_is_read(certified: Certified) -> None:
    server, client = certified
    heard, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    spoken = client.wrap_bio(heard, sent, server_hostname="127.0.0.1")
    with serving(max_each=9, max_all=20, tls=server) as port, closing(opened(port)) as connection:
        while True:
            try:
                spoken.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(sent.read())
                heard.write(connection.recv(10_000))
        spoken.write(HEAD + b"Content-Length: 2\r\n\r\nab")
        connection.sendall(sent.read())  # one packet
        got = b""
        while not got.endswith(b"\r\n\r\n2"):
            try:
                got += spoken.read(1_000)
            except ssl.SSLWantReadError:
                heard.write(connection.recv(10_000))
        assert got.startswith(b"HTTP/1.1 200")


def test_a_server_that_ends_waits_for_no_handshake(certified: Certified) -> None:
    with ExitStack() as held:
        with serving(max_each=9, max_all=20, tls=certified[0]) as port:
            waiting = [held.enter_context(opened(port)) for _ in range(3)]
        assert [ended(one) for one in waiting] == [True] * 3


class Silent(asyncio.Protocol):
    """What another package would speak after ``Upgrade``."""

    def __init__(self, **_: Any) -> None:
        pass


def test_no_other_protocol_takes_a_connection_out_of_its_limits() -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    with serving(max_each=2, max_all=20, ws=Silent) as port:
        for _ in range(5):
            with closing(opened(port)) as connection:
                connection.sendall(HEAD + upgrade + b"AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
                assert answer(connection) == "0"


@pytest.mark.parametrize("hard", [1_750, 1_900, 100_000, resource.RLIM_INFINITY])
def test_files_are_allowed_for_all_that_is_taken_at_once(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    given = [(1_024, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: given[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    backlog = connections.prepare_process(512)
    soft = given[-1][0]
    assert backlog >= 64
    assert 2 * 512 + connections.OTHER_FILES + 3 * backlog <= soft
    assert connections.prepare_process(512) == backlog
    assert backlog == connections.MAX_BACKLOG or soft == hard


def test_a_log_that_strangers_write_is_told_once_a_minute() -> None:
    now = [0.0]
    seldom = connections.Seldom(lambda: now[0])

    def told(text: str, level: int) -> bool:
        return seldom.filter(logging.LogRecord("x", level, "", 0, text, (), None))

    out_of_files = "socket.accept() out of system resource\nsocket: {}"
    for text, level in (("Invalid HTTP request received.", logging.WARNING), (out_of_files, logging.ERROR)):
        assert [told(text.format(number), level) for number in range(3)] == [True, False, False]
    assert [told("Exception in ASGI application\n", logging.ERROR) for _ in range(3)] == [True] * 3
    now[0] = 61.0
    assert [told("Invalid HTTP request received.", logging.WARNING) for _ in range(2)] == [True, False]
    assert [seldom.filter(logging.LogRecord("x", logging.WARNING, "", 0, f"{k}", (), None)) for k in range(300)]
