"""Connections of a session: one for many requests, none after its end, none shared with another process or loop."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from journeys.faces import FACES, session_of
from siloquent.errors import MissingExtra, RequestError, Unanswered
from siloquent.remote import AsyncRemoteSession, RemoteSession, connect_async
from siloquent.remote.calls import build_call
from siloquent.remote.exchange import ServerLink, Timeouts
from siloquent.remote.transport import MAX_KEPT
from siloquent.remote.verbs.releases import _dump_sketch_question

TOKEN = "sq_00000000_x"
PERSON = b'{"name": "ana", "role": "analyst", "tables": [], "expires": "2030-01-01"}'


class Counted(ThreadingHTTPServer):
    """A server that keeps connections, and counts those that were made, by the number of requests on each."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        self.requests: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.most = 10**9
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Counted

    def setup(self) -> None:
        super().setup()
        self.number = len(self.server.requests)
        self.server.requests.append(0)

    def do_GET(self) -> None:
        self.server.requests[self.number] += 1
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.send_response(200)
        self.send_header("Content-Length", str(len(PERSON)))
        self.end_headers()
        self.wfile.write(PERSON)
        self.close_connection = self.server.requests[self.number] >= self.server.most

    do_POST = do_GET  # noqa: N815 - the standard library's own name

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Counted]:
    made = Counted()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@contextmanager
def at(server: Counted, face: str, **link: Any) -> Iterator[Any]:
    with session_of(face, server.address, TOKEN, **link) as session:
        yield session


@pytest.mark.parametrize("face", FACES)
def test_many_requests_take_one_connection(server: Counted, face: str) -> None:
    with at(server, face) as session:
        for _ in range(20):
            assert session.get_person().name == "ana"
    assert server.requests == [20]


@pytest.mark.parametrize("face", FACES)
def test_a_connection_that_the_server_closed_is_not_used_again(server: Counted, face: str) -> None:
    server.most = 3
    with at(server, face, attempts=1) as session:
        for _ in range(7):
            session.get_person()
            if face == "awaited":  # the loop hears of the end at its next turn
                session._loop.run_until_complete(asyncio.sleep(0.02))
    assert server.requests == [3, 3, 1]


@pytest.mark.parametrize("face", FACES)
def test_what_may_not_be_repeated_never_meets_a_connection_that_may_be_closed(server: Counted, face: str) -> None:
    with at(server, face) as session:
        session.get_person()
        for _ in range(2):
            with pytest.raises(RequestError):  # the peer's document is of another kind
                session.decide("s", "approved")
    assert len(server.requests) == 3


@pytest.mark.parametrize("face", FACES)
def test_a_closed_session_asks_nothing_and_holds_nothing(server: Counted, face: str) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with at(server, face) as session:
        session.get_person()
    with pytest.raises(RequestError, match="closed"):
        session.get_person() if face == "blocking" else asyncio.run(session._inner.get_person())
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # the server's end may still be there


def test_threads_share_a_session(server: Counted) -> None:
    with at(server, "blocking") as session, ThreadPoolExecutor(16) as threads:
        assert {one.name for one in threads.map(lambda _: session.get_person(), range(200))} == {"ana"}
        assert len(session._transport._idle) <= MAX_KEPT
    assert sum(server.requests) == 200
    assert len(server.requests) < 100


def test_tasks_share_a_session(server: Counted) -> None:
    async def many() -> set[str]:
        async with AsyncRemoteSession(ServerLink(server.address, TOKEN)) as session:
            found = await asyncio.gather(*(session.get_person() for _ in range(50)))
            found += [await session.get_person() for _ in range(50)]
        return {one.name for one in found}

    assert asyncio.run(many()) == {"ana"}
    assert sum(server.requests) == 100
    assert len(server.requests) <= 50


@pytest.mark.parametrize("face", FACES)
def test_a_child_process_makes_connections_of_its_own_and_leaves_its_parents_alone(server: Counted, face: str) -> None:
    with at(server, face) as session:
        session.get_person()
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            with suppress(BaseException):
                if face == "awaited":
                    session._loop = asyncio.new_event_loop()
                session.get_person()
                session.close() if face == "blocking" else session._loop.run_until_complete(session._inner.close())
                os.write(writing, b"told")
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        assert os.read(reading, 10) == b"told"
        os.close(reading)
        session.get_person()
        session.get_person()
    assert server.requests == [3, 1]


