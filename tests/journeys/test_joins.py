"""A public table beside the private one: declared once, joined on its key, refused where it does not fit."""

from __future__ import annotations

import zipfile
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pytest

import siloquent
from benchmarks.hostile.workbooks import Book, Sheet
from journeys.clinic import Person, Types
from property.test_keys_outlive_changes import Stopped
from siloquent.data.public import read_public
from siloquent.errors import KeyReused, RequestError
from siloquent.ledger.base_ledger import BaseLedger
from siloquent.schema import Attribute
from siloquent.schema.public_tables.declaration import parse_public
from siloquent.schema.workspace import read_workspace

DECLARED = """\
format = 1
name = "wards"
key = "ward"
source = "csv:data/wards.csv"
attribute = [
  { name = "region", type = "category", values = ["north", "south", "west"], null = "drop" },
  { name = "beds", type = "integer", lo = 0, hi = 100, outside = "clamp", null = "drop" },
]
"""
ROWS = "ward,region,beds\nA,north,10\nB,south,20\nicu,north,5\nunknown,west,7\n"
KEY = 'constraint = [{ kind = "foreign_key", columns = ["ward"], references = "wards(ward)" }]\n\n[table]'
REGIONS = "SELECT region, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY region ERROR 100"


@pytest.fixture
def ready(owner: Person, types: Types) -> Types:
    file = owner.folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace("[table]", KEY, 1))
    (owner.folder / "public").mkdir()
    (owner.folder / "public" / "wards.toml").write_text(DECLARED)
    (owner.folder / "data" / "wards.csv").write_text(ROWS)
    return types


def test_a_question_over_a_join_is_answered_kept_and_verified(ready: Types) -> None:
    asked = ready("ask", REGIONS, "--yes", "--key", "k", "--json")
    assert asked.status == 0, asked
    answer = asked.document
    assert answer["columns"] == ["region", "count", "low", "high"]
    true = {"north": 1_500, "south": 900, "west": 0}
    assert [row[0] for row in answer["rows"]] == list(true)
    assert all(low <= true[region] <= high for region, _, low, high in answer["rows"])
    assert ready("ask", REGIONS, "--yes", "--key", "k", "--json").document["replayed"] is True
    assert ready("verify", answer["id"]).status == 0


def test_it_costs_what_a_question_about_the_key_costs(ready: Types) -> None:
    joined = ready("explain", REGIONS, "--json").document
    alone = ready("explain", REGIONS.replace("region", "ward").replace(" JOIN wards USING (ward)", ""), "--json")
    assert float(joined["candidates"][0]["max_cost"]) <= float(alone.document["candidates"][0]["max_cost"])


def test_other_public_rows_are_another_question_to_a_key(owner: Person, ready: Types) -> None:
    assert ready("ask", REGIONS, "--yes", "--key", "k").status == 0
    (owner.folder / "data" / "wards.csv").write_text(ROWS.replace("icu,north", "icu,south"))
    refused = ready("ask", REGIONS, "--yes", "--key", "k", "--json")
    assert refused.document["code"] == "key_reused"


def test_an_edit_is_seen_however_the_file_is_quoted(owner: Person, ready: Types) -> None:
    file, rows = owner.folder / "public" / "wards.toml", owner.folder / "data" / "wards.csv"
    file.write_text(DECLARED.replace('"csv:data/wards.csv"', "'csv:data/wards.csv'"))
    with siloquent.open(owner.folder) as session:
        first = session.schema("visits")
        assert session.schema("visits") is first
        rows.write_text(ROWS.replace("icu,north", "icu,south") + "B2,south,21\n")
        assert session.schema("visits").public[0].digest != first.public[0].digest


READING = '\n[reading]\nencoding = "cp1252"\ndecimal = ","\nmissing = ["-"]\n'
GERMAN = "ward;region;beds\nA;süd;1,0\nB;-;2,5\nicu;süd;9\n"


def write_packed(folder: Path) -> None:
    with zipfile.ZipFile(folder / "wards.zip", "w") as archive:
        archive.writestr("wards.csv", GERMAN.encode("cp1252"))


def write_parts(folder: Path) -> None:
    head, *rows = GERMAN.splitlines(keepends=True)
    (folder / "wards").mkdir()
    for number, row in enumerate(rows):
        (folder / "wards" / f"{number}.csv").write_bytes((head + row).encode("cp1252"))


WAYS = {
    "csv:data/wards.csv": lambda folder: (folder / "wards.csv").write_bytes(GERMAN.encode("cp1252")),
    "csv:data/wards.zip": write_packed,
    "csv:data/wards": write_parts,
    "xlsx:data/wards.xlsx": lambda folder: (folder / "wards.xlsx").write_bytes(
        Book([Sheet([line.split(";") for line in GERMAN.splitlines()])]).write()
    ),
}


