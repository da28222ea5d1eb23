"""The API keeps its own description: whatever fits it or not is answered, never with an error of ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import httpx
import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchmarks.trials.requests import Trial
from journeys.described import Described
from journeys.served import Served
from siloquent.api import open_session
from siloquent.server.access import guard
from siloquent.server.access.roles import ROUTES
from siloquent.server.jobs.tasks import TASKS, read_spec

EXAMPLES = 6
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture)


def operations(served: Served) -> list[schemathesis.APIOperation]:
    """Every operation of the API."""
    schema = schemathesis.openapi.from_dict(served.app.openapi())
    schema.config.update(base_url=served.address)
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["ana", "owner", "devices"])
def test_generated_requests_are_answered_as_described_or_refused_as_problems(served: Served, who: str) -> None:
    served.ask("ana", "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200", "described")
    headers = {"Authorization": f"Bearer {served.texts[who]}", "Idempotency-Key": "fuzz"}
    reached = 0
    for operation in operations(served):
        if (operation.method, operation.path) == ("get", "/v1/jobs/{job}/events"):
            continue
        roles = ROUTES[operation.definition.raw["operationId"]]
        if who == "devices" and roles & {"analyst", "owner"}:
            continue  # the others ask these

        @hypothesis.given(case=operation.as_strategy())
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET, database=None, derandomize=True)
        def sent(case: schemathesis.Case) -> None:
            nonlocal reached
            response = case.call(headers=headers)
            reached += 1
            case.validate_response(response, checks=CHECKS)

        sent()
    assert reached >= (1 if who == "devices" else 10) * EXAMPLES


def test_bad_requests_are_refused_and_good_ones_lose_nothing(served: Served) -> None:
    trial, before = trial_at(served), charges(served)
    trial.operations = trial.operations[::4]  # all of them, by the thousand: benchmarks doors --only requests
    trial.send(2, seed=1)
    assert not trial.sent.wrong
    assert trial.sent.by_mode["negative"] > 30 < trial.sent.by_mode["positive"]
    assert {"200", "401", "403", "404", "422"} <= set(trial.sent.statuses)
    assert charges(served) - before <= len(trial.sent.answers) + len(trial.sent.made["job"])


@pytest.mark.parametrize("query", ["limt=1", "limit=1&limit=2", "limit=1&x", "%F0=1", "Limit=1"])
def test_a_parameter_that_is_misspelt_or_said_twice_is_refused(served: Served, query: str) -> None:
    with served.client("owner") as owner:
        for path in ("/v1/jobs", "/v1/releases", "/v1/tokens"):
            found = owner.get(f"{path}?{query}")
            assert (found.status_code, found.json()["code"]) == (422, "request_unreadable"), query
        assert owner.get(f"/v1/me?{query}").status_code == 422
        assert owner.get("/v1/jobs?limit=1&after=&state=done").status_code in (200, 404)


def trial_at(served: Served, document: dict[str, Any] | None = None) -> Trial:
    texts = {"analyst": served.texts["ana"], "owner": served.texts["owner"]}
    return Trial(served.address, document or served.app.openapi(), texts, {"table": ["visits", "none"]})


def charges(served: Served) -> int:
    session = open_session(served.folder)
    found = sum(1 for entry in session.ledger.iter_entries() if entry.kind == "reserve")
    session.close()
    return found


@pytest.mark.parametrize("name", ["me", "list_tables", "list_releases"])
def test_an_api_that_does_not_keep_its_description_would_be_seen(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_check_query", lambda *_: None)  # bad requests are taken
    document = copy.deepcopy(served.app.openapi())
    shapes = document["components"]["schemas"]
    shapes["Person"]["properties"]["name"] = {"const": "nobody"}
    shapes["TableList"]["required"].append("more")
    trial = trial_at(served, document)
    trial.operations = [one for one in trial.operations if one.definition.raw["operationId"] == name]
    trial.send(25, seed=1)
    assert trial.sent.wrong


def test_every_operation_is_described_for_a_generated_client(served: Served) -> None:
    document = served.app.openapi()
    assert document["security"] == [{"token": []}]
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    names = []
    for methods in document["paths"].values():
        for operation in methods.values():
            names.append(operation["operationId"])
            assert operation["operationId"] in ROUTES
            assert all("operationId" not in one for one in operation["responses"])
            for status, said in operation["responses"].items():
                if status.startswith("2") and status != "204":
                    assert list(success_schemas(document, said)), (operation["operationId"], status)
                if status in ("429", "503"):
                    assert "Retry-After" in said["headers"]
                if "x-codes" in said:
                    assert said["description"] == f"Codes: {', '.join(said['x-codes'])}."
    assert len(names) == len(set(names))
    spending = [document["paths"][path]["post"] for path in ("/v1/answers", "/v1/jobs")]
    for operation in spending:
        (key,) = [one for one in operation["parameters"] if one["in"] == "header"]
        assert (key["name"], key["required"]) == ("Idempotency-Key", True)


def success_schemas(document: dict[str, Any], said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas of a success, none of which has room for a field that it does not name."""
    for media, content in said["content"].items():
        schema = content["schema"]
        for one in schema.get("oneOf", [schema]):
            if media == "application/json":
                found = document["components"]["schemas"][one["$ref"].rpartition("/")[2]]
                assert (found["type"], found["additionalProperties"]) == ("object", False), one
                assert set(found["required"]) <= set(found["properties"])
                yield found
            else:
                assert one["type"] == "string"
                yield one


