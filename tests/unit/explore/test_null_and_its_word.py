"""A group of NULL beside a value that is spelled NULL: told apart in every interface."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent as sq
from siloquent.charts.text import format_label
from siloquent.cli.app import run
from siloquent.explore.spec.answers.text import format_cells

WORDS = ["NULL", "'NULL'", "null", "NULL ", "A"]
FILE = """\
format = 1
attribute = [{ name = "c", type = "category", values = VALUES, null = "cell", other = "cell" }]

[table]
name = "t"
source = "parquet:data/t.parquet"
adjacency = "add-remove"
size_hint = 60
unit = { kind = "row" }

[budget]
accountant = "pure"
epsilon = "1000"
"""
QUESTION = "SELECT c, COUNT(*) FROM t GROUP BY c ERROR 3"


def open_words(folder: Path) -> Path:
    from siloquent.session import create_workspace

    workspace = create_workspace(folder / "w")
    (workspace.folder / "data").mkdir()
    values = [word for word in (*WORDS, None, None) for _ in range(20)]
    pq.write_table(pa.table({"c": values}), workspace.folder / "data" / "t.parquet")
    (workspace.schemas / "t.toml").write_text(FILE.replace("VALUES", json.dumps(WORDS)))
    return workspace.folder


def test_no_two_values_read_alike() -> None:
    shown = [format_label(value) for value in (None, *WORDS, "'null'", "(other)")]
    assert len(set(shown)) == len(shown)
    assert shown[:3] == ["NULL", "'NULL'", "''NULL''"]


def test_every_interface_tells_null_from_its_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = open_words(tmp_path)
    with sq.open(folder) as session:
        answer = session.ask(QUESTION, key="k")
        values = [row[0] for row in answer.rows]
        assert values.count(None) == values.count("NULL") == 1
        _, cells = format_cells(answer.columns, answer.rows)
        names = [line[0] for line in cells]
        assert len(set(names)) == len(names) == len(values)
        for text in (str(answer), answer._repr_html_()):
            assert "'NULL'" in text or "&#x27;NULL&#x27;" in text
        assert answer.table.column("c").to_pylist() == values
        saved = session.save(answer)
    assert run(("--workspace", str(folder), "ask", QUESTION, "--key", "k", "--yes", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row[0] for row in document["rows"]] == values
    assert run(("--workspace", str(folder), "ask", QUESTION, "--key", "k", "--yes")) == 0
    assert "'NULL'" in capsys.readouterr().out
    out = tmp_path / "out.csv"
    assert run(("--workspace", str(folder), "release", "export", saved.name, "-o", str(out))) == 0
    first = [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    assert len(set(first)) == len(first) == len(values)
    assert first[values.index(None)] == ""
