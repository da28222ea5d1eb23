"""nginx and Caddy with the files of deploy/: the server keeps its promises through them, and no request slips by."""

from __future__ import annotations

import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest

from journeys.clinic import WARDS
from journeys.documents import faults
from journeys.proxied import Proxied, behind, program
from journeys.served import clinic_workspace
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.server.store import Store

SILENT = 3_000
MADE_UP = "X-Made-Up-Address"
pytestmark = pytest.mark.skipif(program("openssl") is None, reason="no openssl here")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(one, marks=pytest.mark.skipif(program(one) is None, reason=f"no {one} here"))
        for one in ("nginx", "caddy")
    ],
)
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp(request.param)
    workspace = clinic_workspace(folder / "clinic")
    with behind(request.param, workspace, folder / "proxy") as made:
        yield made


def test_a_person_asks_logs_in_and_comes_from_where_she_is(proxied: Proxied) -> None:
    with proxied.client("ana", **{"Idempotency-Key": "first"}) as ana:
        answer = ana.post("/v1/answers", json={"sql": WARDS})
        again = ana.post("/v1/answers", json={"sql": WARDS})
        assert (answer.status_code, again.json(), again.headers["Idempotency-Replayed"]) == (200, answer.json(), "true")
        assert "max-age" in ana.get("/v1/me").headers["Strict-Transport-Security"]
    with proxied.client(**{"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}) as stranger:
        assert stranger.get("/v1/me", headers={"Authorization": "Bearer wrong"}).status_code == 401
    with proxied.client("owner") as owner:
        refused = next(one for one in owner.get("/v1/denials").json()["denials"] if one["code"] == "unauthorised")
    assert refused["address"] == "127.0.0.1", "a client says nothing about its own address"


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/readyz",
        "//metrics",
        "/%6detrics",
        "/v1/../metrics",
        "/./readyz",
        "/metrics?x=1",
        "/READYZ",
        "/metrics%0a",
        "/readyz%0A",
        "/metrics%0d%0a",
        "/metrics%0b",
        "/metrics%7f",
        "/metrics;x",
        "/v1/..%2fmetrics",
    ],
)
def test_what_watchers_ask_is_refused_from_outside(proxied: Proxied, path: str) -> None:
    """Also to who holds an operator's token; the path is sent as it stands here."""
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {proxied.texts['watcher']}\r\n"
    said = proxied.say(f"{head}Connection: close\r\n\r\n".encode())
    assert said.split(b" ", 2)[1] in (b"301", b"308", b"400", b"403", b"404"), said[:200]
    inside = httpx.get(
        f"http://127.0.0.1:{proxied.behind}/metrics", headers={"Authorization": f"Bearer {proxied.texts['watcher']}"}
    )
    assert "siloquent_" in inside.text


def test_no_page_is_compressed(proxied: Proxied) -> None:
    """Its length would tell of the proof against forged forms, once a part of the page is a stranger's."""
    with proxied.client(**{"Accept-Encoding": "gzip, br, zstd, deflate"}) as client:
        for path in ("/login", "/static/siloquent.css", "/openapi.json", "/v1/me"):
            assert "content-encoding" not in client.get(path, headers={"Accept": "text/html"}).headers, path


def test_events_of_a_job_arrive_as_they_happen(proxied: Proxied) -> None:
    kernel = {"kind": "p-stable", "order": 2, "bandwidth": 0.3}
    spec = {"table": "visits", "features": ["age", "cost"], "kernel": kernel, "budget": {"epsilon": "20"}}
    spec |= {"rows": 64, "width": 64}
    with proxied.client("ana", **{"Idempotency-Key": f"job {time.monotonic()}"}) as ana:
        made = ana.post("/v1/jobs", json={"task": "sketch", "spec": spec})
        assert made.status_code == 202, made.text
        with ana.stream("GET", f"{made.headers['Location']}/events") as events:
            lines = (json.loads(line[5:])["state"] for line in events.iter_lines() if line.startswith("data:"))
            told = [next(lines)]
            with proxied.client("ana") as other:
                assert other.get(made.headers["Location"]).json()["state"] in ("queued", "running"), "events are held"
            told += lines
        assert (told[0] in ("queued", "running"), told[-1]) == (True, "done")
        assert ana.get(made.headers["Location"], params={"wait": 20}).json()["state"] == "done"


def test_one_address_has_so_many_requests_a_second_and_another_is_served(proxied: Proxied) -> None:
    if proxied.proxy == "caddy":
        pytest.skip("Caddy of Debian limits nothing by address")
    # nginx answers these by itself, so that they come faster than its rate on any machine.
    head = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    said = proxied.say(
        f"{head}\r\n".encode() * 400 + f"{head}Connection: close\r\n\r\n".encode(), seconds=30, address="127.0.0.3"
    )
    statuses = [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3})", said)]
    assert (len(statuses), statuses[:200]) == (401, [403] * 200)
    assert statuses.count(429) > 50
    with proxied.client(address="127.0.0.4") as honest:
        assert honest.get("/healthz").status_code == 200
    for one in said.split(b"HTTP/1.1 429")[1:]:
        fields, _, rest = one.partition(b"\r\n\r\n")
        told = dict(line.lower().split(b": ", 1) for line in fields.split(b"\r\n")[1:])
        assert (told[b"content-type"], told[b"retry-after"]) == (b"application/problem+json", b"1")
        problem = json.loads(rest[: int(told[b"content-length"])])
        assert list(faults(problem, json_schema("problem"))) == []


