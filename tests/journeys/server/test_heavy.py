"""Heavy work: plans in processes that are ended in time, one piece of each person at a time, and no wait that tells."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from journeys.clinic import WARDS
from journeys.served import Served, clinic_workspace, serving
from journeys.server.test_collections_over_http import collecting
from journeys.server.test_who_may import BODIES, ROLES, filled, routes
from siloquent.explore import task
from siloquent.server.access.roles import ROUTES
from siloquent.server.access.tokens import Tokens
from siloquent.server.store import Store

READS_ROWS = {"answer", "check_table"}
DEAR = " OR ".join(f"(age BETWEEN {i % 120} AND {i % 120 + 1} AND cost < {i / 2})" for i in range(1_000))


@contextmanager
def measuring_waits() -> Iterator[tuple[threading.Event, threading.Event]]:
    """Measurements begin (the first event) and go on when the second one is set."""
    begun, goes_on = threading.Event(), threading.Event()
    measured: Callable[..., Any] = task._measure_step

    def waits(*arguments: Any) -> Any:
        begun.set()
        goes_on.wait()
        return measured(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(task, "_measure_step", waits)
        try:
            yield begun, goes_on
        finally:
            goes_on.set()


def test_nothing_but_rows_waits_behind_an_answer(tmp_path: Path) -> None:
    """Whatever waits for a thread that computes an answer tells how long that took, to whoever asks."""
    with serving(clinic_workspace(tmp_path / "w"), workers=1, rate_per_second=1e6) as served:
        release = served.ask("ana", WARDS, "first").json()["id"]
        with measuring_waits() as (begun, goes_on), ThreadPoolExecutor(1) as pool:
            answer = pool.submit(served.ask, "ana", f"{WARDS} REUSE NONE", "second")
            begun.wait()
            seen = everything_else(served, release)
            assert not answer.done()
            goes_on.set()
            assert answer.result().status_code == 200
    assert not [line for line in seen if line[1] >= 500], seen
    assert {name for name, _ in seen} == set(ROUTES) - READS_ROWS - {"job_events"}, "each route is asked"


def test_the_page_of_an_earlier_answer_waits_behind_nobody(tmp_path: Path) -> None:
    """It leaves by no slot: behind another one's answer it would tell how long that took."""
    with serving(clinic_workspace(tmp_path / "w"), workers=1) as served:
        assert served.ask("bo", WARDS, "first").status_code == 200
        with measuring_waits() as (begun, goes_on), ThreadPoolExecutor(1) as pool, served.client("nobody") as pages:
            pages.post("/login", data={"token": served.texts["bo"]}, headers={"Origin": served.address})
            csrf = re.search(r'name="csrf" value="([^"]+)"', pages.get("/").text)
            assert csrf
            answer = pool.submit(served.ask, "ana", f"{WARDS} REUSE NONE", "second")
            begun.wait()
            fields = {"csrf": csrf[1], "sql": WARDS, "key": "first", "act": "ask", "error": "", "confidence": ""}
            shown = pages.post("/ask", data=fields, headers={"Origin": served.address})
            assert not answer.done()
            goes_on.set()
            assert answer.result().status_code == 200
    assert (shown.status_code, "<svg" in shown.text) == (200, True)


def everything_else(served: Served, release: str) -> list[tuple[str, int]]:
    """Ask every route that reads no row, as a role that may: its name and status."""
    seen = []
    for name, method, path in routes(served):
        if name in READS_ROWS or name == "job_events":
            continue
        who = next(who for who, role in ROLES.items() if role in ROUTES[name])
        with served.client(who, **{"Idempotency-Key": "k"}) as client:
            path = filled(path.replace("{release}", release))
            seen.append((name, client.request(method, path, **BODIES.get(name, {})).status_code))
    return seen


