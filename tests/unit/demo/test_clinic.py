"""The demo's workspace is a plain workspace, and replaces nothing that is not a demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.demo import DEMO_MARK, create_clinic
from siloquent.demo.clinic import visits_toml
from siloquent.errors import SchemaError
from siloquent.schema.build import parse_schema


def test_the_declaration_is_accepted_and_says_what_the_notes_say() -> None:
    schema = parse_schema(visits_toml(20_000))
    assert (schema.unit.column, schema.unit.max_rows) == ("patient", 6)
    assert (schema.budget.epsilon, schema.budget.delta) == (2, pytest.approx(1e-6))
    sizes = {attribute.name: len(attribute.values) for attribute in schema.domain if attribute.values}
    assert sizes == {
        "sex": 3,
        "postcode": 48,
        "district": 12,
        "plan": 9,
        "insurer": 3,
        "diagnosis": 48,
        "chapter": 6,
        "ward": 8,
        "outcome": 3,
    }
    assert len(schema.constraints) == 10


def test_a_demo_is_a_workspace_with_rows_and_a_ledger(tmp_path: Path) -> None:
    workspace = create_clinic(tmp_path / "clinic", rows=1_000, patients=300)
    assert {"visits", "vitals", "lungs"} <= set(workspace.list_table_names())
    assert (tmp_path / "clinic" / "data" / "visits.parquet").is_file()
    assert (tmp_path / "clinic" / "ledger.sqlite").is_file()


def test_a_second_demo_replaces_the_first_and_spares_what_others_put_there(tmp_path: Path) -> None:
    folder = tmp_path / "clinic"
    create_clinic(folder, rows=1_000, patients=300)
    before = (folder / "ledger.head").read_bytes()
    (folder / "my-notes.txt").write_text("keep me")
    create_clinic(folder, rows=1_000, patients=300)
    assert (folder / "my-notes.txt").read_text() == "keep me"
    assert (folder / "ledger.head").read_bytes() != before


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "clinic").mkdir()
    create_clinic(tmp_path / "clinic", rows=1_000, patients=300)
    assert (tmp_path / "clinic" / DEMO_MARK).is_file()


@pytest.mark.parametrize("name", ["siloquent.toml", "ledger.sqlite", "diary.txt"])
def test_a_folder_that_is_no_demo_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(SchemaError, match="is not a demo") as refused:
        create_clinic(tmp_path)
    assert "--folder" in refused.value.fix
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_a_file_in_the_way_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("precious")
    with pytest.raises(SchemaError, match="is not a demo"):
        create_clinic(tmp_path / "demo")
    assert (tmp_path / "demo").read_text() == "precious"