def test_a_second_loop_makes_connections_of_its_own(server: Counted) -> None:
    session = AsyncRemoteSession(ServerLink(server.address, TOKEN))
    for _ in range(2):
        assert asyncio.run(session.get_person()).name == "ana"
    assert server.requests == [1, 1]


@pytest.mark.parametrize("face", FACES)
def test_a_file_is_sent_as_it_is_and_again_from_its_start(server: Counted, face: str, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "reports").write_bytes(data)
    with at(server, face) as session:
        for sent in (tmp_path / "reports", data, b""):
            with pytest.raises(RequestError, match="Counts"):
                session.ingest("walks", sent)
    assert server.bodies == [data, data, b""]
    assert {one["content-type"] for one in server.headers} == {"application/octet-stream"}


@pytest.mark.parametrize("face", FACES)
def test_what_identifies_the_client_and_the_person_is_sent_and_nothing_else(server: Counted, face: str) -> None:
    with at(server, face) as session:
        session.get_person()
    (sent,) = server.headers
    assert sent.pop("user-agent").startswith("siloquent/")
    assert sent.pop("host") == server.address.removeprefix("http://")
    assert sent.pop("authorization") == f"Bearer {TOKEN}"
    assert sent == {"accept": "application/json", "accept-encoding": "identity"}


@pytest.mark.parametrize("face", FACES)
def test_a_server_that_is_not_there_is_said_and_cost_nothing(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siloquent.remote.exchange.FIRST_PAUSE_SECONDS", 0.0001)
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with session_of(face, address, TOKEN) as session, pytest.raises(Unanswered, match="refused") as nobody:
        session.ask("SELECT COUNT(*) FROM t ERROR 9", key="k")
    assert nobody.value.spent == "nothing"


@pytest.mark.parametrize("face", FACES)
def test_time_ends_a_request_whose_peer_accepts_and_says_nothing(face: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        session_of(
            face, f"http://127.0.0.1:{mute.getsockname()[1]}", TOKEN, attempts=1, timeouts=Timeouts(read=0.05)
        ) as session,
        pytest.raises(Unanswered, match="too long") as late,
    ):
        session.ask("SELECT COUNT(*) FROM t ERROR 9", key="k")
    assert "perhaps" in late.value.spent


def test_without_the_extra_the_asynchronous_session_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h11", None)
    monkeypatch.setenv("SILOQUENT_TOKEN", TOKEN)
    with pytest.raises(MissingExtra, match="client"):
        connect_async("https://clinic.example.org")


def test_a_verb_can_be_called_on_its_class_as_steps() -> None:
    with RemoteSession(ServerLink("http://127.0.0.1:9", TOKEN)) as session:
        attempt = next(RemoteSession.get_person(session))
    assert attempt.call == build_call("me")  # type: ignore[union-attr]


def test_a_question_to_a_sketch_is_sent_as_the_route_takes_it() -> None:
    import numpy as np

    from siloquent import sketch

    points = np.array([[1.0, 2.0]])
    assert _dump_sketch_question(sketch.Anomaly(points, share=0.02)) == {
        "kind": "anomaly",
        "share": 0.02,
        "points": [[1.0, 2.0]],
    }
    assert _dump_sketch_question(sketch.Modes(count=3)) == {"kind": "modes", "count": 3}
    for wrong in (sketch.Classify(points, rule="map"), sketch.Modes(seed=4), sketch.Anomaly(points, threshold=1.0)):
        with pytest.raises(RequestError):
            _dump_sketch_question(wrong)


@pytest.mark.parametrize("name", ["a/b", "../x", "a?b=c", "a#b", "a b", "a%2fb", "é", "a\r\nX: y"])
def test_a_name_in_a_path_stays_a_name(name: str) -> None:
    from urllib.parse import unquote, urlsplit

    asked = build_call("show_release", {"release": name}).path
    assert urlsplit(asked).path.count("/") == 2
    assert unquote(asked.rpartition("/")[2]) == name
    assert asked.isascii()
    assert asked.isprintable()
    assert " " not in asked
