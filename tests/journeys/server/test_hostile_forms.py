"""Forms of the pages with values that no page sends: they refuse what the API refuses, and lists stay readable."""

from __future__ import annotations

import random
import re
from urllib.parse import quote, quote_plus

import httpx
import pytest

from journeys.served import Served
from siloquent.server.web import (
    collection_pages,
    ledger_pages,
    login_pages,
    pages,
    question_pages,
    silos,
    table_pages,
    wizard,
)

PARTS = (collection_pages, ledger_pages, login_pages, question_pages, silos, table_pages, wizard)
ROUTES = sorted(
    (route.path, method)
    for part in PARTS
    for route in part.router.routes
    for method in route.methods  # type: ignore[attr-defined]
    if route.path != "/logout"  # type: ignore[attr-defined]
)
FIELDS = sorted(
    {
        name
        for template in (pages.HERE / "templates").glob("*.html")
        for name in re.findall(r'name="([a-z_]+)"', template.read_text("utf-8"))
    }
)
VALUES = (
    *("", "x", "\ud800", "\x00", "9" * 400, "1e999", "NaN", "-1", "null", "[]", "{}", '{"a":' * 3_000),
    *("<script>", "{{7*7}}", "a" * 70_000, "a\r\nSet-Cookie: x=y", "../../etc/passwd", "%00", "visits", "٣", "1_000"),
    *("SELECT COUNT(*) FROM visits", "\u202e", "'; DROP TABLE job; --", "ask", "discover", "analyst"),
)
NAMES = [text for text in VALUES if text and "/" not in text and "\r" not in text and len(text) < 1_000]
SPEC = '{"table": "visits", "columns": ["age", %s], "budget": {"epsilon": %s}}'
SPECS = [SPEC % words for words in (('"\\ud800"', '"1"'), ('"ward"', "NaN"), ('"ward"', '"\\udfff"'), ("1e999", '"1"'))]
LISTS = {
    "owner": ("tables", "jobs", "releases", "accounts", "tokens", "uploads", "acts", "denials", "spending", "report"),
    "ana": ("tables", "jobs", "releases", "accounts", "catalogue", "collections"),
}
SEEN = ("/", "/tables", "/budget", "/releases", "/dependencies", "/search", "/collections", "/jobs", "/help")


def log_in(served: Served, name: str) -> tuple[httpx.Client, str]:
    """A browser's session, and its proof against forged forms."""
    browser = httpx.Client(base_url=served.address, headers={"Accept": "text/html"}, timeout=60)
    assert browser.post("/login", data={"token": served.texts[name]}).status_code == 303
    found = re.search(r'name="csrf" value="([^"]+)"', browser.get("/budget").text)
    assert found is not None
    return browser, found[1]


def encode(fields: dict[str, str]) -> str:
    return "&".join(
        f"{quote_plus(name)}={quote(text.encode('utf-8', 'surrogatepass'))}" for name, text in fields.items()
    )


def send(browser: httpx.Client, path: str, fields: dict[str, str]) -> httpx.Response:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return browser.post(path, content=encode(fields), headers=kind)


def assert_lists_are_readable(served: Served, browsers: dict[str, httpx.Client]) -> None:
    for name, browser in browsers.items():
        with served.client(name) as client:
            assert {path: client.get(f"/v1/{path}").status_code for path in LISTS[name]} == dict.fromkeys(
                LISTS[name], 200
            )
        assert {browser.get(path, follow_redirects=True).status_code for path in SEEN} <= {200, 404}


@pytest.mark.parametrize("seed", range(4))
def test_forms_that_no_page_sends_break_nothing(served: Served, seed: int) -> None:
    chance, opened = random.Random(seed), {name: log_in(served, name) for name in ("ana", "owner")}
    browsers = {name: browser for name, (browser, _) in opened.items()}
    for _ in range(120):
        (path, method), name = chance.choice(ROUTES), chance.choice(sorted(opened))
        browser, proof = opened[name]
        path = re.sub(r"{[^}]*}", lambda _: quote(chance.choice(NAMES).encode("utf-8", "surrogatepass")), path)
        fields = {field: chance.choice(VALUES) for field in chance.sample(FIELDS, chance.randrange(len(FIELDS)))}
        fields |= {"csrf": proof} | ({"spec": chance.choice(SPECS)} if chance.random() < 0.3 else {})
        if method == "POST":
            found = send(browser, path, fields)
        else:
            found = browser.get(f"{path}?{encode(dict(list(fields.items())[:3]))[:4_000]}")
        assert found.status_code < 500, (name, method, path, fields, found.text)
    assert_lists_are_readable(served, browsers)


@pytest.mark.parametrize("task", ["synth", "sketch", "search", "find", "share", "discover"])
@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_that_lists_cannot_repeat_is_refused_by_the_pages_too(served: Served, task: str, spec: str) -> None:
    opened = {name: log_in(served, name) for name in ("ana", "owner")}
    browser, proof = opened["ana"]
    fields = {"csrf": proof, "task": task, "spec": spec, "key": f"hostile {task} {SPECS.index(spec)}"}
    assert send(browser, "/jobs", fields).status_code == 422
    assert_lists_are_readable(served, {name: one for name, (one, _) in opened.items()})


@pytest.mark.parametrize("most", ["much", "9" * 5_000, "1_000", "NaN", "-"])
def test_a_job_whose_limit_is_not_an_amount_is_refused_at_both_doors(served: Served, most: str) -> None:
    browser, proof = log_in(served, "ana")
    spec = '{"table": "visits", "columns": ["age", "ward"], "budget": {"epsilon": "1"}}'
    fields = {"csrf": proof, "task": "synth", "spec": spec, "key": f"limit {most[:9]}", "max_cost": most}
    assert send(browser, "/jobs", fields).status_code == 422
    with served.client("ana", **{"Idempotency-Key": f"limit {most[:9]}"}) as ana:
        body = {"task": "synth", "spec": {"table": "visits", "budget": {"epsilon": "1"}}, "max_cost": most}
        assert ana.post("/v1/jobs", json=body).status_code == 422
        assert not [one for one in ana.get("/v1/jobs").json()["jobs"] if one["max_cost"] == most]


def test_a_token_for_a_table_that_is_not_declared_is_made_at_neither_door(served: Served) -> None:
    browser, proof = log_in(served, "owner")
    fields = {"csrf": proof, "name": "eve", "role": "analyst", "tables": "visits, vistis"}
    found = send(browser, "/tokens", fields)
    assert (found.status_code, "visits" in found.text) == (404, True)
    with served.client("owner") as owner:
        assert (
            owner.post("/v1/tokens", json={"name": "eve", "role": "analyst", "tables": ["vistis"]}).status_code == 404
        )
        assert "eve" not in {one["name"] for one in owner.get("/v1/tokens").json()["tokens"]}


def test_a_file_that_a_form_discards_is_on_record(served: Served) -> None:
    browser, proof = log_in(served, "owner")
    with served.client("owner") as owner:
        made = owner.post("/v1/uploads", content=b"ward,age\nA,1\n").json()
        fields = {"csrf": proof, "act": "discard", "source": made["source"]}
        assert browser.post("/tables/visits/refresh", data=fields).status_code == 303
        newest = owner.get("/v1/acts").json()["acts"][0]
        assert (newest["what"], newest["subject"], newest["name"]) == ("delete_upload", made["id"], "owner")
