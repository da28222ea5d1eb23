"""Codes are categories: integers of few values are grouped as they are, and labels say what they mean."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import siloquent as sq
from journeys.clinic import Person
from journeys.documents import faults
from siloquent.cli.app import run
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import SchemaError, SiloquentError
from siloquent.schema.build import parse_schema

FILE = """format = 1
attribute = [
  { name = "sex", type = "integer", lo = 1, hi = 2, outside = "drop", null = "drop", LABELS },
  { name = "race", type = "category", values = [1, 2, 9], null = "cell", labels = { 9 = "unknown" } },
  { name = "smoker", type = "boolean", null = "drop" },
  { name = "age", type = "integer", lo = 0, hi = 199, outside = "clamp", null = "drop" },
]
[table]
name = "people"
source = "SOURCE"
adjacency = "add-remove"
size_hint = 1000
unit = { kind = "row" }
[budget]
accountant = "zcdp"
rho = "1000"
delta = "1e-6"
"""
LABELS = 'labels = { 1 = "female", 2 = "male" }'
FILE = FILE.replace("LABELS", LABELS)
SEX, RACE = ["1", "2", "2", "1"] * 250, ["1", "2", "9", ""] * 250
FORMS = {
    "0/1": ("0", "1"),
    "true/false": ("true", "false"),
    "t/f": ("t", "f"),
    "T/F": ("T", "F"),
    "yes/no": ("yes", "no"),
}
ASK = "SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR 1"


def write_rows(folder: Path, smokers: tuple[str, str] = ("0", "1"), *, packed: bool = False) -> str:
    """1,000 rows, half of them of each sex; a quarter smoke if the words are in order (no, yes)."""
    smoker = [smokers[0]] * 750 + [smokers[1]] * 250
    if packed:
        whole = [int(value) for value in SEX]
        columns = {
            "sex": whole,
            "race": [int(one) if one else None for one in RACE],
            "smoker": [int(one) for one in smoker],
        }
        parquet.write_table(pa.table({**columns, "age": list(range(200)) * 5}), folder / "people.parquet")
        return "parquet:people.parquet"
    lines = [f"{s},{r},{m},{i % 200}" for i, (s, r, m) in enumerate(zip(SEX, RACE, smoker, strict=True))]
    (folder / "people.csv").write_text("\n".join(["sex,race,smoker,age", *lines]) + "\n")
    return "csv:people.csv"


def build_workspace(folder: Path, **rows: object) -> Path:
    sq.create_workspace(folder)
    source = write_rows(folder, **rows)  # type: ignore[arg-type]
    (folder / "schemas" / "people.toml").write_text(FILE.replace("SOURCE", source))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_workspace(tmp_path / "w")


@pytest.fixture
def session(folder: Path) -> Iterator[sq.Session]:
    with sq.open(folder) as opened:
        yield opened


def count(session: sq.Session, where: str) -> int:
    return int(session.ask(f"SELECT COUNT(*) FROM people WHERE {where} ERROR 1").rows[0][0])


@pytest.mark.parametrize("packed", [False, True])
def test_an_integer_of_few_values_is_grouped_value_by_value(tmp_path: Path, packed: bool) -> None:
    with sq.open(build_workspace(tmp_path / "w", packed=packed)) as session:
        answer = session.ask(ASK)
        assert [(row[0], round(row[1] / 10)) for row in answer.rows] == [(1, 50), (2, 50)]
        assert len(session.ask("SELECT age, COUNT(*) FROM people GROUP BY age ERROR 9").rows) == 200
        by_code = session.ask("SELECT race, COUNT(*) FROM people GROUP BY race ERROR 1")
        assert [row[0] for row in by_code.rows] == ["1", "2", "9", None]
        cube = session.ask("BIN people ON COUNT(*) WHERE W = CUBE(sex, smoker) ERROR 1")
        assert [row[:2] for row in cube.rows] == [(1, False), (1, True), (2, False), (2, True)]


def test_an_integer_of_more_values_needs_bins(session: sq.Session, folder: Path) -> None:
    file = folder / "schemas" / "people.toml"
    file.write_text(file.read_text().replace("hi = 199", "hi = 200"))
    with pytest.raises(SiloquentError) as refused:
        session.explain("SELECT age, COUNT(*) FROM people GROUP BY age ERROR 9")
    assert "age // 10" in refused.value.fix


@pytest.mark.parametrize("form", FORMS)
def test_a_boolean_is_compared_alike_whatever_its_source_writes(tmp_path: Path, form: str) -> None:
    yes, no = FORMS[form] if form != "0/1" else ("1", "0")
    with sq.open(build_workspace(tmp_path / "w", smokers=(no, yes))) as session:
        same = (
            "smoker = 1",
            "smoker = TRUE",
            "smoker",
            "smoker != 0",
            "1 = smoker",
            "smoker IN (1)",
            f"smoker = '{yes}'",
        )
        assert {count(session, where) // 10 for where in same} <= {24, 25}
        assert count(session, "smoker IN (0, 1)") in range(995, 1_006)
        spent = session.ledger.list_accounts()[0].spent.amount
        session.ask("SELECT COUNT(*) FROM people WHERE smoker = 1 ERROR 1 REUSE NONE", key="k")
        session.ask("SELECT COUNT(*) FROM people WHERE smoker = TRUE ERROR 1 REUSE NONE", key="k")  # the same question
        assert session.ledger.list_accounts()[0].spent.amount > spent


def test_a_condition_may_name_the_label(session: sq.Session) -> None:
    assert count(session, "sex = 'female'") in range(495, 506)
    assert count(session, "sex IN ('female', 'male')") in range(995, 1_006)
    assert count(session, "race = 'unknown'") in range(245, 256)
    assert count(session, "race = 9") in range(245, 256)
    first = session.ask("SELECT COUNT(*) FROM people WHERE sex = 'male' ERROR 1 REUSE NONE", key="k")
    again = session.ask("SELECT COUNT(*) FROM people WHERE sex = 2 ERROR 1 REUSE NONE", key="k")
    assert (first.rows, again.replayed) == (again.rows, True)
    for text, meant in (("Female", "female"), ("mal", "male")):
        with pytest.raises(SiloquentError) as refused:
            session.explain(f"SELECT COUNT(*) FROM people WHERE sex = '{text}' ERROR 1")
        assert f"sex = '{meant}'" in refused.value.fix


def test_labels_stand_beside_values_everywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--workspace", str(folder))
    assert run([*place, "ask", ASK, "--yes", "--key", "k", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(faults(document, json_schema("answer"))) == []
    assert [row[0] for row in document["rows"]] == [1, 2]
    assert document["labels"] == [
        {"column": "sex", "values": [{"value": 1, "label": "female"}, {"value": 2, "label": "male"}]}
    ]
    assert document["shown"]["columns"][:2] == ["sex", "sex_label"]
    assert [row[:2] for row in document["shown"]["rows"]] == [["1", "female"], ["2", "male"]]
    assert run([*place, "ask", ASK, "--yes", "--key", "k", "--chart"]) == 0
    assert "2 male" in capsys.readouterr().out
    assert run([*place, "release", "show", document["id"]]) == 0
    assert "female" in capsys.readouterr().out
    file = folder / "out.csv"
    assert run([*place, "release", "export", document["id"], "-o", str(file)]) == 0
    rows = list(csv.reader(file.read_text().splitlines()))
    assert (rows[0][:3], rows[1][:2]) == (["sex", "sex_label", "count"], ["1", "female"])
    capsys.readouterr()
    assert run([*place, "show", "people", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert list(faults(shown, json_schema("table"))) == []
    assert shown["attributes"][0]["labels"][1] == {"value": 2, "label": "male"}
    assert shown["attributes"][0]["values"] == "1 to 2 (1 = female, 2 = male)"


def test_labels_change_at_any_time_and_cost_nothing(session: sq.Session, folder: Path) -> None:
    first = session.ask(ASK, key="k")
    before = session.schema("people").digest
    file = folder / "schemas" / "people.toml"
    for labels in ('labels = { 1 = "Frau", 2 = "Mann" }', None):
        text = file.read_text()
        old = text[text.index("labels = { 1") : text.index("}", text.index("labels = { 1")) + 1]
        file.write_text(text.replace(f", {old}", f", {labels}" if labels else ""))
        again = session.ask(ASK, key="k")
        assert (again.replayed, again.rows, again.receipt) == (True, first.rows, first.receipt)
        assert session.schema("people").digest == before
        assert [dict(one.labels) for one in again.labels] == ([{1: "Frau", 2: "Mann"}] if labels else [])
    assert session.verify(session.save(first)).ok


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ('{ 3 = "other" }', "3, which is not one of its values"),
        ('{ one = "female" }', "labels 'one'; its values are whole numbers"),
        ('{ 1 = "x", 2 = "x" }', "twice"),
        ('{ 1 = "" }', "1 to 200 characters"),
        ('{ 1 = 2 }', "labels"),
    ],
)  # fmt: skip
def test_labels_that_fit_no_value_are_refused(labels: str, told: str) -> None:
    text = FILE.replace(LABELS, f"labels = {labels}").replace("SOURCE", "csv:x.csv")
    with pytest.raises(SchemaError, match=told):
        parse_schema(text)


def test_each_task_takes_a_table_with_codes(session: sq.Session, folder: Path) -> None:
    from siloquent.search import KeyOf, OfferSpec
    from siloquent.share import ShareSpec
    from siloquent.sketch import Budget, PStable, SketchSpec
    from siloquent.synth import SynthSpec

    made = session.synth.synthesize(SynthSpec("people", Budget(rho="1"), rows=100, quality="fast"), key="a")
    assert set(made.rows["sex"].to_pylist()) <= {1, 2}
    assert set(made.rows["race"].to_pylist()) <= {"1", "2", "9", None}
    written = session.synth.save(made, folder / "synthetic")
    assert all(b"female" not in file.read_bytes() for file in written.rglob("*") if file.is_file())
    session.sketch.build(SketchSpec("people", ("age", "sex"), PStable(2, 1.0), Budget(rho="1")))
    session.search.offer(
        OfferSpec("people", features=("age",), keys=(KeyOf("sex"), KeyOf("race")), budget=Budget(rho="1"))
    )
    session.discover("people", "age", epsilon="1")
    session.share.release(ShareSpec("people", label="smoker", features=("sex", "race"), budget=Budget(rho="1")))


def test_labels_change_no_collection_and_no_profile(tmp_path: Path) -> None:
    from siloquent.collect import design, parse_spec
    from unit.collect.shops import PROFILE, text

    labelled = PROFILE.replace("null = { value = 0 }", 'null = { value = 0 }, labels = { 1 = "one" }')
    assert labelled != PROFILE
    plain, words = (design(parse_spec(text(one, epsilon="8"))) for one in (PROFILE, labelled))
    assert plain.digest == words.digest
    write_rows(tmp_path)
    person = Person(tmp_path)
    assert person.types("profile", "local", "people.csv", "--columns", "sex,race,smoker").status == 0


def test_codes_are_typed_with_their_labels(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("sex,flag\n1,0\n")
    person = Person(tmp_path)
    person.types("init", ".")
    said = "--column 'sex = codes 1 = female, 2 = male' --column 'flag = yes/no' --person none --empty group"
    done = person.types("declare", "c.csv", *shlex.split(said), "--rows", "1000", "--epsilon", "1", "--accept")
    assert done.status == 0, done
    text = (tmp_path / "schemas" / "c.toml").read_text()
    assert 'values = ["1", "2"]' in text
    assert 'labels = { 1 = "female", 2 = "male" }' in text
    assert (
        person.types("explain", "SELECT sex, COUNT(*) FROM c WHERE sex = 1 AND flag = 0 GROUP BY sex ERROR 50").status
        == 0
    )