SPECS = {
    "sketch": {"table": "visits", "features": ["age"], "kernel": {"kind": "p-stable", "order": 2, "bandwidth": 0.3}},
    "synth": {"table": "visits", "budget": {"epsilon": "1"}, "columns": ["age"], "rows": None},
    "search": {"table": "visits", "features": ["cost"], "keys": ["ward", ["age", "ward"], {"attributes": ["age"]}]},
    "find": {"table": "visits", "target": "cost", "keys": ["ward"], "scoring": "local"},
    "share": {"table": "visits", "label": "ward", "features": ["age"], "budget": {"rho": "0.1"}, "tree": {"h": 5}},
}


@pytest.mark.parametrize("task", SPECS)
def test_a_spec_is_described_as_its_reader_takes_it(served: Served, task: str) -> None:
    document = served.app.openapi()
    body = {"$ref": "#/components/schemas/JobBody", "components": document["components"]}
    takes = jsonschema_rs.Draft202012Validator(body)
    spec = {**SPECS[task], **({"budget": {"epsilon": "1"}} if task in ("sketch", "search") else {})}
    assert takes.is_valid({"task": task, "spec": spec})
    read_spec(task, spec)
    for wrong in ({**spec, "misspelt": 1}, {**spec, "table": 1}, {**spec, "plan_file": "x"}):
        assert not takes.is_valid({"task": task, "spec": wrong}), wrong
    assert not takes.is_valid({"task": "cook", "spec": spec})


def test_a_response_that_is_not_as_described_would_be_seen(served: Served) -> None:
    described = Described.of(served.app)
    with served.client("ana") as client:
        good = client.get("/v1/me")
        assert list(described.faults(good)) == []
        for changed in ({"more": 1}, {"role": "king"}, {"name": 1}):
            bad = httpx.Response(200, json={**good.json(), **changed}, request=good.request)
            assert list(described.faults(bad)), changed
        for status, media in ((201, "application/json"), (200, "text/html"), (404, "application/json")):
            odd = httpx.Response(status, headers={"content-type": media}, content=good.content, request=good.request)
            assert list(described.faults(odd)), (status, media)


def list_consts(schema: Any, *, root: bool = True) -> list[str]:
    """The kinds of documents that are described within a schema, but for its own."""
    if isinstance(schema, list):
        return [kind for one in schema for kind in list_consts(one, root=False)]
    if not isinstance(schema, dict):
        return []
    fields = schema.get("properties")
    kind = fields.get("schema", {}).get("const") if isinstance(fields, dict) and not root else None
    return [*([kind] if kind else []), *(kind for one in schema.values() for kind in list_consts(one, root=False))]


def test_a_kind_of_document_is_described_once(served: Served) -> None:
    """In a list, too: otherwise generated clients have two classes for it, which are never equal."""
    shapes = served.app.openapi()["components"]["schemas"]
    assert {name: kinds for name, shape in shapes.items() if (kinds := list_consts(shape))} == {}


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_list_may_hold_jobs_of_each_task(served: Served, task: str) -> None:
    statement = (
        "INSERT INTO job (id, name, token, task, spec, key, state, created, changed) "
        "VALUES ('j-' || :task, 'bo', '', :task, '{\"table\": \"visits\"}', :task, 'cancelled', 1, 1)"
    )
    with served.app.state.house.store.open_transaction() as db:
        db.execute(statement, {"task": task})
    with served.client("bo") as client:  # which compares with the description
        assert task in [one["task"] for one in client.get("/v1/jobs").json()["jobs"]]
