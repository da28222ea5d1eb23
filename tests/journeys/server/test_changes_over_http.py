"""A changed declaration over HTTP is classed as on the command line, in the same words, and each fix works as sent."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import TOML, write_source
from journeys.served import Served, serving
from property.test_declarations_change import EDITS, USER
from siloquent.errors import LedgerError
from siloquent.schema.changes import ChangeClass, describe_change
from siloquent.session import create_workspace

ASK = "SELECT COUNT(*) FROM visits ERROR 200 REUSE NONE"
TEXT = TOML.replace('epsilon = "1"', 'epsilon = "9"').replace('bo = "0.001"', 'bo = "1"')
CHANGES: list[tuple[str, str, ChangeClass]] = [
    *(one for one in EDITS if one[0] in TEXT and "epoch" not in one[1] and "/./" not in one[1]),
    ("data/visits.parquet", "data/again.parquet", "new version"),
    ('epsilon = "9"', 'epsilon = "8"', "budget"),
    ('bo = "1"', 'bo = "0.5"', "budget"),
    ('accountant = "zcdp"\nepsilon = "9"\ndelta = "1e-6"', 'accountant = "pure"\nepsilon = "9"', "new epoch"),
]


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of many tables, each of which is charged once and then changed."""
    workspace = create_workspace(tmp_path_factory.mktemp("changes") / "clinic")
    write_source(workspace.folder, "parquet")
    shutil.copy(workspace.folder / "data" / "visits.parquet", workspace.folder / "data" / "again.parquet")
    with serving(workspace.folder) as running:
        yield running


NUMBERS = iter(range(10**6))


def declare(served: Served, text: str = TEXT) -> tuple[str, str]:
    """Declare a table of its own and charge it; return its name and text."""
    name = f"visits_{next(NUMBERS)}"
    toml = text.replace("SOURCE", "parquet:data/visits.parquet").replace('"visits"', f'"{name}"')
    with served.client("owner") as owner:
        made = owner.put(f"/v1/tables/{name}", json={"toml": toml})
        assert (made.status_code, made.json()["changes"]) == (200, [])
    assert served.ask("ana", ASK.replace("visits", name), f"first {name}").status_code == 200
    return name, toml


def edit(toml: str, *edits: tuple[str, str, ChangeClass]) -> tuple[str, set[ChangeClass]]:
    made: set[ChangeClass] = set()
    for before, after, kind in edits:
        made |= {kind} if before in toml else set()
        toml = toml.replace(before, after, 1)
    return toml, made


def told_here(served: Served, name: str, toml: str) -> tuple[list[dict[str, str]], str]:
    """What the same edit is called on this machine: its changes as ``check`` says them, and a question's refusal."""
    file = served.folder / "schemas" / f"{name}.toml"
    before = file.read_bytes()
    file.write_text(toml)
    try:
        with siloquent.open(served.folder) as session:
            changes = [{"class": one.effect, "sentence": describe_change(one)} for one in session.list_changes(name)]
            try:
                session.get_account(name)
            except LedgerError as refused:
                return changes, refused.detail
            return changes, ""
    finally:
        file.write_bytes(before)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(edits=st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3, unique_by=lambda one: one[0]))
@example(edits=[(*USER, "new epoch")])
@example(edits=[('adjacency = "add-remove"', 'adjacency = "replace-one"', "new epoch")])
@example(edits=[("data/visits.parquet", "data/again.parquet", "new version"), ("size_hint = 3000", "", "free")])
@example(edits=[('epsilon = "9"', 'epsilon = "8"', "budget")])
def test_a_change_has_the_class_and_words_of_the_command_line_and_afterwards_people_ask(
    clinics: Served, edits: list[tuple[str, str, ChangeClass]]
) -> None:
    name, toml = declare(clinics)
    changed, kinds = edit(toml, *edits)
    here, refusal = told_here(clinics, name, changed)
    assert kinds - {"free"} <= {one["class"] for one in here}, "of a user's rows, another column is a new version"
    with clinics.client("owner") as owner:
        spent = next(one["spent"] for one in owner.get("/v1/accounts").json()["accounts"] if one["name"] == f"{name}@1")
        sent = owner.put(f"/v1/tables/{name}", json={"toml": changed})
        if "new epoch" in kinds:
            assert (sent.status_code, sent.json()["code"]) == (409, "conflict"), sent.text
            assert sent.json()["detail"] == refusal
            assert (clinics.folder / "schemas" / f"{name}.toml").read_text() == toml
            sent = owner.put(f"/v1/tables/{name}", **paste(sent.json()["fix"], changed))
        assert sent.status_code == 200, sent.text
        assert sent.json()["changes"] == here
        document = owner.get(f"/v1/tables/{name}")
        assert document.headers["etag"] == sent.headers["etag"]
        assert document.json()["account"]["name"] == (f"{name}@2" if "new epoch" in kinds else f"{name}@1")
        accounts = {one["name"]: one for one in owner.get("/v1/accounts").json()["accounts"]}
        assert accounts[f"{name}@1"]["spent"] == spent, "nothing is given back"
        assert accounts[f"{name}@1"]["successor"] == (f"{name}@2" if "new epoch" in kinds else None)
    asked = clinics.ask("ana", ASK.replace("visits", name), f"second {name}")
    assert asked.status_code == 200, asked.text
    with siloquent.open(clinics.folder) as session:
        assert session.list_changes(name) == ()
        assert session.ledger.verify().ok


