"""What is too large, too often or not a body at all is refused at once, and honest people are still served."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from journeys.clinic import WARDS
from journeys.served import Served, clinic_workspace, serving


def test_a_body_above_the_limit_is_refused_whatever_its_header_says(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), body_bytes=4_096) as served, served.client("ana") as client:
        declared = client.post("/v1/explanations", content=b"x" * 5_000)
        chunked = client.post("/v1/explanations", content=(b"x" * 1_000 for _ in range(8)))
        for found in (declared, chunked):
            assert (found.status_code, found.json()["code"]) == (413, "body_too_large")
        assert client.post("/v1/explanations", json={"sql": WARDS}).status_code == 200


def test_a_question_above_its_limit_is_refused(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), text_bytes=200) as served, served.client("ana") as client:
        found = client.post("/v1/explanations", json={"sql": f"{WARDS}{' ' * 200}"})
        assert (found.status_code, found.json()["code"]) == (413, "text_too_long")
        assert client.post("/v1/explanations", json={"sql": WARDS}).status_code == 200


PACKED = ("gzip", "GZIP", "br", "deflate", "zstd", "identity, gzip", "gzip,identity", "x", "identity;q=1")


def test_a_body_that_is_packed_is_refused_whatever_it_is_packed_with(served: Served) -> None:
    body, kind = json.dumps({"sql": WARDS}).encode(), {"Content-Type": "application/json"}
    with served.client("ana") as client:
        for encoding in PACKED:
            found = client.post("/v1/explanations", content=body, headers={"Content-Encoding": encoding, **kind})
            assert (found.status_code, found.json()["code"]) == (415, "unsupported_media_type"), encoding
        for encoding in ("identity", "Identity", "identity, identity"):
            found = client.post("/v1/explanations", content=body, headers={"Content-Encoding": encoding, **kind})
            assert found.status_code == 200, encoding


@pytest.mark.parametrize("after", ["1_0", "\uff11", "\u0661", "ten"])
def test_numbers_of_an_address_are_ascii(after: str, served: Served) -> None:
    with served.client("owner") as client:
        path = "/v1/accounts/visits@1/entries"
        found = client.get(path, params={"after": after})
        assert (found.status_code, found.json()["code"]) == (422, "request_unreadable")
        assert client.get(path, params={"after": "1"}).status_code in (200, 404)  # 404: nothing was asked yet


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"sql": 1}',
        b'{"sql": "SELECT 1", "more": 1}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"sql": NaN}',
    ],
)
def test_bodies_that_are_none_are_refused_and_never_break_the_server(served: Served, body: bytes) -> None:
    with served.client("ana", **{"Content-Type": "application/json", "Idempotency-Key": "k"}) as client:
        for path in ("/v1/explanations", "/v1/answers", "/v1/jobs"):
            found = client.post(path, content=body)
            assert 400 <= found.status_code < 500, (path, found.text)
            assert found.headers["content-type"] == "application/problem+json"


def test_a_burst_is_slowed_down_with_any_number_of_tokens_and_another_person_is_still_served(tmp_path: Path) -> None:
    with (
        serving(clinic_workspace(tmp_path / "w"), rate_per_second=0.1, burst=5) as served,
        served.client("nobody") as greedy,
        served.client("bo") as honest,
    ):
        tokens = [served.app.state.house.tokens.create("ana", "analyst") for _ in range(10)]
        sent = [{"Authorization": f"Bearer {tokens[number % 10]}"} for number in range(50)]
        found = [greedy.get("/v1/me", headers=headers) for headers in sent]
        assert [one.status_code for one in found[:5]] == [200] * 5
        late = [one for one in found if one.status_code == 429]
        assert len(late) >= 40
        assert all(int(one.headers["retry-after"]) >= 1 for one in late)
        assert honest.get("/v1/me").status_code == 200


def test_every_response_says_what_a_browser_may_do_with_it(served: Served) -> None:
    with served.client("nobody") as client:
        for path in ("/v1/me", "/login", "/static/siloquent.css", "/nothing"):
            headers = client.get(path).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (b"PAR1", 422),
        (b"a,b\n1,2\n", 201),
        (b"PK\x03\x04", 415),
        (b"\x1f\x8b\x08", 415),
        (b"\x00\x01", 415),
        (b"", 415),
    ],
)
def test_uploads_are_known_by_their_first_bytes_and_named_by_the_server(
    served: Served, first: bytes, status: int
) -> None:
    with served.client("owner") as client:
        found = client.post("/v1/uploads", content=first, headers={"Content-Disposition": 'filename="../../x"'})
    assert found.status_code == status
    if status == 201:
        assert (served.folder / found.json()["source"].partition(":")[2]).read_bytes() == first
    assert not [one for one in (served.folder / "uploads").iterdir() if one.name.startswith(".")]


def test_an_upload_above_its_limit_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), upload_bytes=10_000) as served, served.client("owner") as client:
        found = client.post("/v1/uploads", content=(b"a" * 1_000 for _ in range(100)))
        assert found.status_code == 413
        assert list((served.folder / "uploads").iterdir()) == []


@pytest.mark.slow
def test_a_file_that_unpacks_to_gigabytes_is_refused_and_an_honest_one_is_kept(served: Served, tmp_path: Path) -> None:
    honest = pa.table({"ward": ["A", "B"] * 500, "visits": [[1]] * 1_000})
    trap = pa.table({"ward": ["A" * 60_000] * 20_000})
    for name, rows in (("honest", honest), ("trap", trap)):
        pq.write_table(rows, tmp_path / name, compression="zstd")
    kept = len(list((served.folder / "uploads").glob("*")))
    with served.client("owner") as client:
        found = client.post("/v1/uploads", content=(tmp_path / "trap").read_bytes())
        assert (found.status_code, found.json()["code"]) == (422, "upload_refused")
        assert client.post("/v1/uploads", content=(tmp_path / "honest").read_bytes()).status_code == 201
    assert len(list((served.folder / "uploads").glob("*"))) == kept + 1


def unfinished(served: Served, *, name: str) -> str:
    """The id of a job of ``name`` that another server holds and never ends."""
    statement = (
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, holder, held_until) "
        "VALUES ('j-1', ?, '', 'synth', '{\"table\": \"visits\"}', 'k', 'running', 1, 1, 'another', ?)"
    )
    served.app.state.house.store.write(statement, name, int(time.time()) + 10_000)
    return "j-1"


def test_whoever_follows_a_job_many_times_takes_no_place_of_others(tmp_path: Path) -> None:
    with (
        serving(clinic_workspace(tmp_path / "w"), connections_each=3) as served,
        served.client("ana") as ana,
        served.client("bo") as bo,
    ):
        job = unfinished(served, name="ana")
        with ExitStack() as streams:
            for _ in range(3):
                stream = httpx.stream("GET", f"{served.address}/v1/jobs/{job}/events", headers=dict(ana.headers))
                assert streams.enter_context(stream).status_code == 200
            found = ana.get("/v1/me")
            assert (found.status_code, found.json()["code"]) == (429, "busy")
            assert found.headers["retry-after"] == "1"
            assert bo.get("/v1/me").status_code == 200
        while ana.get("/v1/me").status_code == 429:
            time.sleep(0.05)
        assert ana.get("/v1/me").status_code == 200


def test_two_tokens_that_hold_requests_open_leave_places_to_others(tmp_path: Path) -> None:
    with (
        serving(clinic_workspace(tmp_path / "w"), connections=8, connections_each=8) as served,
        served.client("owner") as owner,
        ExitStack() as streams,
    ):
        job, held = unfinished(served, name="ana"), {"ana": 0, "owner": 0}
        for name in ("ana", "owner"):
            headers = {"Authorization": f"Bearer {served.texts[name]}"}
            for _ in range(8):
                stream = httpx.stream("GET", f"{served.address}/v1/jobs/{job}/events", headers=headers)
                held[name] += streams.enter_context(stream).status_code == 200
        assert held == {"ana": 4, "owner": 1}  # half of all, and one
        assert owner.get("/v1/me").status_code == 429
        for name in ("bo", "auditor"):
            with served.client(name) as other:
                assert other.get("/v1/me").status_code == 200


def test_a_request_leaves_its_place_however_it_ends(tmp_path: Path) -> None:
    """Pages too: with two places, whatever keeps one is seen at the second request of its kind."""
    with (
        serving(clinic_workspace(tmp_path / "w"), connections_each=2) as served,
        served.client("ana") as ana,
        httpx.Client(base_url=served.address, timeout=60) as browser,
    ):
        assert browser.post("/login", data={"token": served.texts["ana"]}).status_code == 303
        ends = {
            ("GET", "/v1/me"): 200,
            ("GET", "/v1/me?limt=5"): 422,
            ("GET", "/v1/tables/none"): 404,
            ("GET", "/v1/denials"): 403,
            ("POST", "/v1/explanations"): 422,
        }
        for _ in range(3):
            for (method, path), status in ends.items():
                assert ana.request(method, path).status_code == status, path
            for path, status in (("/tables", 200), ("/jobs", 200), ("/tokens", 404), ("/none", 404)):
                assert browser.get(path).status_code == status, path


def test_a_long_body_counts_as_many_requests_and_a_longer_one_is_not_parsed(tmp_path: Path) -> None:
    def nested(size: int) -> bytes:
        return b'{"sql": [' + b"[]," * (size // 3) + b"1]}"

    kind = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    with (
        serving(clinic_workspace(tmp_path / "w"), rate_per_second=0.01, burst=6) as served,
        served.client("ana", **kind) as ana,
        served.client("bo", **kind) as bo,
    ):
        for path in ("/v1/explanations", "/v1/answers", "/v1/jobs", "/v1/jobs/prices"):
            found = ana.post(path, content=nested(3 * 2**20))
            assert (found.status_code, found.json()["code"]) == (413, "body_too_large"), path
        assert ana.post("/v1/explanations", content=nested(2**20)).status_code == 422
        found = ana.get("/v1/me")
        assert (found.status_code, found.json()["code"]) == (429, "too_many_requests")
        assert int(found.headers["retry-after"]) > 10 / 0.01  # a MiB is 16 requests, of which there was one left
        assert bo.get("/v1/me").status_code == 200


def test_a_stranger_sends_no_long_form(served: Served) -> None:
    for path in ("/login", "/logout"):
        found = httpx.post(
            f"{served.address}{path}",
            content=b"token=" + b"&" * 20_000,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert (found.status_code, found.json()["code"]) == (413, "body_too_large")


def test_a_client_that_leaves_while_it_sends_writes_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Strangers would otherwise fill the log with tracebacks, and drive the owner's own out of it."""
    access = tmp_path / "access.log"
    with serving(clinic_workspace(tmp_path / "w"), access_log=str(access)) as served:
        host, _, port = served.address.removeprefix("http://").partition(":")
        heads = [
            ("ana", "POST /v1/explanations", "Content-Type: application/json"),
            ("owner", "PUT /v1/tables/visits", "Content-Type: application/json"),
            ("owner", "POST /v1/uploads", "Content-Type: text/csv"),
            ("devices", "POST /v1/collections/none/reports", "X: y"),
            ("", "POST /login", "Content-Type: application/x-www-form-urlencoded"),
            ("", "POST /login", "Content-Type: multipart/form-data; boundary=b"),
        ]
        for who, line, kind in heads:
            token = f"Authorization: Bearer {served.texts[who]}\r\n" if who else ""
            with socket.create_connection((host, int(port))) as plain:
                plain.sendall(f"{line} HTTP/1.1\r\nHost: x\r\n{token}{kind}\r\nContent-Length: 900\r\n\r\n--b".encode())
                time.sleep(0.2)
        until = time.monotonic() + 30
        while len(access.read_text().splitlines()) < len(heads) and time.monotonic() < until:
            time.sleep(0.05)
        with served.client("watcher") as watcher:
            assert 'status="500"' not in watcher.get("/metrics").text
    statuses = [json.loads(line)["status"] for line in access.read_text().splitlines()[: len(heads)]]
    assert (set(statuses) <= {400, 404, 499}, statuses.count(499) >= 2) == (True, True), statuses
    assert not (tmp_path / "w" / "owner.log").exists()
    assert [one for one in caplog.records if one.levelname == "ERROR" or one.exc_info] == []
    assert list((tmp_path / "w" / "uploads").glob("*")) == []


def test_a_job_keeps_no_long_spec(served: Served) -> None:
    spec = {"table": "visits", "budget": {"epsilon": "1"}, "columns": ["a" * 70_000]}
    with served.client("ana", **{"Idempotency-Key": "long"}) as ana:
        found = ana.post("/v1/jobs", json={"task": "synth", "spec": spec})
        assert (found.status_code, found.json()["code"]) == (413, "text_too_long")
        assert "long" not in [row["key"] for row in served.app.state.house.store.fetch_all("SELECT key FROM job")]


def test_a_strangers_guess_waits_for_no_lock_of_the_store(served: Served) -> None:
    with closing(sqlite3.connect(served.folder / "server.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = httpx.post(f"{served.address}/login", data={"token": "x"}, timeout=60)
        other.execute("ROLLBACK")
    assert found.status_code == 403  # 503 where it waited for the lock


def test_a_connection_whose_client_waited_to_be_asked_for_a_body_is_not_used_again(served: Served) -> None:
    with served.client("ana") as ana:
        assert ana.get("/v1/me", headers={"Expect": "100-continue"}).headers["connection"] == "close"
        assert "connection" not in ana.get("/v1/me").headers
