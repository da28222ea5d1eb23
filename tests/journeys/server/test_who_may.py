"""Every route, every role, everybody else's things: one table decides, and what is foreign looks unknown."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from journeys.clinic import WARDS
from journeys.served import Served, clinic_workspace, serving
from siloquent.server.access.roles import ROUTES
from siloquent.server.jobs.queue import describe_job
from siloquent.server.routes import answers, collections, health, jobs, ledger, releases, silos, tables, tokens

PARTS = (tables, answers, jobs, releases, collections, silos, ledger, tokens)
BODIES: dict[str, dict[str, Any]] = {
    "explain": {"json": {"sql": WARDS}},
    "answer": {"json": {"sql": WARDS}},
    "create_job": {"json": {"task": "sketch", "spec": {"table": "visits"}}},
    "price_job": {"json": {"task": "sketch", "spec": {"table": "visits"}}},
    "put_table": {"json": {"toml": "nonsense"}},
    "upload": {"content": b"a,b\n1,2\n"},
    "ask_release": {"json": {"kind": "modes"}},
    "send_reports": {"content": b"x"},
    "estimate": {"json": {"sql": WARDS}},
    "adopt_dependencies": {"json": {"table": "visits", "pick": ["age -> ward"]}},
    "decide_session": {"json": {"decision": "approved"}},
    "create_token": {"json": {"name": "x", "role": "analyst"}},
}
ROLES = {"ana": "analyst", "owner": "owner", "auditor": "auditor", "devices": "collector", "watcher": "operator"}


def routes(served: Served) -> list[tuple[str, str, str]]:
    """Name, method and path of every route of the API, and of what an operator's machines ask."""
    found = [one for part in PARTS for one in part.router.routes if isinstance(one, APIRoute)]
    assert len({(path, method) for path, m in served.app.openapi()["paths"].items() for method in m}) == len(found)
    watched = [one for one in health.router.routes if isinstance(one, APIRoute)]
    every = [*((one, f"/v1{one.path}") for one in found), *((one, one.path) for one in watched)]
    return [(one.name, method, path) for one, path in every for method in one.methods]


def filled(path: str) -> str:
    for name, value in {
        "{table}": "visits", "{job}": "j-000000000000", "{release}": "r-999999", "{file}": "answer.parquet",
        "{account:path}": "visits@1/ana", "{upload}": "u-0", "{token}": "00000000",
        "{collection}": "c", "{session}": "s",
    }.items():  # fmt: skip
        path = path.replace(name, value)
    return path


def test_every_route_stands_in_the_table_and_every_line_is_a_route(served: Served) -> None:
    assert {name for name, _, _ in routes(served)} == set(ROUTES)


def test_without_a_token_nothing_opens(served: Served) -> None:
    with served.client("nobody", **{"Idempotency-Key": "k"}) as client:
        for name, method, path in routes(served):
            found = client.request(method, filled(path), **BODIES.get(name, {}))
            assert (name, found.status_code) == (name, 401)
            assert found.json()["code"] == "unauthorised"


def test_a_strangers_body_is_not_even_read(served: Served) -> None:
    with served.client("nobody", **{"Content-Type": "application/json"}) as client:
        for name, method, path in routes(served):
            if method in ("POST", "PUT"):
                found = client.request(method, filled(path), content=b"{ no JSON")
                assert (name, found.status_code, found.json()["code"]) == (name, 401, "unauthorised")


@pytest.mark.parametrize("who", ROLES)
def test_a_role_reaches_its_routes_and_no_other(served: Served, who: str) -> None:
    with served.client(who, **{"Idempotency-Key": f"matrix-{who}"}) as client:
        for name, method, path in routes(served):
            found = client.request(method, filled(path), **BODIES.get(name, {}))
            allowed = ROLES[who] in ROUTES[name]
            assert (found.status_code != 403) == allowed, (name, who, found.status_code, found.text[:200])
            assert found.status_code < 500, (name, found.text)


@pytest.mark.parametrize(
    "forge",
    [
        lambda text: "sq",
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text[:12] + "A" * 43,
        lambda text: text.replace("sq_", "SQ_"),
        lambda text: "sq_00000000_" + text[12:],
        lambda text: text.upper(),
        lambda text: f" {text} x",
        lambda text: "null",
        lambda text: "sq_" + "0" * 52,
        lambda text: text[::-1],
    ],
)
def test_forged_tokens_open_nothing(served: Served, forge: Any) -> None:
    with served.client("nobody") as client:
        found = client.get("/v1/me", headers={"Authorization": f"Bearer {forge(served.texts['ana'])}"})
    assert found.status_code == 401


