"""Released values in table files: read as if they had been listed, and refused where they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

import siloquent as sq
from siloquent.errors import SchemaError, UnknownName
from siloquent.schema.build import parse_schema
from siloquent.schema.domains import DomainFolder, render_domain, write_domain
from siloquent.schema.public_tables.declaration import parse_public
from unit.discover.tables import TEXT, declare

RELEASED = '{ name = "diagnosis", type = "category", values = { released = "diagnoses" }, null = "drop" }'
VALUES = ["cough", "flu"]


def write(folder: Path, values: list[str], name: str = "diagnoses") -> None:
    file = folder / "domains" / f"{name}.toml"
    file.unlink(missing_ok=True)
    assert write_domain(file, render_domain(name, "visits", "diagnosis", values, {}))
    assert not write_domain(file, "what is there is kept")


def test_released_values_are_those_that_the_file_lists(tmp_path: Path) -> None:
    write(tmp_path, VALUES)
    found = parse_schema(declare(diagnosis=RELEASED), DomainFolder(tmp_path))
    listed = RELEASED.replace('{ released = "diagnoses" }', '["cough", "flu"], other = "cell"')
    assert found == parse_schema(declare(diagnosis=listed))
    assert found.digest == parse_schema(declare(diagnosis=listed)).digest
    assert found.domain["diagnosis"].index("fever") == 2


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (RELEASED.replace("diagnoses", "diagnosis"), "No released domain named 'diagnosis'. Did you mean 'diagnoses'"),
        (RELEASED.replace("diagnoses", "../schemas/visits"), "name of a released domain"),
        (RELEASED.replace("diagnoses", "empty"), "contains no values"),
        (RELEASED.replace("diagnoses", "broken"), "cannot be read"),
        (RELEASED.replace("diagnoses", "strange"), "must state format = 1"),
        (RELEASED.replace('null = "drop"', 'other = "drop", null = "drop"'), "need a separate cell"),
        (RELEASED.replace('"diagnoses"', "3"), "must be a text"),
        (RELEASED.replace("released", "from"), "a list of texts or whole numbers, or"),
        (RELEASED.replace('{ released = "diagnoses" }', '"flu"'), "a list of texts or whole numbers, or"),
        (RELEASED.replace("category", "text"), "does not belong to type"),
    ],
)
def test_what_cannot_be_used_is_refused(column: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, VALUES)
    write(tmp_path, [], "empty")
    (tmp_path / "domains" / "broken.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "domains" / "strange.toml").write_text("format = 2")
    with pytest.raises(SchemaError, match=message.replace("(", r"\(")):
        parse_schema(declare(diagnosis=column), DomainFolder(tmp_path))


def test_released_values_belong_to_a_workspace() -> None:
    with pytest.raises(SchemaError, match="only in a workspace"):
        sq.read_schema(declare(diagnosis=RELEASED))


def test_public_tables_list_their_values() -> None:
    text = f'format = 1\nname = "wards"\nkey = "ward"\nsource = "csv:w.csv"\nattribute = [{RELEASED}]'
    with pytest.raises(SchemaError, match="only attributes of private tables"):
        parse_public(text)


def test_a_session_sees_a_domain_that_appears_or_changes(tmp_path: Path) -> None:
    sq.create_workspace(tmp_path)
    file = tmp_path / "schemas" / "visits.toml"
    file.write_text(declare(diagnosis=RELEASED))
    with sq.open(tmp_path) as session:
        with pytest.raises(UnknownName, match="diagnoses"):
            session.schema("visits")
        write(tmp_path, VALUES)
        first = session.schema("visits")
        assert session.schema("visits") is first
        assert session.load_epoch_schema("visits", 1).digest == first.digest
        write(tmp_path, [*VALUES, "measles"])
        second = session.schema("visits")
        assert second.domain["diagnosis"].values == ("cough", "flu", "measles")
        assert second.digest != first.digest
        file.write_text(declare(diagnosis=TEXT))
        (tmp_path / "domains" / "diagnoses.toml").unlink()
        assert session.schema("visits").domain["diagnosis"].kind == "text"
