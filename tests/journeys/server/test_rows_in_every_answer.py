"""Each interface says in the answer itself which rows of a person do not count, and which rows it is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import siloquent as sq
from journeys.clinic import write_source
from journeys.served import WIDE, Served, serving
from siloquent.cli.app import run
from siloquent.explore import Answer
from siloquent.session import create_workspace

ALL = "SELECT COUNT(*) FROM visits ERROR 300 REUSE NONE"
LEFT_OUT = "of one patient, at most 3 rows count; rows beyond that are left out"
CURRENT = r"version 2, since 20\d\d-\d\d-\d\d \d\d:\d\d UTC; earlier answers are about earlier rows"
EARLIER = r"as of 20\d\d-\d\d-\d\d \d\d:\d\d UTC: they were replaced since"


@pytest.fixture(params=[False, True], ids=["rows", "persons"])
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = tmp_path / "clinic"
    workspace = create_workspace(folder)
    unit = '{ kind = "user", column = "patient", max_rows = 3 }' if request.param else '{ kind = "row" }'
    toml = WIDE.replace("SOURCE", write_source(folder, "csv")).replace('{ kind = "row" }', unit)
    (workspace.schemas / "visits.toml").write_text(toml)
    with serving(folder) as served:
        yield served, request.param


def list_python_texts(answer: Answer) -> list[str]:
    document = answer.to_json()
    told = " ".join([*document["notes"], document.get("about_rows", {}).get("text", "")])
    return [str(answer), re.sub(r"<[^>]+>", " ", answer._repr_html_()), told]


def ask_everywhere(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str) -> dict[str, str]:
    """The texts of the answer under ``key`` in each interface."""
    with sq.open(served.folder, analyst="ana") as session:
        plain, notebook, document = list_python_texts(session.ask(ALL, key=f"py-{key}"))
    found = {"python": plain, "notebook": notebook, "python's document": document}
    token = tmp_path / "ana.token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(served.texts["ana"])
    with sq.connect(served.address, token_file=token) as remote:
        plain, notebook, document = list_python_texts(remote.ask(ALL, key=f"remote-{key}"))
    found |= {"remote": plain, "remote notebook": notebook, "remote document": document}
    here = ["--workspace", str(served.folder), "--analyst", "ana"]
    far = ["--server", served.address, "--token-file", str(token)]
    for name, place in (("here", here), ("far", far)):
        for form in ([], ["--json"]):
            capsys.readouterr()
            assert run([*place, *form, "ask", ALL, "--key", f"{name}-{key}", "--yes"]) == 0
            out = capsys.readouterr().out
            found[f"{name} {form}"] = " ".join(out.split()) if not form else json.dumps(json.loads(out))
    answer = served.ask("ana", ALL, f"http-{key}")
    found["http"] = answer.text
    return found


def test_every_interface_says_which_rows_do_not_count_and_which_it_is_about(
    clinic: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served, is_person = clinic
    first = ask_everywhere(served, tmp_path, capsys, "monday")
    assert {name: LEFT_OUT in text for name, text in first.items()} == dict.fromkeys(first, is_person)
    assert [name for name, text in first.items() if re.search(f"{CURRENT}|{EARLIER}", text)] == []
    with served.client("owner") as owner:
        assert owner.post("/v1/tables/visits/refresh", json={}).status_code == 200
    again = ask_everywhere(served, tmp_path, capsys, "monday")
    assert {name: bool(re.search(EARLIER, text)) for name, text in again.items()} == dict.fromkeys(again, True)
    later = ask_everywhere(served, tmp_path, capsys, "tuesday")
    assert {name: bool(re.search(CURRENT, text)) for name, text in later.items()} == dict.fromkeys(later, True)
    assert {name: LEFT_OUT in text for name, text in later.items()} == dict.fromkeys(later, is_person)