@pytest.mark.parametrize("end", ["%0a", "%0A", "%0d%0a", "%0b", "%00", "%7f", "%1f"])
def test_a_route_is_reached_by_its_own_path_alone(served: Served, end: str) -> None:
    """A proxy that guards a path guards it by its name; a line feed at its end led past it."""
    with served.client("nobody", **{"Idempotency-Key": "k"}) as client:
        for name, method, path in [*routes(served), *(("", "GET", page) for page in ("/healthz", "/login", "/tokens"))]:
            who = next((one for one, role in ROLES.items() if name and role in ROUTES[name]), "")
            headers = {"Authorization": f"Bearer {served.texts[who]}"} if who else {}
            found = client.request(method, filled(path) + end, headers=headers, **BODIES.get(name, {}))
            assert (found.status_code, found.json()["code"]) == (404, "not_found"), (method, path, found.text)
            assert "cache-control" in found.headers


def test_of_two_tokens_none_is_taken(served: Served) -> None:
    with served.client("nobody") as client:
        for names in (("ana", "owner"), ("owner", "ana"), ("ana", "ana")):
            heads = [("Authorization", f"Bearer {served.texts[name]}") for name in names]
            assert client.get("/v1/me", headers=heads).status_code == 401, names


def test_over_tls_no_other_host_of_the_domain_can_set_the_cookie(tmp_path: Path) -> None:
    """A neighbour's page could otherwise log a person in as somebody else, who would then see what is asked."""
    with serving(clinic_workspace(tmp_path / "w"), trusted_proxy="127.0.0.1") as served:
        found = httpx.post(f"{served.address}/login", data={"token": served.texts["ana"]})
        name, _, rest = found.headers["set-cookie"].partition("=")
        value, *marks = rest.split("; ")
        assert name == "__Host-siloquent"
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(marks)
        assert not any(one.lower().startswith("domain") for one in marks)
        for key, status in ((name, 200), ("siloquent", 303)):
            page = httpx.get(f"{served.address}/", headers={"Cookie": f"{key}={value}", "Accept": "text/html"})
            assert page.status_code == status, key
        csrf = re.findall(
            r'name="csrf" value="([^"]+)"',
            httpx.get(f"{served.address}/", headers={"Cookie": f"{name}={value}", "Accept": "text/html"}).text,
        )[0]
        gone = httpx.post(f"{served.address}/logout", data={"csrf": csrf}, headers={"Cookie": f"{name}={value}"})
        assert gone.headers["set-cookie"].startswith(f'{name}=""'), gone.headers
        assert "Secure" in gone.headers["set-cookie"]
        page = httpx.get(f"{served.address}/", headers={"Cookie": f"{name}={value}", "Accept": "text/html"})
        assert page.status_code == 303


def test_a_revoked_and_an_expired_token_open_nothing_any_more(served: Served) -> None:
    tokens, store = served.app.state.house.tokens, served.app.state.house.store
    gone, old = tokens.create("gone", "analyst"), tokens.create("old", "analyst", days=1)
    with served.client("owner") as client:
        assert client.delete(f"/v1/tokens/{gone[3:11]}").status_code == 204
    store.write("UPDATE token SET expires = 1 WHERE id = ?", old[3:11])
    with served.client("nobody") as client:
        for text in (gone, old):
            assert client.get("/v1/me", headers={"Authorization": f"Bearer {text}"}).status_code == 401


def test_a_token_for_other_tables_sees_nothing_of_this_one(served: Served) -> None:
    text = served.app.state.house.tokens.create("cy", "analyst", tables=("elsewhere",))
    with served.client("nobody", Authorization=f"Bearer {text}", **{"Idempotency-Key": "k"}) as client:
        assert client.get("/v1/tables").json()["tables"] == []
        foreign, unknown = client.get("/v1/tables/visits"), client.get("/v1/tables/nothing")
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        same = [{k: v for k, v in one.json().items() if k != "instance"} for one in (foreign, unknown)]
        assert same[0] == same[1]
        assert client.post("/v1/answers", json={"sql": WARDS}).status_code == 404
        assert client.get("/v1/accounts").json()["accounts"] == []


def test_analysts_see_their_own_releases_and_what_the_owner_shared(served: Served) -> None:
    mine = served.ask("ana", WARDS, "release-mine").json()["id"]
    with served.client("bo") as bo, served.client("ana") as ana, served.client("owner") as owner:
        assert bo.get(f"/v1/releases/{mine}").status_code == 404
        assert bo.get(f"/v1/releases/{mine}/files/answer.parquet").status_code == 404
        assert ana.get(f"/v1/releases/{mine}/files/answer.parquet").content.startswith(b"PAR1")
        assert owner.post(f"/v1/releases/{mine}/share").json()["shared"]
        assert bo.get(f"/v1/releases/{mine}").status_code == 200