def paste(fix: str, toml: str) -> dict[str, Any]:
    """The request that the fix proposes: a field for the body, and a header."""
    found = re.fullmatch(
        r'.* add "new_epoch": "([a-z ]+)" to the body of PUT /v1/tables/\S+, with If-Match: (".*")', fix
    )
    assert found is not None, fix
    return {"json": {"toml": toml, "new_epoch": found[1]}, "headers": {"If-Match": found[2]}}


def test_a_new_epoch_needs_the_declaration_that_its_owner_has_seen(clinics: Served) -> None:
    name, toml = declare(clinics)
    changed, _ = edit(toml, (*USER, "new epoch"))
    place, stale = f"/v1/tables/{name}", '"0123456789abcdef0123456789abcdef"'
    with clinics.client("owner") as owner:
        fix = paste(owner.put(place, json={"toml": changed}).json()["fix"], changed)
        for headers, status, code in (
            ({}, 428, "precondition_required"),
            ({"If-Match": "*"}, 428, "precondition_required"),
            ({"If-Match": stale}, 412, "precondition_failed"),
        ):
            refused = owner.put(place, json=fix["json"], headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (status, code)
        wrong = owner.put(place, json={**fix["json"], "new_epoch": "whatever"}, headers=fix["headers"])
        assert (wrong.status_code, wrong.json()["code"]) == (422, "request_invalid"), wrong.text
        assert (clinics.folder / "schemas" / f"{name}.toml").read_text() == toml
        assert owner.get("/v1/tables").status_code == 200
        assert owner.put(place, **fix).status_code == 200
        assert owner.put(place, **fix).status_code == 412, "sent again it opens no second one"
        assert f"{name}@3" not in owner.get("/v1/accounts").text
        acts = [(one["what"], one["subject"]) for one in owner.get("/v1/acts").json()["acts"]]
        assert ("open_epoch", name) in acts


def test_new_people_may_get_a_new_epoch_under_the_same_declaration_and_an_uncharged_table_needs_none(
    clinics: Served,
) -> None:
    name, toml = declare(clinics)
    with clinics.client("owner") as owner:
        tag = owner.get(f"/v1/tables/{name}").headers["etag"]
        body = {"toml": toml, "new_epoch": "these are new people"}
        made = owner.put(f"/v1/tables/{name}", json=body, headers={"If-Match": tag})
        assert (made.status_code, made.json()["account"]["name"], made.json()["account"]["spent"]) == (
            200,
            f"{name}@2",
            "0",
        )
        fresh = toml.replace(name, "never_asked")
        tag = owner.put("/v1/tables/never_asked", json={"toml": fresh}).headers["etag"]
        refused = owner.put("/v1/tables/never_asked", json={**body, "toml": fresh + "# x\n"}, headers={"If-Match": tag})
        assert refused.status_code == 422
        assert "no new epoch is needed" in refused.json()["detail"]
        assert owner.get("/v1/tables/never_asked").headers["etag"] == tag, "the old text stands again"


def test_a_budget_below_what_was_spent_changes_neither_file_nor_ledger(clinics: Served) -> None:
    name, toml = declare(clinics)
    with clinics.client("owner") as owner:
        before = owner.get(f"/v1/tables/{name}").json()
        for less in (toml.replace('epsilon = "9"', 'epsilon = "0.001"'), toml.replace('ana = "1"', 'ana = "0.00001"')):
            assert less != toml
            refused = owner.put(f"/v1/tables/{name}", json={"toml": less.replace('bo = "1"', 'bo = "0.9"')})
            assert (refused.status_code, refused.json()["code"]) == (422, "request_invalid"), refused.text
            assert "already spent" in refused.json()["detail"]
            assert owner.get(f"/v1/tables/{name}").json() == before
    assert clinics.ask("ana", ASK.replace("visits", name), f"second {name}").status_code == 200


def test_a_closed_epoch_is_not_declared_again(clinics: Served) -> None:
    """The number of the first epoch is restored from an old copy of the text."""
    name, toml = declare(clinics)
    with clinics.client("owner") as owner:
        changed, _ = edit(toml, (*USER, "new epoch"))
        fix = paste(owner.put(f"/v1/tables/{name}", json={"toml": changed}).json()["fix"], changed)
        assert owner.put(f"/v1/tables/{name}", **fix).status_code == 200
        restored = owner.put(f"/v1/tables/{name}", json={"toml": toml})
        assert restored.status_code == 409
        assert "the epoch was 2 and is 1" in restored.json()["detail"]
    assert clinics.ask("ana", ASK.replace("visits", name), f"second {name}").status_code == 200


@pytest.mark.parametrize("name", ["ana", "auditor"])
def test_only_owners_open_epochs(clinics: Served, name: str, tmp_path: Path) -> None:
    table, toml = declare(clinics)
    with clinics.client(name) as client:
        body = {"toml": toml, "new_epoch": "the budgets add up"}
        assert client.put(f"/v1/tables/{table}", json=body, headers={"If-Match": '"x"'}).status_code == 403
