"""Tokens for some tables: they see what is left for these, also in a unit's account, and learn of no other table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from journeys.served import Served, serving
from siloquent.server.access.roles import ROUTES
from siloquent.session import create_workspace

HIDDEN = "zebra"
"""Part of the name of each table and column that the tokens are not for."""
UNIT = """\
format = 1
[unit]
name = "customer"
adjacency = "add-remove"
[budget]
accountant = "zcdp"
epsilon = "1000"
delta = "1e-6"
analysts = { ana = "1", bo = "1" }
"""
NUMBER = 'type = "integer"\nlo = 0\nhi = 10\noutside = "clamp"\nnull = "drop"'
CATEGORY = 'type = "category"\nvalues = ["A", "B"]\nnull = "drop"'
OWN_BUDGET = 'adjacency = "add-remove"\nsize_hint = 400\n' + UNIT[UNIT.index("[budget]") :]
TABLES = {
    "cust": ('unit = { of = "customer", column = "c", max_rows = 1 }', {"c": 'type = "id"', "seg": CATEGORY}),
    "zebraorders": (
        'unit = { of = "customer", column = "zebrac", max_rows = 9 }',
        {"o": 'type = "id"', "zebrac": 'type = "id"', "zebran": NUMBER},
    ),
    "lines": (
        'unit = { of = "customer", via = "zebraorders", on = { ord = "o" }, max_rows = 9 }',
        {"ord": 'type = "id"', "q": NUMBER},
    ),
    "zebraalone": (f'unit = {{ kind = "row" }}\n{OWN_BUDGET}', {"zebracol": CATEGORY}),
    "alone": (f'unit = {{ kind = "row" }}\n{OWN_BUDGET}', {"n": NUMBER}),
}
PAID = " BUDGET 1 EPSILON"
QUESTIONS = {
    "cust": "SELECT COUNT(*) FROM cust",
    "lines": "SELECT SUM(q) FROM lines",
    "alone": "SELECT COUNT(*) FROM alone",
    "zebraalone": "SELECT zebracol, COUNT(*) FROM zebraalone GROUP BY zebracol",
    "zebraorders": "SELECT SUM(zebran) FROM zebraorders",
    "lines+zebraorders": "SELECT COUNT(*) FROM lines JOIN zebraorders ON ord = o",
    "lines+cust+zebraorders": "SELECT COUNT(*) FROM lines JOIN zebraorders ON ord = o JOIN cust ON zebrac = c",
}
CLOSED = [
    *(QUESTIONS[name] for name in QUESTIONS if HIDDEN in name),
    "SELECT COUNT(*) FROM lines, cust WHERE ord = c",
    "SELECT COUNT(*) FROM lines JOIN cust ON ord = c",
    "SELECT AVG(n) FROM (SELECT zebrac, COUNT(*) AS n FROM zebraorders GROUP BY zebrac) t",
    "WITH t AS (SELECT * FROM zebraorders) SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM lines WHERE ord IN (SELECT o FROM zebraorders)",
    "DISCOVER BOUNDS OF zebran FROM zebraorders",
]
SPEC = {"table": "zebraorders", "column": "zebran", "budget": {"epsilon": "20"}}
PAGES = ["/", "/tables", "/tables/{table}", "/budget", "/ledger", "/jobs", "/jobs/{job}", "/search", "/dependencies"]
PAGES += ["/releases", "/releases/{release}", "/releases/{release}/files/{file}", "/collections", "/help"]


def shop(folder: Path) -> Path:
    """A workspace with a unit over three tables, and two tables on their own."""
    create_workspace(folder)
    (folder / "units").mkdir()
    (folder / "units" / "customer.toml").write_text(UNIT)
    for name, (head, columns) in TABLES.items():
        text = f'format = 1\n[table]\nname = "{name}"\nsource = "csv:{name}.csv"\n{head}\n'
        text += "".join(f'[[attribute]]\nname = "{column}"\n{kind}\n' for column, kind in columns.items())
        (folder / "schemas" / f"{name}.toml").write_text(text)
        rows = ("AB"[row % 2] if "category" in kind else str(row) for row in range(60) for kind in columns.values())
        cells = [",".join(line) for line in zip(*[iter(rows)] * len(columns), strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([",".join(columns), *cells]) + "\n")
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server at which ana, whose first token is for all tables, and bo have asked about each of them."""
    with serving(shop(tmp_path_factory.mktemp("shop") / "w"), slot_counts_ms=1, slot_answers_ms=1) as running:
        for who in ("ana", "bo"):
            for name, question in QUESTIONS.items():
                found = running.ask(who, question + PAID, name)
                assert found.status_code == 200, found.text
                assert found.json()["table"] == name
        with running.client("ana", **{"Idempotency-Key": "discovery"}) as ana:
            job = ana.post("/v1/jobs", json={"task": "discover", "spec": SPEC}).json()["id"]
            while (told := ana.get(f"/v1/jobs/{job}", params={"wait": 20}).json())["state"] in ("queued", "running"):
                pass
            assert told["state"] == "done", told
        yield running