def test_one_ipv6_network_is_one_client_to_nginx_and_to_the_server(proxied: Proxied) -> None:
    """A customer has 2**64 addresses; among them one with a line feed and one of zeros, which patterns like to miss."""
    if proxied.proxy == "caddy":
        pytest.skip("Caddy of Debian limits nothing by address")
    ours = [f"2001:db8:a:b::{number:x}" for number in (0, 1, 0x0A0A, 0x0A)]
    others = ["2001:db8:a:c::1", "2001:db8:0a0a:b::1", "198.51.100.7", "198.51.100.8"]
    # nginx answers these by itself, so that they come faster than its rate on any machine.
    head = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    asked = "".join(f"{head}{MADE_UP}: {ours[number % 4]}\r\n\r\n" for number in range(400))
    said = proxied.say(f"{asked}{head}Connection: close\r\n\r\n".encode(), seconds=30)
    assert said.count(b"HTTP/1.1 ") == 401
    assert said.count(b"HTTP/1.1 429") > 50, said.count(b"HTTP/1.1 403")
    with proxied.client() as client:
        for address in others:
            assert client.get("/metrics", headers={MADE_UP: address}).status_code == 403, address


def test_one_address_has_so_many_requests_open_and_another_is_served(proxied: Proxied) -> None:
    if proxied.proxy == "caddy":
        pytest.skip("Caddy of Debian limits nothing by address")
    statement = (
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, holder, held_until) "
        "VALUES ('j-1', 'ana', '', 'synth', '{\"table\": \"visits\"}', 'k', 'running', 1, 1, 'another', ?)"
    )
    with closing(Store(proxied.workspace / "server.sqlite")) as store:
        store.write(statement, int(time.time()) + 10_000)
    with (
        ExitStack() as streams,
        proxied.client("ana", address="127.0.0.5") as ana,
        proxied.client("owner", address="127.0.0.5") as owner,
    ):
        found = []
        for number in range(68):
            stream = (ana, owner)[number % 2].stream("GET", "/v1/jobs/j-1/events")
            found.append(streams.enter_context(stream).status_code)
        assert found == [200] * 64 + [429] * 4
        for name in ("ana", "bo"):
            with proxied.client(name, address="127.0.0.6") as other:
                assert other.get("/v1/me").status_code == 200


@pytest.mark.slow
def test_clients_that_open_connections_and_say_nothing_keep_nobody_out(proxied: Proxied) -> None:
    """Nginx as the how-to sets it; with Debian's own 768 connections a process, nobody else came in."""
    if proxied.proxy == "caddy":
        pytest.skip("Caddy has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < SILENT + 500:
        pytest.skip("so many files may not be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, SILENT + 500), hard))
    try:
        with ExitStack() as held:
            for number in range(SILENT):
                source = (f"127.0.{number % 8}.9", 0)
                silent = socket.create_connection(("127.0.0.1", proxied.port), timeout=10, source_address=source)
                held.enter_context(silent).sendall(b"\x16\x03\x01\x02")
            for _ in range(5):
                with proxied.client("ana") as ana:
                    assert ana.get("/v1/me").status_code == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


HIDDEN = "POST /v1/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nX: y\r\n\r\n"
AMBIGUOUS = {
    "two lengths": "Content-Length: 0\r\nContent-Length: {n}\r\n",
    "a length and chunks": "Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n",
    "chunks and a length": "Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n",
    "unknown coding": "Transfer-Encoding: xchunked\r\nContent-Length: {n}\r\n",
    "two codings": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\nContent-Length: {n}\r\n",
    "a blank before the colon": "Transfer-Encoding : chunked\r\nContent-Length: {n}\r\n",
    "a folded line": "Transfer-Encoding:\r\n chunked\r\nContent-Length: {n}\r\n",
    "a vertical tab": "Transfer-Encoding: \x0bchunked\r\nContent-Length: {n}\r\n",
    "a bare line feed": "X: y\nTransfer-Encoding: chunked\r\nContent-Length: {n}\r\n",
    "a plus": "Content-Length: +{n}\r\n",
    "hexadecimal": "Content-Length: 0x{n:x}\r\n",
    "a list of lengths": "Content-Length: 0, {n}\r\n",
    "an expectation": "Expect: 100-continue\r\nContent-Length: {n}\r\n",
}


@pytest.mark.parametrize("kind", AMBIGUOUS, ids=str)
def test_no_request_hides_in_another(proxied: Proxied, kind: str) -> None:
    """A hidden question would be answered to the next person on the proxy's connection, or charged to one."""
    with proxied.client("owner") as owner:
        before = owner.get("/v1/ledger/head").json()
        for method, ends in (("GET", "0\r\n\r\n"), ("POST", "0\r\n\r\n"), ("POST", "")):
            body = ends + HIDDEN
            head = f"{method} /v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\n{AMBIGUOUS[kind].format(n=len(body))}"
            said = proxied.say(f"{head}\r\n{body}".encode("latin-1"), seconds=1)
            # What is behind the end of the first request is a request of its own, of the same person; never one more.
            assert said.count(b"HTTP/1.1 ") + said.count(b"HTTP/1.0 ") <= 3, said
            for name in ("ana", "bo", "ana"):
                with proxied.client(name) as next_one:
                    me = next_one.get("/v1/me")
                    assert (me.status_code, me.json().get("name")) == (200, name), me.text
        assert owner.get("/v1/ledger/head").json() == before


def test_a_large_upload_comes_through_and_what_is_no_table_is_refused_whole(proxied: Proxied) -> None:
    rows = "ward,age\n" + "A,30\n" * 700_000
    with proxied.client("owner") as owner:
        sent = owner.post("/v1/uploads", content=rows.encode())
        assert (sent.status_code, sent.json()["bytes"]) == (201, len(rows)), sent.text
        torn = owner.post("/v1/uploads", content=b"PAR1 torn PAR1")
        assert (torn.status_code, torn.headers["content-type"]) == (422, "application/problem+json"), torn.text