@pytest.mark.parametrize("source", WAYS)
def test_public_rows_are_read_as_their_file_says(source: str, owner: Person, ready: Types) -> None:
    WAYS[source](owner.folder / "data")
    reading = READING.replace('encoding = "cp1252"\n', "") if source.startswith("xlsx") else READING
    text = DECLARED.replace("csv:data/wards.csv", source).replace('"north"', '"süd"').replace('"integer"', '"real"')
    (owner.folder / "public" / "wards.toml").write_text(text.replace("hi = 100,", "hi = 100, grid = 0.5,") + reading)
    with siloquent.open(owner.folder) as session:
        (public,) = session.schema("visits").public
        assert session.schema("visits").public[0] is public
    ward, region, beds = public.known, *(column.places for column in public.columns)
    assert sum(ward) == 3
    assert [(region[place], beds[place]) for place, known in enumerate(ward) if known] == [(0, 2), (-1, 5), (0, 18)]


def test_a_setting_that_a_public_file_does_not_take_is_refused(owner: Person, ready: Types) -> None:
    file = owner.folder / "public" / "wards.toml"
    for section, told in (
        ('encodng = "cp1252"', "encodng"),
        ("sheet = 'x'", "sheet does not belong"),
        ("[reading.columns.x]\ndecimal = ','", "not a declared"),
    ):
        file.write_text(f"{DECLARED}\n[reading]\n{section}\n")
        assert told in ready("explain", REGIONS).err


@pytest.mark.parametrize("becomes", ["cell", "drop"])
def test_public_rows_with_an_empty_or_unlisted_key_meet_nobody(becomes: str, owner: Person, ready: Types) -> None:
    wards = Attribute("ward", "category", values=("A", "B"), other=becomes, null="cell")
    (owner.folder / "data" / "wards.csv").write_text("ward,region,beds\nA,north,10\n,south,5\nelsewhere,west,7\n")
    found = read_public(parse_public(DECLARED), wards, read_workspace(owner.folder))
    assert found.known == (True, *[False] * (wards.size - 1))


def test_public_keys_out_of_bounds_or_empty_are_not_taken_for_others(owner: Person, ready: Types) -> None:
    floors = {"lo": Decimal(1), "hi": Decimal(3), "grid": Decimal(1), "outside": "clamp"}
    key = Attribute("ward", "integer", null="value", null_value=2, **floors)
    (owner.folder / "data" / "wards.csv").write_text("ward,region,beds\n0,north,10\n,south,5\n3,west,7\n")
    assert read_public(parse_public(DECLARED), key, read_workspace(owner.folder)).known == (False, False, True)


def _file(text: str) -> tuple[str, str]:
    return "public/wards.toml", text