SKETCH = {
    "table": "visits",
    "features": ["age", "cost"],
    "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3},
    "budget": {"epsilon": "20"},
    "rows": 64,
    "width": 64,
}
PLACES = {"{table}": "visits", "{job}": "", "{release}": "", "{account:path}": "visits@1/ana"}
NOWHERE = {"{table}": "nothing", "{job}": "j-000000000000", "{release}": "r-999999", "{account:path}": "nothing@1/ana"}
STRANGERS = {"bo": ("analyst", ()), "cy": ("analyst", ("elsewhere",)), "eve": ("auditor", ("elsewhere",))}


@pytest.mark.parametrize("who", STRANGERS)
def test_what_is_foreign_looks_unknown_on_every_route_of_the_role(served: Served, who: str) -> None:
    role, own_tables = STRANGERS[who]
    house = served.app.state.house
    person = house.tokens.find_by_text(served.texts["ana"])
    job, _ = house.jobs.add(person, task="sketch", spec=SKETCH, key="foreign", max_cost=None)
    foreign = {**PLACES, "{job}": job, "{release}": served.ask("ana", WARDS, f"foreign-{who}").json()["id"]}
    text = house.tokens.create(who, role, tables=own_tables)
    with served.client("nobody", Authorization=f"Bearer {text}", **{"Idempotency-Key": f"foreign-{who}"}) as client:
        looked = 0
        for name, method, path in routes(served):
            parts = [part for part in PLACES if part in path]
            sees_it = path.startswith("/v1/tables") and not own_tables
            if not parts or role not in ROUTES[name] or sees_it:
                continue
            found = []
            for values in (foreign, NOWHERE):
                filled_in = path.replace("{file}", "answer.parquet")
                for part in parts:
                    filled_in = filled_in.replace(part, values[part])
                reply = client.request(method, filled_in, **BODIES.get(name, {}))
                found.append((reply.status_code, {k: v for k, v in reply.json().items() if k != "instance"}))
            assert found[0] == found[1], (name, found)
            assert found[0][0] == 404, (name, found)
            looked += 1
        assert looked >= 4
        if role == "analyst":
            for path in ("jobs", "releases"):
                foreign_id, unknown = (values[f"{{{path[:-1]}}}"] for values in (foreign, NOWHERE))
                told = [client.get(f"/v1/{path}", params={"after": one}) for one in (foreign_id, unknown)]
                assert [one.status_code for one in told] == [404, 404], path
        for path, body in (("explanations", {}), ("answers", {"max_cost": "1"})):
            told = [
                client.post(f"/v1/{path}", json={"sql": f"SELECT COUNT(*) FROM {table} ERROR 90", **body})
                for table in ("visits", "nothing", "elsewhere")
            ]
            if own_tables and role == "analyst":
                assert [one.status_code for one in told] == [404] * 3
                assert not any("visits" in one.text for one in told)


def test_an_auditor_sees_money_and_manifests_and_no_value(served: Served) -> None:
    release = served.ask("ana", WARDS, "audited").json()["id"]
    with served.client("auditor") as client:
        assert client.get(f"/v1/releases/{release}").status_code == 200
        assert client.get(f"/v1/releases/{release}/files/answer.parquet").status_code == 403
        assert client.post("/v1/ledger/verify").json()["ok"]
        assert client.post("/v1/ledger/checkpoints").json()["seq"] > 0
        assert client.get("/v1/accounts/visits@1/ana/entries").json()["entries"]


def test_an_analyst_sees_no_other_analysts_account(served: Served) -> None:
    served.ask("bo", WARDS, "bo-asks")
    with served.client("ana") as client:
        assert [one["name"] for one in client.get("/v1/accounts").json()["accounts"]] == ["visits@1/ana"]
        assert client.get("/v1/accounts/visits@1/bo/entries").status_code == 404
        assert client.get("/v1/accounts/visits@1/entries").status_code == 404


def test_an_owners_token_is_for_every_table(served: Served) -> None:
    body = {"name": "half", "role": "owner", "tables": ["visits"]}
    with served.client("owner") as client:
        found = client.post("/v1/tokens", json=body)
    assert (found.status_code, found.json()["code"]) == (422, "request_invalid")


@pytest.mark.parametrize("who", ["devices", "watcher"])
def test_a_machines_token_opens_no_page(served: Served, who: str) -> None:
    with served.client("nobody", Accept="text/html") as client:
        assert client.post("/login", data={"token": served.texts[who]}).status_code == 403
        assert client.get("/budget").headers["location"] == "/login"


