"""What a client of the API reads when it is refused: one media type, the right role, and fixes that it can follow."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import httpx
import pytest

from journeys.served import Served
from journeys.server.test_who_may import BODIES, ROLES, filled, routes
from journeys.test_refusals import QUESTIONS
from siloquent.fixes import AskWith, BeOwner, FixLike, UseOption, build_fix, let_owner_run, run
from siloquent.server.access.roles import ROUTES
from siloquent.server.failures.fixes import HTTP, PAGE

MEDIA = "application/problem+json"
ALONE = re.compile(r"(?<!owner runs: )\bsiloquent [a-z]|--[a-z]")


def follow(client: httpx.Client, fix: str) -> None:
    """The request that ``fix`` names is answered, whatever it is answered with."""
    found = re.search(r"\b(GET|POST) (/v1/[\w/@.-]+)(?: with (\{.+\}))?", fix)
    if found and not found[2].endswith("TABLE"):
        body: dict[str, Any] = {} if found[3] is None else {"json": json.loads(found[3])}
        assert client.request(found[1], found[2], **body).status_code in (200, 201, 403), fix


@pytest.mark.parametrize("who", [*ROLES, "nobody"])
def test_every_refusal_is_a_problem_document_with_a_fix_for_its_reader(served: Served, who: str) -> None:
    with served.client(who) as client:
        for name, method, path in routes(served):
            for body in ({}, BODIES.get(name, {}), {"content": b"{"}, {"data": {"sql": "x"}}):
                found = client.request(method, filled(path), **body)
                if found.status_code < 400:
                    continue
                assert found.headers["content-type"] == MEDIA, (name, found.status_code)
                document = found.json()
                assert document["status"] == found.status_code
                assert not ALONE.search(document["fix"]), (name, document["fix"])
                if found.status_code in (401, 403) and document["code"] in ("unauthorised", "not_allowed"):
                    assert any(role in document["fix"] for role in ROUTES[name]), (name, document["fix"])
        for path in ("/nope", "/v1/nope", "/v1/tables/visits/nope"):
            assert client.get(path).headers["content-type"] == MEDIA
            assert client.patch(path).headers["content-type"] == MEDIA


@pytest.mark.parametrize("name", QUESTIONS)
def test_refused_questions_name_no_command_that_an_analyst_cannot_run(served: Served, name: str) -> None:
    with served.client("ana") as client:
        refused = client.post("/v1/explanations", json={"sql": QUESTIONS[name][0]})
        if refused.status_code < 400:
            return
        fix = refused.json()["fix"]
        assert fix
        assert not ALONE.search(fix), fix
        follow(client, fix)


def test_a_body_that_plain_curl_sends_as_a_form_is_told_what_it_lacks(served: Served) -> None:
    question = '{"sql": "SELECT COUNT(*) FROM visits ERROR 50"}'
    head = ["-H", f"Authorization: Bearer {served.texts['ana']}", "-d", question, f"{served.address}/v1/explanations"]
    refused = json.loads(subprocess.run(["curl", "-s", *head], capture_output=True, check=True).stdout)
    assert (refused["code"], refused["fix"]) == ("request_unreadable", "Content-Type: application/json")
    told = subprocess.run(["curl", "-s", "-H", refused["fix"], *head], capture_output=True, check=True).stdout
    assert json.loads(told)["schema"] == "siloquent/explanation/2"


def test_a_token_for_a_table_that_is_not_declared_is_refused_with_the_known_names(served: Served) -> None:
    with served.client("owner") as client:
        refused = client.post("/v1/tokens", json={"name": "x", "role": "analyst", "tables": ["visitz"]})
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown_name")
        assert "Did you mean 'visits'" in refused.json()["detail"]
        made = client.post("/v1/tokens", json={"name": "x", "role": "analyst", "tables": ["visits"]}).json()
        listed = client.get("/v1/tokens").json()["tokens"]
        assert (made["id"], made["expires"]) in [(one["id"], one["expires"]) for one in listed]
        assert made["token"][3:11] == made["id"]


OWNERS = "the workspace's owner runs: siloquent "
COUNT = "SELECT COUNT(*) FROM t ERROR "


@pytest.mark.parametrize(
    ("fix", "over_http", "page"),
    [
        (run("tables"), "GET /v1/tables", "the page /tables"),
        (run("show", "visits"), "GET /v1/tables/visits", "the page /tables/visits"),
        (build_fix(run("ledger show"), ", then wait"), "GET /v1/accounts, then wait", "the page /budget, then wait"),
        (AskWith(f"{COUNT}5"), f'POST /v1/explanations with {{"sql": "{COUNT}5"}}', f"{COUNT}5"),
        (AskWith(f"{COUNT}310", "ERROR 310"), "ask with ERROR 310", "ask with ERROR 310"),
        (
            run("epoch open", "visits"),
            'PUT /v1/tables/visits with "new_epoch" and If-Match, with a token of the role owner',
            "the page /tables/visits/edit, as its owner",
        ),
        (let_owner_run("budget set", "visits"), f"{OWNERS}budget set visits", f"{OWNERS}budget set visits"),
        (UseOption("max_cost", "0.3"), '"max_cost": "0.3"', '"max_cost": "0.3"'),
        (BeOwner(), "send a token of the role owner", "log in as the owner"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_commands_become_requests_and_pages(fix: FixLike, over_http: str, page: str) -> None:
    assert build_fix(fix).render(HTTP) == over_http
    assert build_fix(fix).render(PAGE) == page
