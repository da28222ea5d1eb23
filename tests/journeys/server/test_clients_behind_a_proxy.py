"""A client, a proxy that does what proxies and attackers do, and a real server: one charge a key, one answer."""

from __future__ import annotations

import gzip
import http.client
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from journeys.faces import FACES, session_of
from journeys.served import Served
from siloquent.errors import ReleaseError, RequestError, SiloquentError, Unanswered
from siloquent.remote.exchange import Timeouts

SQL = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200 CONFIDENCE 0.99 REUSE NONE"
OTHER = "SELECT COUNT(*) FROM visits ERROR 300 REUSE NONE"
Forward = Callable[[], tuple[int, list[tuple[str, str]], bytes]]
numbers = itertools.count()


class Proxy:
    """Passes requests on, but for the next ones, each of which has a trick of its own."""

    def __init__(self, behind: str) -> None:
        self._host, self._port = behind.removeprefix("http://").split(":")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.tricks: list[str] = []
        self.heard: list[dict[str, str]] = []
        self.elsewhere = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listening, self.elsewhere, *self._open):
            with suppress(OSError):
                one.close()

    def was_redirected_to(self) -> bool:
        """Whether somebody came to the address that the proxy's redirects name."""
        self.elsewhere.settimeout(0.0)
        try:
            self.elsewhere.accept()
        except BlockingIOError:
            return False
        return True

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                conn, _ = self._listening.accept()
                self._open.append(conn)
                threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn: socket.socket) -> None:
        with suppress(OSError, http.client.HTTPException, ValueError), conn, conn.makefile("rb") as file:
            while line := file.readline():
                method, path, _ = line.decode().split(" ", 2)
                headers: dict[str, str] = {}
                while (text := file.readline().decode().strip()) != "":
                    name, _, value = text.partition(":")
                    headers[name.lower()] = value.strip()
                body = file.read(int(headers.get("content-length", 0)))
                self.heard.append({"path": path, **headers})
                trick = TRICKS[self.tricks.pop(0) if self.tricks else "pass"]
                if not trick(conn, lambda *asked: self._forward(*asked), (method, path, body, headers), self):
                    return

    def _forward(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        behind = http.client.HTTPConnection(self._host, int(self._port), timeout=60)
        behind.request(method, path, body or None, {k: v for k, v in headers.items() if k not in ("host",)})
        answered = behind.getresponse()
        data = answered.read()
        behind.close()
        kept = [(n, v) for n, v in answered.getheaders() if n.lower() not in ("content-length", "transfer-encoding")]
        return answered.status, kept, data


def head(status: int, headers: list[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(status: int, headers: list[tuple[str, str]], body: bytes) -> bytes:
    return head(status, [*headers, ("Content-Length", str(len(body)))]) + body


def page(status: int, *, after: bool, **more: str) -> Any:
    def trick(conn: socket.socket, forward: Any, asked: Any, _: Proxy) -> bool:
        if after:
            forward(*asked)
        conn.sendall(whole(status, [("Content-Type", "text/html"), *more.items()], b"<html>Bad Gateway</html>"))
        return True

    return trick


def answered(shape: Callable[[int, list[tuple[str, str]], bytes], bytes], *, goes_on: bool = False) -> Any:
    """The server's answer in another shape; the connection then ends, unless it ``goes_on``."""

    def trick(conn: socket.socket, forward: Any, asked: Any, _: Proxy) -> bool:
        conn.sendall(shape(*forward(*asked)))
        return goes_on

    return trick


def redirect(conn: socket.socket, forward: Any, asked: Any, proxy: Proxy) -> bool:
    there = f"http://127.0.0.1:{proxy.elsewhere.getsockname()[1]}{asked[1]}"
    conn.sendall(whole(307, [("Location", there), ("Content-Type", "application/json")], b"{}"))
    return True


def forever(*begin: bytes, again: bytes, pause: float = 0.0, after: bool = True) -> Any:
    """Begins, and never ends."""

    def trick(conn: socket.socket, forward: Any, asked: Any, _: Proxy) -> bool:
        if after:
            forward(*asked)
        conn.sendall(b"".join(begin))
        while True:
            conn.sendall(again)
            time.sleep(pause)

    return trick


def silent(conn: socket.socket, forward: Any, asked: Any, _: Proxy) -> bool:
    forward(*asked)
    time.sleep(30)
    return False


JSON = ("Content-Type", "application/json")
TRICKS: dict[str, Any] = {
    "pass": answered(whole, goes_on=True),
    "502 page before": page(502, after=False),
    "504 page after": page(504, after=True),
    "503 page that asks to wait": page(503, after=False, **{"Retry-After": "0"}),
    "500 page after": page(500, after=True),
    "login page": page(200, after=True),
    "hang up before": lambda conn, forward, asked, proxy: False,
    "hang up after": answered(lambda status, headers, body: b""),
    "cut in the head": answered(lambda status, headers, body: whole(status, headers, body)[:20]),
    "cut in the body": answered(lambda status, headers, body: whole(status, headers, body)[: -len(body) // 2]),
    "cut in a chunk": answered(
        lambda status, headers, body: head(status, [*headers, ("Transfer-Encoding", "chunked")])
        + f"{len(body):x}\r\n".encode()
        + body[: len(body) // 2]
    ),
    "cut without a length": answered(lambda status, headers, body: head(status, headers) + body[: len(body) // 2]),
    "garbage": answered(lambda status, headers, body: b"\x00\xff\x16\x03" * 50),
    "answer of another protocol": answered(lambda status, headers, body: b"220 mail.example ESMTP\r\n"),
    "wrong type": answered(lambda status, headers, body: whole(status, [("Content-Type", "text/html")], body)),
    "bomb": answered(
        lambda status, headers, body: whole(
            status, [JSON, ("Content-Encoding", "gzip")], gzip.compress(b" " * 10_000_000)
        )
    ),
    "thousand headers": answered(
        lambda status, headers, body: whole(status, [*headers, *((f"X-{i}", "y" * 900) for i in range(1_000))], body)
    ),
    "header without end": forever(b"HTTP/1.1 200 OK\r\nX: ", again=b"y" * 60_000),
    "said a terabyte": answered(
        lambda status, headers, body: head(status, [JSON, ("Content-Length", str(10**12))]) + b" " * 2_000_000
    ),
    "chunks without end": forever(
        head(200, [JSON, ("Transfer-Encoding", "chunked")]), again=b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    ),
    "redirect": redirect,
    "drips": forever(head(200, [JSON, ("Content-Length", "100000")]), again=b" ", pause=0.02),
    "drips its head": forever(b"HTTP/1.1 200 OK\r\nX: ", again=b"y", pause=0.02),
    "interim without end": forever(again=b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
    "silence": silent,
    "answers twice": answered(lambda *answer: whole(*answer) + whole(*answer), goes_on=True),
}  # fmt: skip
SLOW = ("drips", "drips its head", "interim without end", "silence")


@pytest.fixture(scope="module")
def proxy(served: Served) -> Iterator[Proxy]:
    made = Proxy(served.address)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("exchange", "event_reader"):
        monkeypatch.setattr(f"siloquent.remote.{module}.FIRST_PAUSE_SECONDS", 0.0001)
    monkeypatch.setattr("siloquent.remote.calls.MAX_DOCUMENT_BYTES", 2**20)


@contextmanager
def behind(proxy: Proxy, served: Served, face: str, *tricks: str, **link: Any) -> Iterator[Any]:
    """A session of ana's behind the proxy, whose next answers have these tricks."""
    with session_of(face, proxy.address, served.texts["ana"], **link) as session:
        proxy.tricks, proxy.heard = list(tricks), []
        yield session
    proxy.tricks = []


def spent(session: Any) -> Fraction:
    """What ana has spent, exactly."""
    found: Fraction = next(one.spent for one in session.list_accounts() if one.name == "visits@1/ana")
    return found


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("trick", [name for name in TRICKS if name != "pass"])
def test_whatever_a_proxy_does_a_question_is_charged_once_and_its_key_gives_the_answer(
    proxy: Proxy, served: Served, face: str, trick: str
) -> None:
    key = f"k{next(numbers)}"
    with session_of(face, served.address, served.texts["ana"]) as straight:
        before, price = spent(straight), straight.explain(SQL).price
        times = {"timeouts": Timeouts(total=0.6)} if trick in SLOW else {}
        with behind(proxy, served, face, *[trick] * 9, attempts=2, **times) as session:
            try:
                ended: Any = session.ask(SQL, key=key)
            except SiloquentError as failed:
                ended = failed
        assert {one.get("idempotency-key") for one in proxy.heard} == {key}
        charged = spent(straight) - before
        if isinstance(ended, SiloquentError):
            assert isinstance(ended, Unanswered)
            assert (ended.key, "perhaps the price" in ended.spent) == (key, True)
            assert key in ended.fix
        else:
            assert charged > 0
        answer = straight.ask(SQL, key=key)
        # A client that gave up while the server was at work is told so, too; the answer may come later.
        assert trick in SLOW or answer.replayed == (charged > 0)
        if not isinstance(ended, SiloquentError):
            assert (ended.rows, ended.receipt) == (answer.rows, answer.receipt)
        paid = spent(straight) - before
        assert float(paid) == pytest.approx(float(price), rel=1e-4)  # a price is told in six digits
        assert straight.ask(SQL, key=key).rows == answer.rows
        assert spent(straight) - before == paid
    assert not proxy.was_redirected_to()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "trick", ["502 page before", "504 page after", "hang up after", "cut in the body", "cut in a chunk", "garbage"]
)
def test_one_failure_is_not_noticed(proxy: Proxy, served: Served, face: str, trick: str) -> None:
    key = f"k{next(numbers)}"
    with behind(proxy, served, face, trick) as session:
        assert session.ask(SQL, key=key).rows
        assert [one["idempotency-key"] for one in proxy.heard] == [key, key]
        proxy.tricks = [trick]
        assert session.list_tables() == ["visits"]


@pytest.mark.parametrize("face", FACES)
def test_a_second_answer_on_a_kept_connection_is_never_taken_for_the_next(
    proxy: Proxy, served: Served, face: str
) -> None:
    with behind(proxy, served, face, *["answers twice"] * 6) as session:
        for _ in range(3):
            assert len(session.ask(SQL, key=f"k{next(numbers)}").rows) == 4
            assert len(session.ask(OTHER, key=f"k{next(numbers)}").rows) == 1


@pytest.mark.parametrize("face", FACES)
def test_a_file_that_is_cut_is_fetched_whole_or_not_at_all(
    proxy: Proxy, served: Served, face: str, tmp_path: Path
) -> None:
    with behind(proxy, served, face) as session:
        release = session.ask(SQL, key=f"k{next(numbers)}").to_json()["id"]
        files = session.get_release(release).files
        for number, tricks in enumerate((["cut in the body"], ["cut in a chunk", "504 page after"], [])):
            proxy.tricks = list(tricks)
            got = session.download(release, files[0].name, tmp_path / f"{number}", sha256=files[0].sha256)
            assert got.stat().st_size > 0
        for wrong in ("login page", "cut without a length"):
            proxy.tricks = [wrong] * 9
            with pytest.raises(ReleaseError, match="does not match the manifest"):
                session.download(release, files[0].name, tmp_path / "wrong", sha256=files[0].sha256)
        proxy.tricks = ["redirect"] * 9
        with pytest.raises(RequestError):
            session.download(release, files[0].name, tmp_path / "wrong")
        proxy.tricks = []
        with pytest.raises(RequestError, match="Cannot write"):
            session.download(release, files[0].name, tmp_path / "0")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize("face", FACES)
def test_events_go_on_where_a_proxy_cut_them(proxy: Proxy, served: Served, face: str) -> None:
    job = f"j-{face}"
    served.app.state.house.store.write(
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed) "
        "VALUES (?, 'ana', '', 'sketch', '{\"table\": \"visits\"}', ?, 'done', 1, 1)",
        *(job, job),
    )
    with behind(proxy, served, face) as session:
        for tricks in (["cut in a chunk", "502 page before", "hang up before"], ["cut in the body"]):
            proxy.tricks = list(tricks)
            assert [one.has_ended for one in session.iter_events(job)][-1]
        proxy.tricks = ["hang up before"] * 9
        with pytest.raises(Unanswered, match="Could not connect"):
            list(session.iter_events(job))
        proxy.tricks = ["garbage"] * 9
        with pytest.raises(SiloquentError):
            list(session.iter_events(job))
        proxy.tricks = []
        with pytest.raises(RequestError) as unknown:
            list(session.iter_events("j-none"))
        assert unknown.value.code == "not_found"


def test_the_tricks_do_what_they_say(proxy: Proxy, served: Served) -> None:
    """A proxy whose tricks are none would prove nothing."""
    body = json.dumps({"sql": SQL}).encode()
    sent = {"Authorization": f"Bearer {served.texts['ana']}", "Idempotency-Key": "tricks", "Content-Length": len(body)}
    for trick in ("cut in the body", "cut in a chunk", "hang up after", "garbage"):
        proxy.tricks = [trick]
        raw = http.client.HTTPConnection(proxy.address.removeprefix("http://"), timeout=10)
        raw.request("POST", "/v1/answers", body, {name: str(value) for name, value in sent.items()})
        with pytest.raises((http.client.HTTPException, OSError)):
            raw.getresponse().read()
        raw.close()
