"""Whatever makes something may be sent again: with its key it makes nothing new, and says what it made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from journeys.clinic import TOML
from journeys.documents import faults
from journeys.served import Served, clinic_workspace, serving
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.server.routes import tables
from siloquent.server.tables.declaring import hold_declarations

CSV = b"age,ward\n1,A\n"
KEY = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"


def post_upload(client: httpx.Client, key: str, body: bytes = CSV) -> httpx.Response:
    return client.post("/v1/uploads", content=body, headers={KEY: key})


def post_token(client: httpx.Client, key: str, name: str = "new") -> httpx.Response:
    return client.post("/v1/tokens", json={"name": name, "role": "analyst"}, headers={KEY: key})


def uploaded(served: Served) -> list[str]:
    return sorted(one.name for one in (served.folder / "uploads").glob("*"))


def test_an_upload_that_is_sent_again_is_kept_once_and_answered_alike(served: Served) -> None:
    with served.client("owner") as owner:
        first = post_upload(owner, "up")
        before = uploaded(served)
        again = post_upload(owner, "up")
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
        other = post_upload(owner, "up", CSV + b"2,B\n")
        assert (other.status_code, other.json()["code"]) == (409, "key_reused")
        on_another_route = post_token(owner, "up")
        assert (on_another_route.status_code, on_another_route.json()["code"]) == (409, "key_reused")
        assert uploaded(served) == before
        without = [owner.post("/v1/uploads", content=CSV).json()["id"] for _ in range(2)]
        assert without[0] != without[1]


def test_a_tokens_key_makes_no_second_one_and_its_text_is_kept_nowhere(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("owner") as owner:
        made = post_token(owner, "hire").json()
        again = post_token(owner, "hire")
        assert (again.status_code, again.json()["code"]) == (409, "already_made")
        assert f"DELETE /v1/tokens/{made['id']}" in again.json()["fix"]
        assert post_token(owner, "hire", "other").json()["code"] == "key_reused"
        assert [one["id"] for one in owner.get("/v1/tokens").json()["tokens"] if one["name"] == "new"] == [made["id"]]
        assert owner.delete(f"/v1/tokens/{made['id']}").status_code == 204
        second = post_token(owner, "hire again")
        assert second.status_code == 201
    for text in (made["token"], second.json()["token"]):
        assert not [file for file in served.folder.glob("server.sqlite*") if text[12:].encode() in file.read_bytes()]


@pytest.mark.parametrize("sent", [post_upload, post_token])
def test_of_many_at_once_with_one_key_one_makes_something(
    tmp_path: Path, sent: Callable[[httpx.Client, str], httpx.Response]
) -> None:
    folder = clinic_workspace(tmp_path / "w")
    with serving(folder) as one, serving(folder) as two:
        found: list[httpx.Response] = []

        def send(served: Served) -> None:
            with httpx.Client(
                base_url=served.address, headers={"Authorization": f"Bearer {one.texts['owner']}"}, timeout=60
            ) as client:
                found.append(sent(client, "race"))

        threads = [threading.Thread(target=send, args=(served,)) for served in (one, two) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        new = [one for one in found if one.status_code == 201 and REPLAYED not in one.headers]
        assert (len(found), len(new)) == (8, 1)
        others = {one.json().get("code", one.json().get("id")) for one in found if one is not new[0]}
        assert others == ({new[0].json()["id"]} if sent is post_upload else {"already_made"})
        store = one.app.state.house.store
        counts = {"upload": len(uploaded(one)) if (folder / "uploads").exists() else 0}
        counts["token"] = store.fetch_one("SELECT count(*) AS n FROM token WHERE name = 'new'")["n"]
        assert sum(counts.values()) == 1


def test_a_key_is_its_names_own(served: Served) -> None:
    text = served.app.state.house.tokens.create("second", "owner")
    with served.client("owner") as owner, served.client("", Authorization=f"Bearer {text}") as second:
        mine, theirs = post_upload(owner, "own").json()["id"], post_upload(second, "own").json()["id"]
        assert mine != theirs


@pytest.mark.parametrize("key", ["", "x" * 65, "\u00e9".encode()])
def test_a_key_that_cannot_be_one_is_refused_also_where_it_need_not_be(served: Served, key: str | bytes) -> None:
    with served.client("owner") as owner:
        found = owner.post("/v1/uploads", content=CSV, headers={KEY: key})
        assert (found.status_code, found.json()["code"]) == (400, "idempotency_key_missing")


def test_a_job_that_is_sent_again_says_so(served: Served) -> None:
    spec = {"table": "visits", "features": ["age"], "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3}}
    body = {"task": "sketch", "spec": {**spec, "budget": {"epsilon": "1"}, "rows": 64, "width": 64}}
    with served.client("ana", **{KEY: "job"}) as ana:
        first, again = (ana.post("/v1/jobs", json=body) for _ in range(2))
        assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
        assert first.headers["location"] == again.headers["location"]


# Declarations: nobody overwrites what they have not seen


def declaration(served: Served, number: int, name: str = "visits") -> str:
    text = (served.folder / "schemas" / "visits.toml").read_text()
    return text.replace('name = "visits"', f'name = "{name}"').replace(
        "size_hint = 3000", f"size_hint = {3000 + number}"
    )


def test_of_two_owners_who_change_one_declaration_the_later_is_told(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("owner") as owner:
        tag = owner.get("/v1/tables/visits").headers["etag"]
        first = owner.put("/v1/tables/visits", json={"toml": declaration(served, 1)}, headers={"If-Match": tag})
        assert first.status_code == 200
        late = owner.put("/v1/tables/visits", json={"toml": declaration(served, 2)}, headers={"If-Match": tag})
        assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")
        assert owner.get("/v1/tables/visits").json()["size_hint"] == 3001
        now = owner.get("/v1/tables/visits").headers["etag"]
        assert now == first.headers["etag"] != tag
        for match in (f'"x", {now}', "*"):
            found = owner.put("/v1/tables/visits", json={"toml": declaration(served, 1)}, headers={"If-Match": match})
            assert found.status_code == 200, match
        served.ask("ana", "SELECT COUNT(*) FROM visits ERROR 300", "spends")
        assert owner.get("/v1/tables/visits").headers["etag"] == now, "an answer changes no declaration"
        with served.client("ana") as ana:
            assert "etag" not in ana.get("/v1/tables/visits").headers


@pytest.mark.parametrize("match", ["", "x", '"x"', 'W/"x"', "W/*", '"' * 3, '"\u00e4"'])
def test_a_precondition_that_names_something_else_is_not_met(served: Served, match: str) -> None:
    with served.client("owner") as owner:
        weak = f"W/{owner.get('/v1/tables/visits').headers['etag']}"
        for text in (match, weak):
            headers = {"If-Match": text.encode("latin-1")}
            found = owner.put("/v1/tables/visits", json={"toml": declaration(served, 5)}, headers=headers)
            assert found.status_code == 412, text
        assert owner.get("/v1/tables/visits").json()["size_hint"] == 3000


def test_a_table_is_declared_only_where_there_is_none(served: Served) -> None:
    with served.client("owner", **{"If-None-Match": "*"}) as owner:
        codes = [
            owner.put("/v1/tables/once", json={"toml": declaration(served, i, "once")}).status_code for i in (1, 2)
        ]
        assert codes == [200, 412]
        missing = owner.put("/v1/tables/not", json={"toml": declaration(served, 1, "not")}, headers={"If-Match": "*"})
        assert missing.status_code == 412
        assert not (served.folder / "schemas" / "not.toml").exists()


def test_of_many_changes_at_once_from_one_state_one_is_made(tmp_path: Path) -> None:
    folder = clinic_workspace(tmp_path / "w")
    with serving(folder) as one, serving(folder) as two, one.client("owner") as owner:
        tag, codes = owner.get("/v1/tables/visits").headers["etag"], []

        def change(served: Served, number: int) -> None:
            headers = {"Authorization": f"Bearer {one.texts['owner']}", "If-Match": tag}
            with httpx.Client(base_url=served.address, headers=headers, timeout=60) as client:
                body = {"toml": declaration(one, number)}
                codes.append(client.put("/v1/tables/visits", json=body).status_code)

        threads = [threading.Thread(target=change, args=(served, i)) for i, served in enumerate((one, two) * 4, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [200] + [412] * 7


def test_the_page_that_edits_a_table_overwrites_no_other_owners_change(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("", Accept="text/html") as page:
        assert page.post("/login", data={"token": served.texts["owner"]}).status_code == 303
        form = page.get("/tables/visits/edit").text
        fields = {name: form.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("csrf", "tag")}
        file = served.folder / "schemas" / "visits.toml"
        theirs, mine = declaration(served, 1), declaration(served, 2)
        file.write_text(theirs)
        sent = {**{name: value.replace("&#34;", '"') for name, value in fields.items()}, "name": "visits", "toml": mine}
        assert page.post("/tables/visits/edit", data=sent).status_code == 422
        assert file.read_text() == theirs
        assert page.post("/tables/visits/edit", data={**sent, "tag": ""}).status_code == 303
        assert file.read_text() == mine


# How often: said on each response


@given(rate=st.floats(0.01, 1e9), burst=st.integers(1, 10**15))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_left_is_what_is_granted(rate: float, burst: int) -> None:
    from siloquent.server.access.limits import RequestRates
    from siloquent.server.failures.problems import Refused

    now = [0.0]
    rates = RequestRates(rate=rate, burst=burst, clock=lambda: now[0])
    told = fields(rates.take("ana"))
    assert told["r"] == min(burst, 10**15 - 1) - 1 or burst == 10**15
    granted = 1
    while granted < 20 and told["r"] > 0:
        told, granted = fields(rates.take("ana")), granted + 1
    if told["r"] == 0:
        with pytest.raises(Refused) as refused:
            rates.take("ana")
        wait = fields(refused.value.headers["RateLimit"])["t"]
        assert wait == int(refused.value.headers["Retry-After"])
        now[0] += wait + 1e-6
        rates.take("ana")


def fields(text: str) -> dict[str, int]:
    name, *parts = text.split(";")
    assert name == '"person"'
    return {part[0]: int(part[2:]) for part in parts}


def test_each_response_to_a_good_token_says_how_much_is_left(tmp_path: Path) -> None:
    with (
        serving(clinic_workspace(tmp_path / "w"), rate_per_second=0.001, burst=6) as served,
        served.client("ana") as ana,
        served.client("nobody") as nobody,
    ):
        found = [ana.get(path) for path in ("/v1/me", "/v1/tokens", "/v1/none/x", "/v1/jobs/x", "/v1/tables", "/v1/me")]
        told = [fields(one.headers["ratelimit"])["r"] for one in found if "ratelimit" in one.headers]
        assert [one.status_code for one in found] == [200, 403, 404, 404, 200, 200]
        assert told == [5, 4, 3, 2, 1], "an address that is none takes nothing"
        assert {one.headers.get("ratelimit-policy") for one in found} == {'"person";q=6;w=6000', None}
        ana.get("/v1/me")
        late = ana.get("/v1/me")
        assert late.status_code == 429
        assert fields(late.headers["ratelimit"]) == {"r": 0, "t": int(late.headers["retry-after"])}
        assert "ratelimit" not in nobody.get("/v1/me").headers


# What a job cost, and who did what


def test_a_job_says_what_it_costs_as_the_ledger_has_it(tmp_path: Path) -> None:
    with (
        serving(clinic_workspace(tmp_path / "w"), jobs=1) as served,
        served.client("ana") as ana,
        served.client("owner") as owner,
    ):
        body: dict[str, Any] = {"task": "synth", "spec": {"table": "visits", "columns": ["age", "ward"]}}
        body["spec"]["budget"] = {"epsilon": "20"}
        first = ana.post("/v1/jobs", json=body, headers={KEY: "one"}).json()
        second = ana.post("/v1/jobs", json=body, headers={KEY: "two"}).json()
        for queued in (first, second):
            assert (queued["cost"], queued["release"], queued["cancelled_by"]) == (None, None, None)
        assert owner.delete(f"/v1/jobs/{second['id']}").json()["cancelled_by"] == "owner"
        while (done := ana.get(f"/v1/jobs/{first['id']}", params={"wait": 25}).json())["state"] != "done":
            assert done["state"] in ("queued", "running"), done
        account = ana.get("/v1/accounts").json()["accounts"][0]
        assert done["account"] == account["name"] == "visits@1/ana"
        assert done["cost"] == {"symbol": "rho", "spent": account["spent"], "delta": account["delta_spent"]}
        assert float(done["cost"]["spent"]) > 0
        assert ana.get(f"/v1/releases/{done['release']}").status_code == 200
        assert list(faults(done, json_schema("job"))) == []
        listed = {one["id"]: one for one in owner.get("/v1/jobs").json()["jobs"]}
        assert listed[first["id"]] == done
        assert (listed[second["id"]]["cost"], listed[second["id"]]["cancelled_by"]) == (None, "owner")
        store = served.app.state.house.store
        for state in ("failed", "running"):
            changed = "UPDATE job SET cost = NULL, result = NULL, state = ?, held_until = 99999999999 WHERE id = ?"
            store.write(changed, state, first["id"])
            assert ana.get(f"/v1/jobs/{first['id']}").json()["cost"] == done["cost"], "from the ledger"
        assert ana.post("/v1/jobs", json=body, headers={KEY: "two"}).json()["cancelled_by"] is None
        ana.delete(f"/v1/jobs/{second['id']}")


def test_acts_that_concern_others_are_on_record_and_no_others(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served:
        house = served.app.state.house
        queued = (
            "INSERT INTO job (id, name, token, task, spec, key, state, created, changed, held_until) "
            "VALUES (?, 'ana', '', 'sketch', '{\"table\": \"visits\"}', ?, 'running', 1, 1, 99999999999)"
        )
        for number in ("j-1", "j-2"):
            house.store.write(queued, number, number)
        release = served.ask("ana", "SELECT COUNT(*) FROM visits ERROR 300", "k").json()["id"]
        with served.client("owner") as owner, served.client("ana") as ana, served.client("auditor") as auditor:
            token = post_token(owner, "t").json()["id"]
            upload = post_upload(owner, "u").json()["id"]
            owner.put("/v1/tables/visits", json={"toml": declaration(served, 1)})
            owner.put("/v1/tables/visits", json={"toml": "wrong"})
            owner.post(f"/v1/releases/{release}/share")
            owner.delete(f"/v1/releases/{release}")
            owner.delete(f"/v1/uploads/{upload}")
            owner.delete(f"/v1/tokens/{token}")
            owner.delete("/v1/tokens/00000000")
            ana.delete("/v1/jobs/j-1")
            owner.delete("/v1/jobs/j-2")
            owner.delete("/v1/jobs/j-2")
            owner.delete("/v1/jobs/j-2", params={"forget": "true"})
            assert ana.get("/v1/acts").status_code == 403
            found = auditor.get("/v1/acts").json()
            assert found == owner.get("/v1/acts").json()
            assert list(faults(found, json_schema("act-list"))) == []
            assert [(one["name"], one["what"], one["subject"]) for one in found["acts"]][::-1] == [
                ("owner", "create_token", token), ("owner", "upload", upload), ("owner", "put_table", "visits"),
                ("owner", "share_release", release), ("owner", "delete_release", release),
                ("owner", "delete_upload", upload), ("owner", "revoke_token", token), ("ana", "cancel_job", "j-1"),
                ("owner", "cancel_job", "j-2"), ("owner", "forget_job", "j-2"),
            ]  # fmt: skip
            assert {one["token"] for one in found["acts"]} == {served.texts[who][3:11] for who in ("owner", "ana")}
            middle = found["acts"][4]["id"]
            assert auditor.get("/v1/acts", params={"before": middle}).json()["acts"] == found["acts"][5:]
            with served.client("", Accept="text/html") as page:
                page.post("/login", data={"token": served.texts["auditor"]})
                assert "<code>cancel_job</code>" in page.get("/budget").text


def test_a_new_table_of_another_source_needs_no_precondition(served: Served) -> None:
    toml = TOML.replace("SOURCE", "csv:data/none.csv").replace('"visits"', '"plain"')
    with served.client("owner") as owner:
        assert [owner.put("/v1/tables/plain", json={"toml": toml}).status_code for _ in range(2)] == [200, 200]


def test_an_upload_that_another_server_has_just_made_is_not_kept_twice(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served.client("owner") as owner:
        first = post_upload(owner, "just now")
        before = uploaded(served)
        monkeypatch.setattr(tables, "is_known", lambda *_: False)  # as it was when this one began
        again = post_upload(owner, "just now")
        assert (again.json(), again.headers[REPLAYED]) == (first.json(), "true")
        assert post_upload(owner, "just now", CSV * 2).json()["code"] == "key_reused"
        assert uploaded(served) == before


def test_a_declaration_waits_for_who_is_writing_one(tmp_path: Path) -> None:
    with serving(clinic_workspace(tmp_path / "w")) as served, served.client("owner") as owner:
        tag, file = owner.get("/v1/tables/visits").headers["etag"], served.folder / "schemas" / "visits.toml"
        theirs, mine, found = declaration(served, 1), declaration(served, 2), []

        def change() -> None:
            found.append(owner.put("/v1/tables/visits", json={"toml": mine}, headers={"If-Match": tag}).status_code)

        thread = threading.Thread(target=change)
        with hold_declarations(served.folder):
            thread.start()
            thread.join(0.5)
            file.write_text(theirs)
        thread.join()
        assert (found, file.read_text()) == ([412], theirs)
