"""Small things that people meet: each says what is wrong, what holds, and what to type."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import siloquent
from siloquent.cli.app import run
from siloquent.demo.clinic import create_clinic
from siloquent.errors import LedgerError, SchemaError


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "clinic"
    create_clinic(folder)
    return folder


def declared(attributes: str, source: str = "", more: str = "") -> str:
    return f"""
format = 1
attribute = [{attributes}]
{more}
[table]
name = "t"
{f'source = "{source}"' if source else ""}
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "100"
"""


NUMBER = '{{ name = "{}", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }}'

RULE = 'constraint = [{ kind = "fd", lhs = ["a"], rhs = "b" }]'

# Pictures


@pytest.mark.parametrize("name", ["x.png", "x.PNG", "x.pdf", "x.jpeg", "x"])
def test_a_picture_is_svg_or_refused_before_anything_is_spent(
    name: str, clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"
    before = siloquent.open(clinic).ledger.read_head()
    asked = ["--workspace", str(clinic), "--json", "ask", question, "--yes", "--chart-file", str(file)]
    assert run(asked) == 2
    assert json.loads(capsys.readouterr().out)["fix"] == f"--chart-file {file.with_suffix('.svg')}"
    assert siloquent.open(clinic).ledger.read_head() == before
    assert not file.exists()


def test_a_picture_of_svg_is_written(clinic: Path, tmp_path: Path) -> None:
    question = "SELECT ward, COUNT(*) FROM visits GROUP BY ward ERROR 200"
    file = tmp_path / "x.svg"
    assert run(["--workspace", str(clinic), "ask", question, "--yes", "--chart-file", str(file)]) == 0
    assert file.read_text().startswith("<svg")


# Drafts


@pytest.mark.parametrize("where", [".", "data", "data/deep"])
def test_a_draft_names_its_source_relative_to_the_workspace_that_holds_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "w"
    siloquent.create_workspace(folder)
    (folder / where).mkdir(parents=True, exist_ok=True)
    (folder / where / "rows.csv").write_text("x\n1\n2\n")
    monkeypatch.chdir(folder / where)
    draft = ["draft", "rows.csv", "--public", "-o", str(folder / "schemas" / "rows.toml")]
    assert run(draft) == 0
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    monkeypatch.chdir(moved)
    assert 'source = "csv:/' not in (moved / "schemas" / "rows.toml").read_text()
    assert siloquent.open(moved).check("rows").rows == 2


def test_a_draft_of_a_file_outside_names_the_whole_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    siloquent.create_workspace(tmp_path / "w")
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")
    assert run(["--workspace", str(tmp_path / "w"), "draft", str(tmp_path / "rows.csv"), "--public"]) == 0
    assert f'source = "csv:{tmp_path}/rows.csv"' in capsys.readouterr().out


# A ledger that is not there


def test_a_missing_ledger_leads_to_its_backup_and_never_to_a_fresh_budget(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = tmp_path / "lost"
    shutil.copytree(clinic, lost)
    (lost / "ledger.sqlite").unlink()
    with pytest.raises(LedgerError) as refused:
        siloquent.open(lost)
    assert "restore-a-backup" in refused.value.fix
    for words in (["tables"], ["check"], ["ask", "SELECT COUNT(*) FROM visits ERROR 200", "--yes"], ["ledger", "show"]):
        assert run(["--workspace", str(lost), *words]) == 7
        said = " ".join(capsys.readouterr().err.split())
        assert "restore-a-backup" in said
        assert "init" not in said
    assert run(["init", str(lost)]) == 2  # and whoever tries it all the same gets no fresh budget
    assert not (lost / "ledger.sqlite").exists()


# Columns


@pytest.mark.parametrize("name", [" lead", "trail ", " both ", "in side", "\u00e4 "])
@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_a_column_whose_name_has_blanks_at_its_ends_is_found(name: str, form: str, tmp_path: Path) -> None:
    siloquent.create_workspace(tmp_path / "w")
    table = pa.table({"other": [1, 1, 1], name: [1, 2, 3]})
    session = siloquent.open(tmp_path / "w")
    if form == "frame":
        session.add_frame(siloquent.read_schema(declared(NUMBER.format(name))), table)
    else:
        if form == "csv":
            (tmp_path / "w" / "t.csv").write_text(f"other,{name}\n1,1\n1,2\n1,3\n", encoding="utf-8")
        else:
            pq.write_table(table, tmp_path / "w" / "t.parquet")
        text = declared(NUMBER.format(name), source=f"{form}:t.{form}")
        (tmp_path / "w" / "schemas" / "t.toml").write_text(text, encoding="utf-8")
    report = session.check("t")
    assert (report.rows, [one.kind for one in report.findings if one.is_problem]) == (3, [])
    answer = session.ask(f'SELECT SUM("{name}") FROM t ERROR 2 CONFIDENCE 0.999999999')
    assert abs(answer.rows[0][0] - 6) <= 2


def test_a_frame_with_columns_of_several_levels_is_refused_by_name() -> None:
    frame = pandas.DataFrame({("a", "x"): [1], ("a", "y"): [2]})
    from siloquent.ledger import MemoryLedger
    from siloquent.schema.workspace import Workspace

    session = siloquent.Session(Workspace(Path("nowhere")), MemoryLedger())
    with pytest.raises(SchemaError, match="several levels"):
        session.add_frame(siloquent.read_schema(declared(NUMBER.format("x"))), frame)


# Repairs


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_repair_of_what_is_whole_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    siloquent.create_workspace(folder)
    text = declared(
        f"{NUMBER.format('a')}, {NUMBER.format('b')}", more='constraint = [{ kind = "fd", lhs = ["a"], rhs = "b" }]'
    )
    (folder / "schemas" / "t.toml").write_text(text)
    rows = folder / f"rows.{form}"
    if form == "csv":
        rows.write_bytes(b'a;"b";"other"\r\n01;" 1";"x ""y"""\r\n2;2;\r\n')
    else:
        pq.write_table(pa.table({"a": [1, 2], "b": [1, 2], "other": ["x", None]}), rows, compression="gzip")
    out = tmp_path / f"out.{form}"
    repair = ["--workspace", str(folder), "synth", "repair", str(rows), "--table", "t", "-o"]
    assert run([*repair, str(out)]) == 0
    assert out.read_bytes() == rows.read_bytes()
    assert run([*repair, str(out)]) == 2  # it is there already