BROKEN = {
    "a key twice": ("data/wards.csv", ROWS + "A,west,3\n", "occurs twice"),
    "a column that is not there": ("data/wards.csv", ROWS.replace("beds", "bed"), "does not name 'beds'"),
    "no file": (*_file(DECLARED.replace("wards.csv", "none.csv")), "none.csv"),
    "another key": (*_file(DECLARED.replace('key = "ward"', 'key = "code"')), "name the same table and key"),
    "an unknown word": (*_file(DECLARED + "keys = 1\n"), "Did you mean 'key'"),
    "no format": (*_file(DECLARED.replace("format = 1", "format = 2")), "format = 1"),
    "a database": (*_file(DECLARED.replace("csv:data/wards.csv", "postgres:x#wards")), "xlsx: or parquet:"),
    "a text": (
        *_file(DECLARED.replace('"category", values = ["north", "south", "west"], null = "drop"', '"text"')),
        "no cells",
    ),
    "its own name": (*_file(DECLARED.replace('"region"', '"age"')), "is an attribute of 'visits' and of"),
    "the key again": (*_file(DECLARED.replace('"beds"', '"ward"')), "only in the private table"),
    "no attributes": (
        *_file(DECLARED.replace("attribute = [", "attribute = 3 #").replace("\n  {", " #").replace("\n]", "")),
        "list",
    ),
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_public_table_that_does_not_fit_is_refused_by_its_file(why: str, owner: Person, ready: Types) -> None:
    path, text, words = BROKEN[why]
    (owner.folder / path).write_text(text)
    refused = ready("explain", REGIONS, "--json")
    assert refused.status == 2, refused
    assert words in refused.document["detail"] + refused.document["fix"]


def test_a_private_table_is_not_joined(ready: Types) -> None:
    refused = ready("explain", "SELECT COUNT(*) FROM visits JOIN people USING (patient) ERROR 100", "--json").document
    assert "Only public tables are joined: after" in refused["detail"]
    assert "SELECT COUNT(*) FROM visits ERROR 100" in refused["fix"], "the question about its own table can be asked"


def test_check_counts_rows_that_the_public_table_does_not_list(owner: Person, ready: Types) -> None:
    def found() -> list[tuple[int, str]]:
        (report,) = ready("check", "visits", "--json").document["tables"]
        return [(one["count"], one["sentence"]) for one in report["findings"] if "wards" in one["subject"]]

    assert found() == [(600, "600 rows refer to nothing in wards.")], "those of the ward =1+1"
    (owner.folder / "data" / "wards.csv").write_text(ROWS.replace("B,south,20\n", ""))
    assert found() == [(1_500, "1,500 rows refer to nothing in wards.")]


def test_a_backup_holds_public_tables_so_that_answers_are_verified_from_it(owner: Person, ready: Types) -> None:
    answer = ready("ask", REGIONS, "--yes", "--json").document
    (owner.folder / "public" / "people.csv").write_text("somebody")
    made = ready("backup", str(owner.folder.parent / "kept"), "--json").document
    assert {"data", "public/people.csv"} <= set(made["left_out"])
    inside = {str(one.relative_to(made["folder"])) for one in Path(made["folder"]).rglob("*") if one.is_file()}
    assert {"public/wards.toml", "data/wards.csv"} <= inside
    assert not inside & {"public/people.csv", "data/visits.csv"}
    restored = owner.folder.parent / "restored"
    assert ready("restore", made["folder"], str(restored)).status == 0
    adopt = ("--workspace", str(restored), "ledger", "adopt", "--statement", "this is the newest copy")
    assert ready(*adopt).status == 0
    assert ready("--workspace", str(restored), "verify", answer["id"], "--json").document["compared"] is True


IN_NORTH = "SELECT COUNT(*) FROM visits WHERE ward {}IN (SELECT ward FROM wards WHERE region = 'north') ERROR 100"


@pytest.mark.parametrize(("negated", "true"), [("", 1_500), ("NOT ", 1_500)])
def test_keys_of_public_rows_that_pass_are_a_list(owner: Person, ready: Types, negated: str, true: int) -> None:
    with siloquent.open(owner.folder) as session:
        listed = "'A', 'icu'"
        [(found, low, high)] = session.ask(IN_NORTH.format(negated)).rows
        assert float(str(low)) <= true <= float(str(high))
        same = f"SELECT COUNT(*) FROM visits WHERE ward {negated}IN ({listed}) ERROR 100"
        assert session.ask(same).rows[0][0] == found  # the same question, at no cost


@pytest.mark.parametrize("question", [REGIONS, IN_NORTH.format("")], ids=["join", "list"])
def test_an_open_charge_waits_for_the_public_rows_that_it_was_planned_with(
    owner: Person, ready: Types, question: str
) -> None:
    """Nothing but their digest is kept, so that with others the key is refused, free, and fits once they are back."""

    def settle(*_: object, **more: object) -> None:
        raise Stopped

    with siloquent.open(owner.folder) as session:
        with patch.object(BaseLedger, "settle", settle), pytest.raises(Stopped):
            session.ask(question, key="k")
        spent = session.ledger.get_account("visits@1").spent
    rows = owner.folder / "data" / "wards.csv"
    rows.write_text(ROWS.replace("B,south", "B,north"))
    with siloquent.open(owner.folder) as session:
        with pytest.raises(KeyReused):
            session.ask(question, key="k")
        assert session.ledger.get_account("visits@1").spent == spent
    rows.write_text(ROWS)
    with siloquent.open(owner.folder) as session:
        assert session.ask(question, key="k").rows
        assert session.ledger.get_account("visits@1").spent.amount <= spent.amount


@pytest.mark.parametrize("most", [5, 10], ids=["before they are named", "once they are written"])
def test_too_many_keys_for_a_list_are_refused(
    owner: Person, ready: Types, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    asked = "SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE region = 'north') ERROR 100"
    with siloquent.open(owner.folder) as session:
        assert session.explain(asked).price
        monkeypatch.setattr("siloquent.explore.related_rows.MAX_LISTED", most)
        if most == 5:
            monkeypatch.setattr(Attribute, "label", lambda *_: pytest.fail("a key was named"))
        with pytest.raises(RequestError, match="2 keys of 'wards' pass, too many for a list") as refused:
            session.explain(asked)
        assert refused.value.fix.startswith("FROM visits JOIN wards USING (ward)")
