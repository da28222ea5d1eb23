"""Values that nobody declared, discovered as a job at a server, then declared over HTTP and asked by."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from journeys.documents import faults
from journeys.faces import FACES, session_of
from journeys.served import WIDE, clinic_workspace, serving
from siloquent.api import open_session
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.discover import DiscoveredKeys
from siloquent.errors import RequestError, UnknownName
from siloquent.server.repeats import build_ledger_key

LISTED = '{ name = "ward", type = "category", values = ["A", "B", "=1+1", "icu"], null = "drop" }'
TEXT = '{ name = "ward", type = "text", max_bytes = 100 }'
DISCOVER = {"task": "discover", "spec": {"table": "visits", "column": "ward", "budget": {"epsilon": "2"}}}


@pytest.mark.slow
def test_values_are_discovered_as_a_job_and_declared(tmp_path: Path) -> None:
    toml = WIDE.replace(LISTED, TEXT).replace("[budget]", '[budget]\ndelta_events = "5e-7"')
    folder = clinic_workspace(tmp_path / "clinic", toml=toml)
    with serving(folder) as served, served.client("owner") as owner, served.client("ana") as ana:
        price = ana.post("/v1/jobs/prices", json=DISCOVER).json()
        assert list(faults(price, json_schema("discovery-plan"))) == []
        made = ana.post("/v1/jobs", json=DISCOVER, headers={"Idempotency-Key": "wards"})
        job: dict[str, Any] = made.json()
        for _ in range(1_200):
            if job["state"] in ("done", "failed"):
                break
            time.sleep(0.05)
            job = ana.get(f"/v1/jobs/{job['id']}").json()
        assert (job["state"], job["done"], job["steps"]) == ("done", 3, 3), job
        found = job["result"]["discovery"]
        assert list(faults(found, json_schema("discovery"))) == []
        assert found["keys"] == ["=1+1", "A", "B", "icu"]
        assert float(job["cost"]["delta"]) > 0
        assert (folder / "domains" / "visits-ward.toml").is_file()
        current = owner.get("/v1/tables/visits")
        text = (folder / "schemas" / "visits.toml").read_text().replace(TEXT, found["declaration"])
        put = owner.put("/v1/tables/visits", json={"toml": text}, headers={"If-Match": current.headers["etag"]})
        assert put.status_code in (200, 204), put.text
        sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 100"
        answer = served.ask("ana", sql, "by ward")
        assert answer.status_code == 200, answer.text
        assert "(other)" in answer.text


@pytest.mark.slow
def test_an_owner_discovers_on_the_account_of_the_table_and_starts_no_other_job(tmp_path: Path) -> None:
    toml = WIDE.replace(LISTED, TEXT).replace("[budget]", '[budget]\ndelta_events = "5e-7"')
    with serving(clinic_workspace(tmp_path / "clinic", toml=toml)) as served, served.client("owner") as owner:
        for spec, column, kind in ((DISCOVER, "ward", "keys"), (DISCOVER, "cost", "bounds")):
            asked: dict[str, Any] = {**spec, "spec": {**DISCOVER["spec"], "column": column}}  # type: ignore[dict-item]
            price = owner.post("/v1/jobs/prices", json=asked)
            assert (price.status_code, price.json()["kind"]) == (200, kind), price.text
            job = owner.post("/v1/jobs", json=asked, headers={"Idempotency-Key": column}).json()
            for _ in range(60):
                if job["state"] in ("done", "failed"):
                    break
                job = owner.get(f"/v1/jobs/{job['id']}?wait=25").json()
            assert (job["state"], job["account"], job["done"]) == ("done", "visits@1", 3), job
            assert job["result"]["discovery"]["kind"] == kind
            assert job["result"]["discovery"]["receipt"]["account"] == "visits@1"
        accounts = {one["name"]: one for one in owner.get("/v1/accounts").json()["accounts"]}
        assert float(accounts["visits@1"]["spent"]) > 0
        assert "visits@1/owner" not in accounts
        sketch = {"task": "sketch", "spec": {"table": "visits", "features": ["age"], "budget": {"epsilon": "1"}}}
        for path in ("/v1/jobs", "/v1/jobs/prices"):
            refused = owner.post(path, json=sketch, headers={"Idempotency-Key": "s"})
            assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid"), refused.text


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
def test_a_session_at_a_server_discovers_as_one_on_its_folder(tmp_path: Path, face: str) -> None:
    toml = WIDE.replace(LISTED, TEXT).replace("[budget]", '[budget]\ndelta_events = "5e-7"')
    folder = clinic_workspace(tmp_path / "clinic", toml=toml)
    with serving(folder) as served, session_of(face, served.address, served.texts["ana"]) as ana:
        price = ana.discover.explain("visits", "ward", epsilon="2", at_least=5)
        assert (price.table, price["kind"]) == ("visits", "keys")
        found = ana.discover("visits", "ward", epsilon="2", at_least=5, key="wards")
        assert (found.kind, found.discovered, found.name) == ("keys", ("=1+1", "A", "B", "icu"), "visits-ward")
        assert found.declaration
        spent = ana.get_account("visits").spent
        again = ana.discover("visits", "ward", epsilon="2", at_least=5, key="wards")
        assert (again.to_json(), ana.get_account("visits").spent) == (found.to_json(), spent)
        with open_session(folder, analyst="ana") as here:
            local = here.discover("visits", "ward", epsilon="2", at_least=5, key=build_ledger_key("ana", "wards"))
            assert isinstance(local, DiscoveredKeys)
            assert (local.keys, here.get_account("visits").spent) == (found.discovered, spent)
        bounds = ana.discover("visits", "cost", epsilon="2")
        assert (bounds.kind, bounds.discovered) == ("bounds", ())
        assert 0 <= float(bounds.lo) < float(bounds.hi) <= 1000
        with pytest.raises(UnknownName):
            ana.discover("visits", "nothing", epsilon="2")
        with pytest.raises(RequestError, match=r"budget|epsilon"):
            ana.discover("visits", "ward")