def test_one_person_with_any_number_of_tokens_leaves_places_to_others(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), running=4, queue=64) as served:
        texts = [served.app.state.house.tokens.create("ana", "analyst") for _ in range(16)]
        with measuring_waits() as (begun, goes_on), ThreadPoolExecutor(64) as pool:

            def ask(number: int) -> httpx.Response:
                headers = {"Authorization": f"Bearer {texts[number % 16]}", "Idempotency-Key": f"k{number}"}
                body = {"sql": f"{WARDS} REUSE NONE"}
                return httpx.post(f"{served.address}/v1/answers", json=body, headers=headers, timeout=60)

            asked = [pool.submit(ask, number) for number in range(64)]
            begun.wait()
            while sum(one.done() for one in asked) < 60:
                time.sleep(0.01)
            with served.client("bo") as bo, served.client("owner") as owner, served.client("ana") as ana:
                assert bo.post("/v1/explanations", json={"sql": WARDS}).status_code == 200
                assert owner.post("/v1/ledger/verify").status_code == 200
                busy = ana.post("/v1/explanations", json={"sql": WARDS})
                assert (busy.status_code, busy.json()["code"], busy.headers["retry-after"]) == (429, "busy", "1")
            goes_on.set()
            statuses = [one.result().status_code for one in asked]
        assert (statuses.count(200), statuses.count(429)) == (4, 60)


@pytest.mark.slow
def test_an_answer_that_nobody_waits_for_holds_its_own_persons_turn_and_no_others(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), answer_seconds=3) as served:
        with measuring_waits() as (begun, goes_on), ThreadPoolExecutor(2) as pool:
            first = pool.submit(served.ask, "ana", f"{WARDS} REUSE NONE", "a")
            begun.wait()
            second = pool.submit(served.ask, "ana", f"{WARDS} REUSE NONE", "b")
            for late in (first, second):  # the second one never had a thread: its question was not asked
                assert (late.result().status_code, late.result().json()["code"]) == (503, "too_slow")
            with served.client("watcher") as watcher:
                assert "siloquent_waiting 1" in watcher.get("/metrics").text.splitlines(), "the thread is still taken"
            goes_on.set()
        found = [served.ask("ana", f"{WARDS} REUSE NONE", key).status_code for key in ("a", "b")]
        assert set(found) <= {200, 503}
        assert served.ask("bo", WARDS, "c").status_code in (200, 503)
        with served.client("owner") as owner:
            (line,) = [one for one in owner.get("/v1/spending").json()["lines"] if one["analyst"] == "ana"]
        assert line["charges"] == 2, "each key is charged once"


def test_a_token_that_is_revoked_while_its_answer_waits_for_its_turn_is_not_charged(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), workers=1) as served, served.client("owner") as owner:
        house = served.app.state.house
        with measuring_waits() as (begun, goes_on), ThreadPoolExecutor(2) as pool:
            first = pool.submit(served.ask, "bo", WARDS, "first")
            begun.wait()
            late = pool.submit(served.ask, "ana", WARDS, "late")
            while not house.rows._turns.waiting:
                time.sleep(0.01)
            assert owner.delete(f"/v1/tokens/{served.texts['ana'][3:11]}").status_code == 204
            goes_on.set()
            assert first.result().status_code == 200
            assert (late.result().status_code, late.result().json()["spent"]) == (401, "nothing")
        shares = {one["name"]: one["spent"] for one in owner.get("/v1/accounts").json()["accounts"]}
        assert shares.get("visits@1/ana", "0") == "0", shares
        assert shares["visits@1/bo"] != "0", shares


def test_no_file_of_the_workspace_is_read_on_the_event_loop(tmp_path: Path) -> None:
    """Whoever reads a file there makes everybody wait for the disk, and for what is done with the file."""
    read: list[str] = []
    is_watching = threading.Event()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and is_watching.is_set() and isinstance(arguments[0], str):
            with suppress(RuntimeError):
                asyncio.get_running_loop()
                read.append(arguments[0])

    sys.addaudithook(watch)
    with collecting(tmp_path / "w", devices=20) as (served, _):
        release = served.ask("ana", WARDS, "first").json()["id"]
        described = served.app.openapi
        served.app.openapi = lambda: (read.extend(["the description"] * is_on_a_loop()), described())[1]
        is_watching.set()
        try:
            everything_else(served, release)
            odd = [one for one in every_page(served, release) if one[1] not in (200, 303, 404, 422)]
            assert odd == []
            httpx.get(f"{served.address}/openapi.json")
        finally:
            is_watching.clear()
    assert {one for one in read if str(tmp_path) in one or not one.startswith("/")} == set()


