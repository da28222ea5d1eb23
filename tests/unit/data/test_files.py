"""A source is one plain file, named without detours, and stays the one that was opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from siloquent.data import open_source
from siloquent.data.sources.files import find_source_file
from siloquent.errors import DataError, SchemaError
from siloquent.schema import Block
from siloquent.schema.workspace import Workspace
from unit.data.clinic import clinic_schema, opened

AGE = '{ name = "age", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }'


def written(folder: Path, text: str = "age\n1\n2\n") -> Path:
    path = folder / "visits.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("", "name of one file"),
        ("*.csv", "name of one file"),
        ("https://example.org/visits.csv", "name of one file"),
        ("s3://bucket/visits.csv", "name of one file"),
        ("../visits.csv", "may not contain"),
        ("a/../visits.csv", "may not contain"),
        ("nothing.csv", "does not exist"),
        (".", "is not a regular file"),
        ("link.csv", "symbolic link"),
        ("linked/visits.csv", "symbolic link"),
        ("pipe", "is not a regular file"),
        ("visits.csv\0.txt", "name of one file"),
    ],
)
def test_what_is_no_plain_file_of_that_name_is_refused(tmp_path: Path, where: str, what: str) -> None:
    written(tmp_path)
    (tmp_path / "link.csv").symlink_to(tmp_path / "visits.csv")
    (tmp_path / "linked").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SchemaError, match=what):
        find_source_file(where, tmp_path, table="visits")


def test_relative_names_begin_at_the_workspace(tmp_path: Path) -> None:
    written(tmp_path)
    schema = clinic_schema(attributes=AGE, source="csv:visits.csv")
    engine = open_source(schema, Workspace(tmp_path))
    assert engine.list_columns() == {"age": "VARCHAR"}


@pytest.mark.parametrize("before", ["opened only", "read once"])
def test_a_file_that_changes_is_not_read_on(tmp_path: Path, before: str, owner_log: list[object]) -> None:
    path = written(tmp_path)
    table, permit = opened(clinic_schema(attributes=AGE, source=f"csv:{path}"))
    if before == "read once":
        assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [2]
    assert table.is_current
    path.write_text("age\n1\n2\n3\n")
    assert not table.is_current
    with pytest.raises(DataError):
        table.count_by_cell([Block((), ())], permit)
    assert "raise `version`" in str(owner_log[0])


def test_a_file_that_vanishes_is_the_same_one_error(tmp_path: Path) -> None:
    path = written(tmp_path)
    table, permit = opened(clinic_schema(attributes=AGE, source=f"csv:{path}"))
    path.unlink()
    with pytest.raises(DataError) as caught:
        table.count_by_cell([Block((), ())], permit)
    assert str(caught.value) == str(DataError(charged=True))


def test_a_table_without_a_source_says_which_line_to_add() -> None:
    with pytest.raises(SchemaError, match=r'source = "csv:data/visits\.csv"'):
        open_source(clinic_schema(attributes=AGE), None)
