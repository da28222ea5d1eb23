"""The number of an epoch is written into an owner's file, and nothing else of it moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from siloquent.schema.build import parse_schema
from siloquent.schema.files.epochs import declare_epoch

TOML = """\
format = 1  # epoch = 7 in a comment stays
attribute = [{ name = "ward", type = "category", values = ["epoch = 3"], null = "drop" }]
[table]
name = "visits"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]  # money
accountant = "pure"
epsilon = "1"
EPOCH
"""


@pytest.mark.parametrize("line", ["epoch = 1", "  epoch=1  # stored", ""])
def test_only_the_number_changes(tmp_path: Path, line: str) -> None:
    file = tmp_path / "visits.toml"
    file.write_text(TOML.replace("EPOCH", line))
    assert declare_epoch(file, 2)
    text = file.read_text()
    assert parse_schema(text).budget.epoch == 2
    if line:
        assert text == TOML.replace("EPOCH", line.replace("1", "2"))
    else:
        assert text == TOML.replace("EPOCH", "").replace("# money\n", "# money\nepoch = 2\n")
    assert [path.name for path in tmp_path.iterdir()] == ["visits.toml"]


@pytest.mark.parametrize(
    "text",
    [
        TOML.replace("EPOCH", '"epoch" = 1'),
        TOML.replace("EPOCH", "").replace("[budget]  # money", "[ budget ]"),
        "not a table file",
    ],
    ids=["a quoted key", "another way to write the heading", "no table file"],
)
def test_a_file_that_is_written_otherwise_is_left_to_its_owner(tmp_path: Path, text: str) -> None:
    file = tmp_path / "visits.toml"
    file.write_text(text)
    assert not declare_epoch(file, 2)
    assert file.read_text() == text
