"""Jobs are priced before they run, waited for without polling, and followed through proxies; lists have pages."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from journeys.documents import faults
from journeys.served import Served
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.server.routes import jobs

BUDGET = {"budget": {"epsilon": "20"}}
KERNEL = {"kind": "p-stable", "order": 2, "bandwidth": 0.3}
SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "sketch": ("sketch-plan", {"table": "visits", "features": ["age", "cost"], "kernel": KERNEL, **BUDGET}),
    "synth": ("synth-plan", {"table": "visits", "columns": ["age", "ward"], **BUDGET}),
    "search": ("offer-plan", {"table": "visits", "features": ["cost"], "keys": ["ward"], **BUDGET}),
    "share": ("share-plan", {"table": "visits", "label": "ward", "features": ["age", "cost"], **BUDGET}),
    "discover": ("discovery-plan", {"table": "visits", "column": "cost", **BUDGET}),
}


@pytest.mark.parametrize("task", SPECS)
def test_each_tasks_price_is_the_document_of_the_command_line_and_costs_nothing(served: Served, task: str) -> None:
    kind, spec = SPECS[task]
    with served.client("ana") as ana, served.client("owner") as owner:
        found = ana.post("/v1/jobs/prices", json={"task": task, "spec": spec})
        assert found.status_code == 200, found.text
        document = found.json()
        assert list(faults(document, json_schema(kind))) == []
        assert (float(document["price"]) > 0, document["data_touched"]) == (True, False)
        assert owner.get("/v1/spending").json()["lines"] == []
        assert ana.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("task", "changed", "status", "code"),
    [
        ("cook", {}, 422, "unknown_name"),
        ("sketch", {"plan_file": "x"}, 422, "request_invalid"),
        ("sketch", {"features": ["nothing"]}, 404, "unknown_name"),
        ("sketch", {"misspelt": 1}, 422, "request_invalid"),
        ("sketch", {"table": "none"}, 404, "unknown_name"),
        ("sketch", {"table": 1}, 422, "request_invalid"),
    ],
)
def test_a_job_that_could_not_run_has_no_price(
    served: Served, task: str, changed: dict[str, Any], status: int, code: str
) -> None:
    with served.client("ana") as ana:
        found = ana.post("/v1/jobs/prices", json={"task": task, "spec": {**SPECS["sketch"][1], **changed}})
    assert (found.status_code, found.json()["code"], found.json()["spent"]) == (status, code, "nothing")


def queued(served: Served, number: str, *, state: str = "running", table: str = "visits") -> None:
    served.app.state.house.store.write(
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, held_until) "
        "VALUES (?, 'ana', '', 'sketch', ?, ?, ?, 1, 1, 99999999999)",
        *(number, json.dumps({"table": table}), number, state),
    )


def ends(served: Served, number: str) -> None:
    served.app.state.house.store.write("UPDATE job SET state = 'done', done = 3, steps = 3 WHERE id = ?", number)


@pytest.mark.slow
def test_a_wait_ends_with_the_job_or_with_its_time(served: Served) -> None:
    queued(served, "j-wait")
    with served.client("ana") as ana:
        begun = time.monotonic()
        assert ana.get("/v1/jobs/j-wait", params={"wait": 1}).json()["state"] == "running"
        assert time.monotonic() - begun >= 1
        timer = threading.Timer(0.2, ends, [served, "j-wait"])
        timer.start()
        assert ana.get("/v1/jobs/j-wait", params={"wait": 25}).json()["state"] == "done"
        for wrong in ("26", "-1", "1_0", "x"):
            assert ana.get("/v1/jobs/j-wait", params={"wait": wrong}).status_code == 422


def test_silence_is_filled_and_numbers_go_on_where_they_were(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "HEARTBEAT_SECONDS", 0.0)
    queued(served, "j-follow")
    with served.client("ana", **{"Last-Event-ID": "41"}) as ana:
        with ana.stream("GET", "/v1/jobs/j-follow/events") as events:
            assert events.headers["x-accel-buffering"] == "no"
            lines = events.iter_lines()
            heard = [next(lines) for _ in range(3)]
            assert heard[:2] == ["id: 42", "event: progress"]
            assert next(line for line in lines if line.startswith(":")) == ": it goes on"
            ends(served, "j-follow")
            assert "event: end" in list(lines)
        for odd in ("x", "-1", "9" * 40, "\u0661".encode()):
            found = ana.get("/v1/jobs/j-follow/events", headers={"Last-Event-ID": odd})
            assert found.text.startswith("id: 1\nevent: end\n")


def test_lists_come_page_by_page_and_filtered(served: Served) -> None:
    queued(served, "j-other", state="done", table="other")
    tokens = served.app.state.house.tokens
    made = [tokens.create(f"page{number}", "analyst")[3:11] for number in range(5)]
    with served.client("owner") as owner, served.client("ana") as ana:
        everything = [one["id"] for one in owner.get("/v1/tokens").json()["tokens"]]
        pages: list[str] = []
        after: dict[str, str] = {}
        while page := owner.get("/v1/tokens", params={"limit": 2, **after}).json()["tokens"]:
            pages += [one["id"] for one in page]
            after = {"after": pages[-1]}
        assert pages == everything
        assert set(made) <= set(everything)
        assert owner.get("/v1/tokens", params={"after": "none"}).status_code == 404
        assert [one["id"] for one in ana.get("/v1/jobs", params={"table": "other"}).json()["jobs"]] == ["j-other"]
        release = served.ask("ana", "SELECT COUNT(*) FROM visits ERROR 500", "listed").json()["id"]
        for params, found in (
            ({"table": "visits"}, [release]), ({"table": "other"}, []), ({"task": "synth"}, []),
            ({"task": "explore"}, [release]),
        ):  # fmt: skip
            assert [one["id"] for one in ana.get("/v1/releases", params=params).json()["releases"]] == found
        entries = [one["seq"] for one in owner.get("/v1/accounts/visits@1/ana/entries").json()["entries"]]
        first = owner.get("/v1/accounts/visits@1/ana/entries", params={"limit": 1}).json()["entries"]
        assert [one["seq"] for one in first] == entries[:1]
