"""What an operator sees of a server: numbers, a line a request, who was refused; and nothing of the data."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from journeys.clinic import TOML, WARDS
from journeys.served import Served, clinic_workspace, serving
from journeys.silos import silo_workspace
from siloquent.server.observability import METRICS

NEEDLE = "needle4711"


def test_metrics_count_requests_answers_entries_and_what_is_left(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("watcher") as watcher:
        assert served.ask("ana", WARDS, "k").status_code == 200
        with served.client("nobody") as stranger:
            assert stranger.get("/v1/me").status_code == 401
        assert watcher.get("/readyz").text == "ready\n"
        lines = watcher.get("/metrics").text.splitlines()
    assert 'siloquent_requests_total{route="api:answer",role="analyst",status="200"} 1' in lines
    assert 'siloquent_requests_total{route="api:me",role="nobody",status="401"} 1' in lines
    assert "siloquent_charge_seconds_count 1" in lines
    assert 'siloquent_charge_seconds_bucket{le="+Inf"} 1' in lines
    (memory,) = [float(one.split()[1]) for one in lines if one.startswith("siloquent_process_resident_bytes ")]
    assert memory > 2**24
    assert "siloquent_ledger_entries 4" in lines
    assert names(lines) == {name for name in METRICS if "federation" not in name}
    assert [one for one in lines if one.startswith('siloquent_budget_left{account="visits@1/ana"} ')]


def names(lines: list[str]) -> set[str]:
    return {one.split()[2] for one in lines if one.startswith("# TYPE ")}


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_numbers_are_told_to_a_token_alone_wherever_a_request_comes_from(served: Served, header: str) -> None:
    with served.client("nobody", **{header: "127.0.0.1"}) as stranger, served.client("ana") as ana:
        for path in ("/readyz", "/metrics"):
            assert (stranger.get(path).status_code, ana.get(path).status_code) == (401, 403)
        assert stranger.get("/healthz").text == "ok\n"


def test_metrics_of_a_federation_count_its_sessions_and_its_certificates_days(tmp_path: Path) -> None:
    folder = silo_workspace(tmp_path / "clinic").folder
    with serving(folder) as served, served.client("watcher") as watcher:
        lines = watcher.get("/metrics").text.splitlines()
        (folder / "bundle" / "roster.json").write_text("{")
        broken = watcher.get("/metrics").text.splitlines()
    assert names(lines) == set(METRICS)
    assert 'siloquent_federation_sessions{state="invited"} 1' in lines
    assert {"siloquent_federation_readable 1", "siloquent_federation_unsent 0"} <= set(lines)
    (days,) = [float(one.split()[1]) for one in lines if one.startswith("siloquent_federation_certificate_days ")]
    assert days > 0
    assert "siloquent_federation_readable 0" in broken


def test_the_log_says_who_did_what_and_paid_and_holds_no_question_label_or_token(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    toml = TOML.replace("icu", NEEDLE)
    with serving(clinic_workspace(tmp_path / "w", toml=toml), access_log=str(log)) as served:
        found = served.ask("ana", f"SELECT COUNT(*) FROM visits WHERE ward = '{NEEDLE}' ERROR 200", "k")
        served.ask("ana", f"SELECT COUNT(*) FROM {NEEDLE} ERROR 200", "k2")
        with served.client("owner") as client:
            client.get(f"/v1/tables/{NEEDLE}?x={NEEDLE}")
            client.post("/v1/uploads", content=f"{NEEDLE}\n1\n".encode())
        texts = list(served.texts.values())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    answers = [one for one in lines if one["route"] == "api:answer"]
    assert [one["status"] for one in answers] == [200, 404]
    assert answers[0]["spent"]["account"] == "visits@1/ana"
    assert answers[0]["request"] == found.headers["x-request-id"]
    assert answers[1]["spent"] is None
    assert not any(secret in log.read_text() for secret in (NEEDLE, *texts))
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_stream_ends_when_its_token_is_revoked(served: Served) -> None:
    house = served.app.state.house
    text = house.tokens.create("gil", "analyst")
    house.store.write(
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, held_until) "
        "VALUES ('j-1', 'gil', ?, 'sketch', '{\"table\": \"visits\"}', 'k', 'running', 1, 1, 99999999999)",
        text[3:11],
    )
    heard: list[str] = []

    def follow() -> None:
        with (
            served.client("nobody", Authorization=f"Bearer {text}") as client,
            client.stream("GET", "/v1/jobs/j-1/events") as events,
        ):
            heard.extend(events.iter_lines())

    thread = threading.Thread(target=follow)
    thread.start()
    while not heard:
        time.sleep(0.01)
    house.tokens.revoke(text[3:11])
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert "event: end" not in heard


def test_questions_without_a_place_are_refused_and_a_machine_still_hears_ready(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), running=1) as served, served.client("ana") as client:
        watcher = served.client("watcher")
        release = served.ask("ana", WARDS, "first").json()["id"]
        place = served.app.state.house.room.hold_place("ana")
        with suppress(StopIteration):  # a place is had at once: nothing is waited for
            place.__aenter__().send(None)
        for path, body in {
            "/v1/explanations": {"sql": WARDS},
            f"/v1/releases/{release}/questions": {"kind": "modes"},
        }.items():
            found = client.post(path, json=body)
            assert (found.status_code, found.json()["code"], found.headers["retry-after"]) == (429, "busy", "1")
        assert watcher.get("/readyz").status_code == 200
        watcher.close()
        assert client.get("/v1/tables").status_code == 200
        with suppress(StopIteration):
            place.__aexit__(None, None, None).send(None)
        assert client.post("/v1/explanations", json={"sql": WARDS}).status_code == 200


def test_owner_and_auditor_see_who_was_refused_and_analysts_do_not(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w", toml=TOML)) as served:
        served.ask("bo", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 60", "k")
        with served.client("ana") as ana, served.client("auditor") as auditor:
            assert ana.get("/v1/denials").status_code == 403
            found = auditor.get("/v1/denials").json()["denials"]
    assert [(one["name"], one["route"], one["code"]) for one in found] == [
        ("ana", "list_denials", "not_allowed"),
        ("bo", "answer", "budget_exceeded"),
    ]


def test_spending_is_told_by_analyst_and_task(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("auditor") as client:
        for who, key in (("ana", "a"), ("ana", "b"), ("bo", "a")):
            assert served.ask(who, f"{WARDS} REUSE NONE", key).status_code == 200
        lines = client.get("/v1/spending").json()["lines"]
        accounts = {one["name"]: one["spent"] for one in client.get("/v1/accounts").json()["accounts"]}
    assert [(one["analyst"], one["task"], one["charges"]) for one in lines] == [
        ("ana", "explore", 2),
        ("bo", "explore", 1),
    ]
    assert lines[0]["spent"] == accounts["visits@1/ana"]