def client_for(served: Served, who: str, role: str, *tables: str, **headers: str) -> httpx.Client:
    text = served.app.state.house.tokens.create(who, role, tables=tables)
    return served.client("nobody", Authorization=f"Bearer {text}", **headers)


def accounts_of(client: httpx.Client) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in client.get("/v1/accounts").json()["accounts"]}


@pytest.mark.parametrize(
    ("tables", "seen"),
    [
        (("lines",), {"unit.customer@1/ana"}),
        (("cust", "lines"), {"unit.customer@1/ana"}),
        (("alone",), {"alone@1/ana"}),
        (("alone", "cust"), {"alone@1/ana", "unit.customer@1/ana"}),
        ((), {"alone@1/ana", "unit.customer@1/ana", "zebraalone@1/ana"}),
    ],
)
def test_an_analyst_sees_what_is_left_for_the_tables_of_the_token(
    served: Served, tables: tuple[str, ...], seen: set[str]
) -> None:
    with client_for(served, "ana", "analyst", *tables) as ana, served.client("ana") as every:
        found = accounts_of(ana)
        assert set(found) == seen
        assert found == {name: one for name, one in accounts_of(every).items() if name in seen}
        left = {one["name"]: one["left"] for one in ana.get("/v1/tables").json()["tables"]}
        for table in tables:
            shown = ana.get(f"/v1/tables/{table}").json()["account"]
            assert shown["left"] == left[table] == found[shown["name"]]["left"]


def test_an_auditor_of_a_units_table_sees_the_units_totals_and_its_entries_only_for_all_of_its_tables(
    served: Served,
) -> None:
    units = {f"unit.customer@1{share}" for share in ("", "/ana", "/bo")}
    with client_for(served, "eve", "auditor", "lines") as eve:
        assert set(accounts_of(eve)) == units
        assert [one["account"] for one in eve.get("/v1/spending").json()["lines"]] == []
        for account in units:
            found = eve.get(f"/v1/accounts/{account}/entries")
            assert (found.status_code, found.json()["code"]) == (403, "not_allowed")
    with client_for(served, "eve", "auditor", "lines", "cust", "zebraorders") as eve, served.client("auditor") as every:
        assert set(accounts_of(eve)) == units
        for account in units:
            path = f"/v1/accounts/{account}/entries"
            assert eve.get(path).json() == every.get(path).json()
        lines = [one for one in every.get("/v1/spending").json()["lines"] if one["account"] == "unit.customer@1"]
        assert eve.get("/v1/spending").json()["lines"] == lines != []
    with client_for(served, "ana", "analyst", "lines") as ana:
        assert ana.get("/v1/accounts/unit.customer@1/ana/entries").status_code == 403
        assert ana.get("/v1/accounts/unit.customer@1/bo/entries").status_code == 404


def test_a_declaration_that_cannot_be_read_does_not_open_the_units_entries(served: Served) -> None:
    file = served.folder / "schemas" / "zebraorders.toml"
    before = file.read_text()
    with client_for(served, "eve", "auditor", "cust", "lines") as eve:
        file.write_text("[table")
        try:
            assert eve.get("/v1/accounts/unit.customer@1/ana/entries").status_code == 403
        finally:
            file.write_text(before)


def test_a_token_for_joined_tables_gets_its_answer_again_and_its_release(served: Served) -> None:
    question = {"sql": QUESTIONS["lines+zebraorders"] + PAID + " REUSE NONE"}
    with client_for(served, "ana", "analyst", "lines", "zebraorders", **{"Idempotency-Key": "joined"}) as ana:
        first, again = (ana.post("/v1/answers", json=question) for _ in range(2))
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.json() == again.json()
        release = first.json()["id"]
        assert ana.get(f"/v1/releases/{release}").status_code == 200
        assert ana.get(f"/v1/releases/{release}/files/answer.parquet").status_code == 200
        for table in ("lines", "zebraorders", "lines+zebraorders"):
            listed = ana.get("/v1/releases", params={"table": table}).json()["releases"]
            assert release in [one["id"] for one in listed]
    for tables in (("lines",), ("zebraorders",), ("lines", "cust")):
        with client_for(served, "ana", "analyst", *tables) as ana:
            assert ana.get(f"/v1/releases/{release}").status_code == 404
            assert release not in ana.get("/v1/releases").text


