"""What a workspace does with others, over HTTP: dependencies, offers, sessions; each to its roles alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from journeys.served import Served, serving
from journeys.silos import Silo, silo_workspace


@pytest.fixture(scope="module")
def silo(tmp_path_factory: pytest.TempPathFactory) -> Silo:
    return silo_workspace(tmp_path_factory.mktemp("silo") / "clinic")


@pytest.fixture(scope="module")
def there(silo: Silo) -> Iterator[Served]:
    with serving(silo.folder) as running:
        yield running


def test_dependencies_are_told_to_the_owner_and_to_whom_they_were_shared_with(there: Served, silo: Silo) -> None:
    path = f"/v1/releases/{silo.report}/dependencies"
    with there.client("owner") as owner, there.client("ana") as ana, there.client("auditor") as auditor:
        found = owner.get(path).json()
        assert found["schema"] == "siloquent/fd-report/1"
        assert [["age", "ward"], "note"] in found["ufd"]
        assert ana.get(path).status_code == 404
        assert auditor.get(path).status_code == 403
        assert owner.post(f"/v1/releases/{silo.report}/share").status_code == 200
        assert ana.get(path).json() == found


def test_an_owner_adopts_what_holds_over_all_rows_and_nothing_else(there: Served, silo: Silo) -> None:
    file, path = silo.folder / "schemas" / "visits.toml", f"/v1/releases/{silo.report}/adoption"
    with there.client("owner") as owner:
        wrong = owner.post(path, json={"table": "visits", "pick": ["ward -> note"]})
        assert wrong.status_code in (404, 422)
        assert "note" not in file.read_text().partition("[table]")[2]
        for changed in (True, False):
            done = owner.post(path, json={"table": "visits", "pick": ["patient -> age"]})
            assert (done.status_code, done.json()["changed"]) == (200, changed)
        assert owner.get("/v1/tables/visits").json()["constraints"]
        assert (
            owner.post("/v1/releases/r-000009/adoption", json={"table": "visits", "pick": ["a -> b"]}).status_code
            == 404
        )


def test_the_catalogue_lists_offers_without_their_sums(there: Served, silo: Silo) -> None:
    with there.client("ana") as ana, there.client("auditor") as auditor:
        found = ana.get("/v1/catalogue").json()
        assert [(one["id"], one["table"], one["features"]) for one in found["offers"]] == [
            (silo.offer, "visits", ["cost"])
        ]
        assert auditor.get("/v1/catalogue").status_code == 403


def test_an_owner_sees_who_asks_and_says_yes_once(there: Served, silo: Silo) -> None:
    with there.client("owner") as owner, there.client("auditor") as auditor, there.client("ana") as ana:
        found = owner.get("/v1/sessions").json()
        assert (found["role"], found["kind"], found["certificate"]["state"]) == ("north", "party", "good")
        assert [(one["session"], one["state"]) for one in found["sessions"]] == [(silo.session, "invited")]
        assert ana.get("/v1/sessions").status_code == 403
        told = auditor.get(f"/v1/sessions/{silo.session}").json()
        assert (told["statement"], told["status"]) == ("each role learns the dependencies", None)
        assert told["silent"]
        path = f"/v1/sessions/{silo.session}/approval"
        assert auditor.post(path, json={"decision": "approved"}).status_code == 403
        assert owner.post("/v1/sessions/none/approval", json={"decision": "approved"}).status_code == 404
        assert owner.post(path, json={"decision": "approved"}).json()["decision"] == "approved"
        assert owner.post(path, json={"decision": "refused"}).status_code == 409


def test_a_workspace_without_a_bundle_says_so(served: Served) -> None:
    with served.client("owner") as owner:
        found = owner.get("/v1/sessions")
    assert (found.status_code, "not part of a federation" in found.json()["detail"]) == (404, True)


def test_a_request_is_answered_as_a_job_with_a_ranking(there: Served) -> None:
    spec = {"table": "visits", "target": "age", "features": ["cost"], "keys": ["ward"]}
    spec |= {"scoring": "platform", "budget": {"epsilon": "5"}}
    with there.client("ana", **{"Idempotency-Key": "find"}) as ana:
        job = ana.post("/v1/jobs", json={"task": "find", "spec": spec}).json()
        for _ in range(1_200):
            if (found := ana.get(f"/v1/jobs/{job['id']}").json())["state"] in ("done", "failed"):
                break
            time.sleep(0.1)
    assert found["state"] == "done", found["result"]["detail"]
    assert found["result"]["found"]["schema"] == "siloquent/found/1"
    assert found["result"]["found"]["scoring"] == "platform"