def test_an_auditor_of_other_tables_sees_no_entry_and_no_total_of_this_one(served: Served) -> None:
    served.ask("ana", WARDS, "to-audit")
    text = served.app.state.house.tokens.create("eve", "auditor", tables=("elsewhere",))
    with served.client("nobody", Authorization=f"Bearer {text}") as client:
        assert client.post("/v1/ledger/checkpoints").status_code == 403
        assert client.post("/v1/ledger/verify").status_code == 403
        assert client.get("/v1/accounts").json()["accounts"] == []
    with served.client("nobody", Accept="text/html") as pages:
        assert pages.post("/login", data={"token": text}).status_code == 303
        assert "visits@1" not in pages.get("/ledger").text


def test_a_declaration_that_the_ledger_cannot_follow_is_refused_and_the_old_one_stays(served: Served) -> None:
    served.ask("ana", WARDS, "before-the-change")
    before = (served.folder / "schemas" / "visits.toml").read_text()
    changed = before.replace('kind = "row"', 'kind = "user", column = "patient", max_rows = 5')
    with served.client("owner") as client:
        found = client.put("/v1/tables/visits", json={"toml": changed})
    assert (found.status_code, found.json()["code"]) == (409, "conflict")
    assert (served.folder / "schemas" / "visits.toml").read_text() == before


@pytest.mark.parametrize(("old", "new"), [('epsilon = "1000"', 'epsilon = "999"'), ('ana = "1"', 'ana = "0.5"')])
def test_a_declaration_with_another_budget_brings_the_ledger_to_it_and_people_ask_on(
    served: Served, old: str, new: str
) -> None:
    served.ask("ana", WARDS, "before-the-change")
    before = (served.folder / "schemas" / "visits.toml").read_text()
    assert old in before
    with served.client("owner") as client, served.client("ana") as ana:
        found = client.put("/v1/tables/visits", json={"toml": before.replace(old, new)})
        assert (found.status_code, [one["class"] for one in found.json()["changes"]]) == (200, ["budget"])
        assert ana.get("/v1/tables/visits").status_code == 200
        (served.folder / "schemas" / "visits.toml").write_text(before)  # on the machine, without the ledger
        refused = ana.get("/v1/tables/visits")
        assert (refused.status_code, refused.json()["code"]) == (409, "ledger")
        assert client.put("/v1/tables/visits", json={"toml": before}).status_code == 200
    assert served.ask("ana", WARDS, "before-the-change").status_code == 200


def test_a_request_with_two_keys_or_conditions_is_not_read_by_its_first_alone(served: Served) -> None:
    keys = [("Idempotency-Key", "one"), ("Idempotency-Key", "two")]
    with served.client("ana") as ana, served.client("owner") as owner:
        for client, path, body in (
            (ana, "/v1/answers", {"sql": WARDS}),
            (owner, "/v1/tokens", {"name": "cy", "role": "analyst"}),
        ):
            found = client.post(path, json=body, headers=[*client.headers.items(), *keys])
            assert (found.status_code, found.json()["code"]) == (400, "idempotency_key_missing")
        same = {"toml": (served.folder / "schemas" / "visits.toml").read_text()}
        either = [("If-None-Match", '"x"'), ("If-None-Match", "*")]
        found = owner.put("/v1/tables/visits", json=same, headers=[*owner.headers.items(), *either])
        assert found.status_code == 412
        tag = owner.get("/v1/tables/visits").headers["etag"]
        either = [("If-Match", '"x"'), ("If-Match", tag)]
        assert owner.put("/v1/tables/visits", json=same, headers=[*owner.headers.items(), *either]).status_code == 200


def test_a_revoked_tokens_job_spends_nothing(served: Served) -> None:
    house = served.app.state.house
    text = house.tokens.create("fay", "analyst")
    person = house.tokens.find_by_text(text)
    house.tokens.revoke(text[3:11])
    job, _ = house.jobs.add(person, task="sketch", spec=SKETCH, key="late", max_cost=None)
    for _ in range(2_400):
        if (found := describe_job(house.jobs.row(job)))["state"] in ("done", "failed"):
            break
        time.sleep(0.05)
    assert (found["state"], found["result"]["code"]) == ("failed", "not_allowed")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_another_origins_page_logs_nobody_in(served: Served, headers: dict[str, str], status: int) -> None:
    with served.client("nobody", **headers) as client:
        found = client.post("/login", data={"token": served.texts["ana"]})
    assert (found.status_code, "set-cookie" in found.headers) == (status, status == 303)


def test_no_redirect_names_the_host_that_a_request_did(served: Served) -> None:
    with served.client("ana", Host="evil.example") as client:
        found = client.get("/v1/me/")
    assert (found.status_code, "location" in found.headers) == (404, False)