def every_page(served: Served, release: str) -> list[tuple[str, int]]:
    """Open every page as each of three roles, and send the forms that ask something: the page and its status."""
    pages = {
        str(getattr(one, "path", "")) for one in routes_of(served.app) if "GET" in (getattr(one, "methods", None) or ())
    }
    seen = []
    for who in ("ana", "owner", "auditor"):
        with httpx.Client(base_url=served.address, timeout=60, headers={"Accept": "text/html"}) as browser:
            first = browser.post("/login", data={"token": served.texts[who]}, follow_redirects=True)
            csrf = re.findall(r'name="csrf" value="([^"]+)"', first.text)[0]
            for page in sorted(pages - {"/openapi.json", "/healthz", "/metrics", "/readyz"}):
                if page.startswith("/v1") or "{job}" in page:
                    continue
                path = filled(page.replace("{release}", release).replace("{collection}", "walks-1"))
                seen.append((page, browser.get(path).status_code))
            if who == "ana":
                asked = {"csrf": csrf, "sql": "SELECT COUNT(*) FROM walks WHERE mood = '1'"}
                seen.append(("estimate", browser.post("/collections/walks-1", data=asked).status_code))
                seen.append(("ask", browser.post("/ask", data={"csrf": csrf, "sql": WARDS}).status_code))
    return seen


def routes_of(app: Any) -> list[Any]:
    """Every route of the application, those of included routers, too."""
    found, rest = [], list(app.routes)
    while rest:
        one = rest.pop()
        inner = getattr(getattr(one, "original_router", None), "routes", None)
        if inner is None:
            found.append(one)
        else:
            rest += inner
    return found


def is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_a_plan_that_takes_too_long_is_ended_and_costs_nothing(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w"), plan_seconds=0.001) as served:
        with served.client("ana") as ana:
            found = ana.post("/v1/explanations", json={"sql": WARDS})
            assert (found.status_code, found.json()["code"], found.json()["spent"]) == (
                422,
                "plan_too_large",
                "nothing",
            )
            assert served.ask("ana", WARDS, "k").json()["code"] == "plan_too_large"
            assert ana.get("/v1/tables").status_code == 200
        with served.client("watcher") as watcher:
            assert "siloquent_plans_ended_total 2" in watcher.get("/metrics").text.splitlines()
        with served.client("owner") as owner:
            assert owner.get("/v1/spending").json()["lines"] == []


def test_a_planner_that_is_killed_is_started_again(served: Served) -> None:
    with served.client("ana") as ana:
        assert ana.post("/v1/explanations", json={"sql": WARDS}).status_code == 200
        planners = [one for one in multiprocessing.active_children() if one.name == "siloquent-planner"]
        assert planners
        for one in planners:
            os.kill(one.pid or 0, signal.SIGKILL)
            one.join()
        assert [ana.post("/v1/explanations", json={"sql": WARDS}).status_code for _ in range(3)] == [200] * 3


def test_questions_of_too_many_conditions_are_refused_before_they_are_planned(served: Served) -> None:
    with served.client("ana") as ana:
        for count, status in ((50, 200), (1_000, 422)):
            sql = f"SELECT COUNT(*) FROM visits WHERE {' OR '.join(DEAR.split(' OR ')[:count])} ERROR 300"
            found = ana.post("/v1/explanations", json={"sql": sql})
            assert found.status_code == status, found.text
        assert (found.json()["code"], "conditions" in found.json()["detail"]) == ("request_invalid", True)


@pytest.mark.slow
def test_planners_end_with_their_server_whatever_ends_it(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    store = Store(folder / "server.sqlite")
    text = Tokens(store).create("ana", "analyst")
    store.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for ended_by in (signal.SIGTERM, signal.SIGKILL):
        words = [sys.executable, "-m", "siloquent", "--workspace", str(folder), "serve", "--port", str(port)]
        with (
            (tmp_path / "said").open("ab") as said,
            subprocess.Popen(words, stderr=said, start_new_session=True) as server,
        ):
            headers = {"Authorization": f"Bearer {text}"}
            transport = httpx.HTTPTransport(retries=30)  # until it listens
            with httpx.Client(transport=transport, headers=headers, timeout=120) as client:
                found = client.post(f"http://127.0.0.1:{port}/v1/explanations", json={"sql": WARDS})
            assert found.status_code == 200, found.text
            assert len(of_session(server.pid)) >= 3, "a server, its planner, and what starts planners"
            server.send_signal(ended_by)
            server.wait()
        for _ in range(400):
            if not of_session(server.pid):
                break
            time.sleep(0.05)
        assert of_session(server.pid) == []
        assert "Traceback" not in (tmp_path / "said").read_text()


def of_session(leader: int) -> list[int]:
    """The processes that live in the session of ``leader``."""
    found = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = process.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(process.parent.name))
    return found