def test_a_repair_writes_what_it_did_not_change_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    siloquent.create_workspace(folder)
    text = declared(
        f"{NUMBER.format('a')}, {NUMBER.format('b')}", more='constraint = [{ kind = "fd", lhs = ["a"], rhs = "b" }]'
    )
    (folder / "schemas" / "t.toml").write_text(text)
    rows, out = folder / "rows.csv", folder / "out.csv"
    rows.write_text("a,b,other\n1,1,7\n1,1,8\n1,2,009\n")
    assert run(["--workspace", str(folder), "synth", "repair", str(rows), "--table", "t", "-o", str(out)]) == 0
    assert out.read_text().splitlines() == ["a,b,other", "1,1,7", "1,1,8", "1,1,009"]


# Reports of devices


def test_reports_in_the_current_folder_are_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from siloquent.cli.base.command import Options
    from siloquent.cli.collect.inputs import resolve_collection_path

    siloquent.create_workspace(tmp_path / "w")
    options = Options(workspace=tmp_path / "w")
    assert resolve_collection_path(options, "./r.bin") == Path("r.bin")
    assert resolve_collection_path(options, "r.bin") == tmp_path / "w" / "collections" / "r.bin"
    seen: list[str] = []
    monkeypatch.setattr(
        "siloquent.cli.collect.inputs.resolve_collection_path", lambda _, name: (seen.append(name), tmp_path)[1]
    )
    monkeypatch.setattr("siloquent.cli.collect.inputs.load_collection", lambda *_: (None, tmp_path))
    monkeypatch.setattr("siloquent.cli.collect.inputs.open_report_store", lambda *_: _Nothing())
    run(["--workspace", str(tmp_path / "w"), "collect", "ingest", "c", "./r.bin"])
    assert seen == ["./r.bin"]


class _Nothing:
    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        pass


# Extras that are not installed


WITHOUT = """
import importlib.abc, io, contextlib, json, sys
BLOCKED = set(sys.argv[1].split(","))
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
from siloquent.cli.app import run
for words in json.loads(sys.argv[2]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = run(words)
    print(json.dumps([words, status, said.getvalue()]))
"""
SERVER = [
    ["token", "create", "ana"],
    ["token", "list"],
    ["token", "revoke", "abc"],
    ["openapi"],
    ["serve"],
    ["calibrate"],
]
FEDERATION = [
    ["federation", "init", "fed"],
    ["federation", "check"],
    ["federation", "status"],
    ["federation", "renew"],
    ["federation", "accept", "x"],
    ["federation", "request", "x"],
    ["relay", "run"],
    ["worker", "run"],
    ["party", "run"],
    ["party", "list"],
]
EXTRAS = {
    "server": (["fastapi", "jinja2", "uvicorn", "multipart", "python_multipart"], SERVER),
    "federation": (["cryptography", "nacl", "httpx", "starlette", "uvicorn"], FEDERATION),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_without_its_extra_says_what_to_install(extra: str, clinic: Path) -> None:
    gone, commands = EXTRAS[extra]
    asked = [["--workspace", str(clinic), *words] for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(gone), json.dumps(asked)], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(commands)
    named = 0
    for words, status, said in lines:
        assert status != 1, (words, said)
        assert "our bug" not in said, (words, said)
        named += f"siloquent[{extra}]" in said
    assert named >= 3