NOWHERE = {"zebraalone": "zebraanone", "zebraorders": "zebraorderz"}
"""For each hidden table a name as long, and as like the others, that is no table's."""
ASKED = [
    "SELECT COUNT(*) FROM {}",
    "SELECT COUNT(nothing) FROM {}",
    "SELECT zebracol, COUNT(*) FROM {} GROUP BY zebracol",
    "SELECT COUNT(*) FROM {} JOIN cust ON o = c",
    "SELECT COUNT(*) FROM lines JOIN {} ON ord = o",
    "SELECT COUNT(*) FROM lines JOIN {} USING (ord)",
    "SELECT COUNT(*) FROM lines JOIN {} ON ord = o JOIN cust ON zebrac = c",
    "SELECT COUNT(*) FROM lines, {} WHERE ord = o",
    "SELECT COUNT(*) FROM (SELECT * FROM {}) t",
    "WITH t AS (SELECT * FROM {}) SELECT COUNT(*) FROM t",
    "SELECT AVG(n) FROM (SELECT customer, COUNT(*) AS n FROM {} GROUP BY customer) t",
    "SELECT COUNT(*) FROM lines WHERE ord IN (SELECT o FROM {})",
    "DISCOVER BOUNDS OF zebran FROM {}",
    "BIN {} ON zebran",
]


@pytest.mark.parametrize("hidden", NOWHERE)
def test_a_hidden_table_is_refused_like_one_that_is_not_there(served: Served, hidden: str) -> None:
    """Whatever is asked and however: status, code, words and fix are those for a name that is nobody's."""
    with client_for(served, "ana", "analyst", "lines", "cust", **{"Idempotency-Key": f"to {hidden}"}) as ana:
        for words in ASKED:
            for more in ("", PAID, " ERROR 9 PERCENT"):
                for defaults in ({}, {"defaults": {"error": "2 PERCENT"}}):
                    for route in ("explanations", "answers"):
                        told = []
                        for name in (hidden, NOWHERE[hidden]):
                            body = {"sql": words.format(name) + more, **defaults}
                            found = ana.post(f"/v1/{route}", json=body)
                            assert found.status_code in (400, 404, 422), (body, found.text)
                            told.append({**found.json(), "instance": ""})
                        as_hidden = json.loads(json.dumps(told[1]).replace(NOWHERE[hidden], hidden))
                        assert told[0] == as_hidden, (words + more, defaults, route)


@pytest.mark.parametrize("role", ["analyst", "auditor"])
@pytest.mark.parametrize("tables", [("lines",), ("cust",), ("cust", "lines"), ("alone",)])
def test_nothing_that_a_token_is_told_names_a_table_that_it_is_not_for(
    served: Served, role: str, tables: tuple[str, ...]
) -> None:
    """Every reading route and page, with the ids of all that there is; questions, jobs and keys of another token."""
    with served.client("ana") as every, served.client("owner") as owner:
        ids = {
            "{job}": [one["id"] for one in every.get("/v1/jobs").json()["jobs"]],
            "{release}": [one["id"] for one in owner.get("/v1/releases").json()["releases"]],
            "{table}": list(TABLES),
            "{account:path}": list(accounts_of(owner)),
            "{file}": ["answer.parquet"],
        }
    with client_for(served, "ana", role, *tables) as client:
        told = list(read_all(client, role, ids))
        if role == "analyst":
            told += ask_all(client, tables)
    with served.client("nobody", Accept="text/html") as pages:
        text = served.app.state.house.tokens.create("ana", role, tables=tables)
        assert pages.post("/login", data={"token": text}).status_code == 303
        shown = [pages.get(place) for path in PAGES for place in fill_in(path, ids)]
        assert sum(one.status_code == 200 for one in shown) >= 6
        told += [(one.url.path, one) for one in shown]
    assert len(told) > 30
    for asked, found in told:
        assert found.status_code < 500, (asked, found.text)
        text = found.text
        if found.status_code >= 400:  # a refusal may repeat what was asked, and nothing more
            words = set(re.findall(r"\w+", asked))
            text = " ".join(word for word in re.findall(r"\w+", text) if word not in words)
        assert HIDDEN not in text, (asked, found.status_code, found.text)


