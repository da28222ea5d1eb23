"""A device team posts reports over HTTP: each counts once, and estimates come with their errors."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from journeys.documents import faults
from journeys.served import Served, clinic_workspace, serving
from siloquent import collect
from siloquent.cli.workspace.document_kinds import json_schema

SPEC = """\
format = 1
name = "walks"
epoch = 1
epsilon = "4"
[[service]]
name = "walks"
everyone = true
attribute = [{ name = "mood", type = "category", values = ["1", "2", "3"], null = "cell", other = "cell" }]
"""


@contextmanager
def collecting(folder: Path, devices: int = 2_000) -> Iterator[tuple[Served, bytes]]:
    """A server of a workspace with one collection, and the reports of its devices."""
    clinic_workspace(folder)
    made = collect.design(collect.parse_spec(SPEC))
    (folder / "collections").mkdir()
    (folder / "collections" / "walks-1.json").write_text(made.to_json())
    users = [collect.Device(user=f"u{i}", key=bytes(range(32)), memory={}) for i in range(devices)]
    data = b"".join(collect.perturb(made, "walks", [{"mood": str(1 + i % 2)}], one) for i, one in enumerate(users))
    with serving(folder) as served:
        yield served, data


def test_reports_count_once_and_estimates_have_errors(tmp_path: Path) -> None:
    with (
        collecting(tmp_path / "w") as (served, data),
        served.client("devices") as sender,
        served.client("ana") as ana,
    ):
        first = sender.post("/v1/collections/walks-1/reports", content=data).json()
        again = sender.post("/v1/collections/walks-1/reports", content=data).json()
        assert (first["counters"]["accepted"], again["counters"]["duplicate"]) == (2_000, 2_000)
        assert sender.post("/v1/collections/walks-1/reports", content=b"").status_code == 413
        assert sender.post("/v1/collections/nothing/reports", content=data).status_code == 404
        assert ana.post("/v1/collections/walks-1/reports", content=data).status_code == 403
        assert sender.post("/v1/collections/walks-1/estimates", json={"sql": "x"}).status_code == 403
        found = ana.post(
            "/v1/collections/walks-1/estimates", json={"sql": "SELECT COUNT(*) FROM walks WHERE mood = '1'"}
        )
        assert found.status_code == 200, found.text
        value, error, low, high = found.json()["rows"][0]
        assert low < value < high
        assert abs(value - 1_000) < 7 * error


def test_a_sender_has_some_batches_in_memory_and_no_more(tmp_path: Path) -> None:
    """Each batch may have 4 MiB: as many as a person may have connections would be memory without end."""
    path = "/v1/collections/walks-1/reports"
    with collecting(tmp_path / "w", devices=50) as (served, data), served.client("devices") as sender:
        long = sender.post(path, content=bytes(4 * 2**20 + 1))
        assert (long.status_code, long.json()["code"]) == (413, "body_too_large")
        host, _, port = served.address.removeprefix("http://").partition(":")
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.texts['devices']}\r\n"
        house, until = served.app.state.house, time.monotonic() + 60
        with ExitStack() as held:
            for _ in range(house.settings.running):
                plain = held.enter_context(socket.create_connection((host, int(port))))
                plain.sendall(f"{head}Content-Length: 4000000\r\n\r\na".encode())
            while house.room._taken["devices"] < house.settings.running:  # or the next one takes a place before them
                assert time.monotonic() < until
                time.sleep(0.02)
            busy = sender.post(path, content=data)
            assert (busy.status_code, busy.json()["code"], "retry-after" in busy.headers) == (429, "busy", True)
        while (taken := sender.post(path, content=data)).status_code == 429 and time.monotonic() < until:
            time.sleep(0.05)
        assert taken.status_code == 200


def test_reports_that_are_sent_again_with_their_key_are_answered_alike(tmp_path: Path) -> None:
    with collecting(tmp_path / "w", devices=50) as (served, data), served.client("devices") as sender:
        path, key = "/v1/collections/walks-1/reports", {"Idempotency-Key": "batch"}
        first, again = (sender.post(path, content=data, headers=key) for _ in range(2))
        assert first.json() == again.json()
        assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
        assert sender.post(path, content=data[:40], headers=key).json()["code"] == "key_reused"
        shown = sender.get("/v1/collections/walks-1").json()
        assert shown["counters"] == {**first.json()["counters"], "accepted": 50}
        assert [(one["services"], one["reports"], sum(one["layers"])) for one in shown["reports"]] == [
            (["walks"], 50, 50)
        ]
        assert list(faults(shown, json_schema("collect-counters"))) == []
