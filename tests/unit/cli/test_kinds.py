"""Every kind of document has a JSON Schema in the package."""

from __future__ import annotations

import json
import re

import pytest

from journeys.documents import faults
from siloquent.cli.app import run
from siloquent.cli.workspace.document_kinds import TABLE_FILE, json_schema, kinds
from siloquent.errors import UnknownName

PROMISED = {"answer", "explanation", "release", "account", "entry", "table", "problem"}


def test_the_kinds_that_the_contract_promises_are_there() -> None:
    assert set(kinds()) >= PROMISED


@pytest.mark.parametrize("kind", kinds())
def test_a_schema_names_its_kind_first(kind: str) -> None:
    schema = json_schema(kind)
    first = next(iter(schema["properties"]))
    assert first == "schema"
    said = schema["properties"]["schema"]["const"]
    assert re.fullmatch(rf"siloquent/{kind}/[1-9]", said)
    assert schema["$id"].removeprefix("https://siloquent.invalid/schemas/") == said.removeprefix("siloquent/")
    assert schema["required"][0] == "schema"
    assert set(schema["required"]) <= set(schema["properties"])


@pytest.mark.parametrize("kind", [*kinds(), TABLE_FILE])
def test_the_command_prints_one_document(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", kind]) == 0
    assert json.loads(capfd.readouterr().out)["title"]


def test_an_unknown_kind_is_refused_with_a_near_one() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'answer'"):
        json_schema("answr")


@pytest.mark.parametrize("name", ["../kinds", "answer.json", ""])
def test_no_other_file_is_read(name: str) -> None:
    with pytest.raises(UnknownName):
        json_schema(name)


GOOD = {"schema": "siloquent/export/1", "release": "r-1", "file": "x", "format": "csv", "rows": 3}


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({**GOOD, "rows": "3"}, "is no integer"),
        ({**GOOD, "rows": True}, "is no integer"),
        ({**GOOD, "format": "xls"}, "is none of"),
        ({key: value for key, value in GOOD.items() if key != "file"}, "'file' is missing"),
        ({**GOOD, "more": 1}, "not in the schema"),
        (dict(reversed(GOOD.items())), "order"),
        ({**GOOD, "schema": "siloquent/export/2"}, "is not 'siloquent/export/1'"),
    ],
)
def test_the_checker_would_see_a_document_that_breaks_its_schema(document: dict[str, object], fault: str) -> None:
    assert list(faults(GOOD, json_schema("export"))) == []
    assert any(fault in found for found in faults(document, json_schema("export")))