def read_all(client: httpx.Client, role: str, ids: dict[str, list[str]]) -> Iterator[tuple[str, httpx.Response]]:
    """What the role may read: each address, and its reply."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        if "get" in methods and role in ROUTES.get(methods["get"]["operationId"], frozenset()):
            for place in fill_in(path.replace("{account}", "{account:path}"), ids):
                yield place, client.get(place)


def ask_all(client: httpx.Client, tables: tuple[str, ...]) -> Iterator[tuple[str, httpx.Response]]:
    """Questions about all tables, under new keys and those of another token; a job that another token has sent."""
    for number, question in enumerate([*QUESTIONS.values(), *CLOSED]):
        for route in ("explanations", "answers"):
            headers = {"Idempotency-Key": f"{'-'.join(tables)} {number}"}
            yield question, client.post(f"/v1/{route}", json={"sql": question + PAID}, headers=headers)
    for key in QUESTIONS:
        body = {"sql": QUESTIONS["cust"] + PAID}
        yield key, client.post("/v1/answers", json=body, headers={"Idempotency-Key": key})
    body = {"task": "discover", "spec": SPEC}
    for route in ("jobs", "jobs/prices"):
        yield route, client.post(f"/v1/{route}", json=body, headers={"Idempotency-Key": "discovery"})


def fill_in(path: str, ids: dict[str, list[str]]) -> Iterator[str]:
    """The path with each of the known ids in each of its places; none if a place has no ids."""
    place = next((one for one in ids if one in path), None)
    if place is None:
        if "{" not in path:
            yield path
        return
    for one in ids[place]:
        yield from fill_in(path.replace(place, one), ids)


BROKEN = {
    "missing": None,
    "unreadable": "[table",
    "of another name": ('name = "zebraorders"', 'name = "zebraother"'),
    "of another unit": ('of = "customer"', 'of = "zebraunit"'),
    "without the column": ('name = "o"', 'name = "zebrao"'),
    "without rows": ("csv:zebraorders.csv", "csv:zebragone.csv"),
    "of other columns": ("csv:zebraorders.csv", "csv:cust.csv"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_linked_table_that_is_broken_is_not_named_to_who_may_not_know_of_it(tmp_path: Path, how: str) -> None:
    folder, change = shop(tmp_path / "w"), BROKEN[how]
    file = folder / "schemas" / "zebraorders.toml"
    before = file.read_text()
    with (
        serving(folder, slot_counts_ms=1, slot_answers_ms=1) as served,
        client_for(served, "ana", "analyst", "lines", "alone", **{"Idempotency-Key": "k"}) as narrow,
        served.client("ana", **{"Idempotency-Key": "all"}) as every,
        served.client("nobody", Accept="text/html") as pages,
    ):
        if change is None:
            file.unlink()
        else:
            file.write_text(change if isinstance(change, str) else before.replace(*change))
        pages.post("/login", data={"token": served.app.state.house.tokens.create("ana", "analyst", tables=("lines",))})
        question = {"sql": "SELECT SUM(q) FROM lines" + PAID}
        spec = {"task": "discover", "spec": {"table": "lines", "column": "q", "budget": {"epsilon": "1"}}}
        told = [narrow.get(f"/v1/{path}") for path in ("tables", "tables/lines", "tables/lines/history", "accounts")]
        told += [narrow.post(f"/v1/{path}", json=question) for path in ("explanations", "answers")]
        told += [narrow.post(f"/v1/{path}", json=spec) for path in ("jobs/prices", "jobs")]
        told += [pages.get(path) for path in ("/", "/tables", "/tables/lines", "/budget")]
        for job in narrow.get("/v1/jobs").json()["jobs"]:
            while (found := narrow.get(f"/v1/jobs/{job['id']}", params={"wait": 20})).json()["state"] == "running":
                pass
            told += [found, pages.get(f"/jobs/{job['id']}")]
        for found in told:
            assert found.status_code < 500, found.text
            assert HIDDEN not in found.text, (found.request.url, found.text)
            assert str(folder) not in found.text, found.text
        assert narrow.post("/v1/explanations", json={"sql": QUESTIONS["alone"] + PAID}).status_code == 200
        named = every.post("/v1/answers", json=question)
        assert (named.status_code in (404, 422), HIDDEN in named.text) == (True, True), "who may ask of all is told"
