"""Drafts are accepted as they are, and their bounds are round: exact extremes are somebody's."""

from __future__ import annotations

import gzip
import json
import zipfile
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hostile.workbooks import Book, Sheet
from siloquent.cli.app import run
from siloquent.cli.workspace.schema_draft import draft_schema
from siloquent.errors import RequestError
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring import derive_table_name
from siloquent.session import create_workspace

ROWS = pa.table(
    {
        "visit_id": ["v1", "v2", "v3", "v4"],
        "age": [17, 42, 93, None],
        "ward": ["A", "B", 'say "x"\\', "B"],
        "cost": [1.25, 1999.5, 3.0, 4.0],
        "smoker": [True, False, True, True],
        "again": [0, 1, 1, 0],
        "day": [date(2024, 1, 31), date(2024, 3, 1), date(2024, 2, 2), None],
        "at": [datetime(2024, 1, 31, 10, 5, 7)] * 4,
        "empty": pa.array([None] * 4, pa.string()),
    }
)


def drafted(tmp_path: Path, rows: pa.Table, form: str = "parquet") -> str:
    file = tmp_path / f"rows.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(rows, file)
    else:
        pyarrow.parquet.write_table(rows, file)
    return draft_schema(file, name="visits", source=f"{form}:{file}")


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_draft_is_accepted_as_it_is(tmp_path: Path, form: str) -> None:
    schema = parse_schema(drafted(tmp_path, ROWS, form))
    assert [attribute.kind for attribute in schema.domain] == [
        *("id", "integer", "category", "real", "boolean", "boolean", "date", "datetime", "text")
    ]
    ward = schema.domain["ward"]
    assert ward.values == ("A", "B", 'say "x"\\')
    assert schema.domain["age"].null == "cell"


def test_bounds_are_moved_outwards_to_round_numbers(tmp_path: Path) -> None:
    schema = parse_schema(drafted(tmp_path, pa.table({"cost": [1234, 98765], "x": [-1.5, 123.25]})))
    cost, x = schema.domain["cost"], schema.domain["x"]
    assert (cost.lo, cost.hi) == (1200, 99000)
    assert (x.lo, x.hi, str(x.grid)) == (-2, 130, "0.01")


CELLS = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**40), 2**40)), min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.floats(-1e9, 1e9)), min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.text(max_size=8)), min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.dates()), min_size=1, max_size=20),
)


@pytest.mark.slow
@given(values=CELLS, name=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20))
def test_whatever_the_rows_the_draft_is_accepted(
    values: list[object], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        rows = pa.table({name: pa.array(values)})
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return
    folder = tmp_path_factory.mktemp("draft")
    assert parse_schema(drafted(folder, rows)).domain.names == (name,)


@pytest.mark.parametrize(
    ("file", "name"),
    [("Visits 2024.csv", "visits_2024"), ("2024.csv", "t_2024"), ("-.csv", "t_"), ("x" * 90, "x" * 64)],
)
def test_a_table_is_named_after_its_file(file: str, name: str) -> None:
    assert derive_table_name(Path(file)) == name


@pytest.mark.parametrize("data", [b"", b"\x00\x01\x02", b"PAR1PAR1", b"a,b\n1\n1,2,3\n"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, data: bytes, form: str) -> None:
    file = tmp_path / f"rows.{form}"
    file.write_bytes(data)
    with pytest.raises(RequestError, match=r"cannot be read|no columns"):
        draft_schema(file, name="t", source="csv:x")


def test_files_are_read_as_private_ones_are(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes('Station ; Kosten\r\nGynäk;1.5\r\n"";2\r\n;3\r\n'.encode())
    schema = parse_schema(draft_schema(tmp_path / "rows.csv", name="t", source="csv:rows.csv"))
    station = schema.domain["Station"]
    assert (schema.domain.names, station.values, station.null) == (("Station", "Kosten"), ("Gynäk",), "cell")


@pytest.mark.parametrize(
    ("rows", "what"),
    [("ward\nKanarie\u00e4\n".encode("latin-1"), "not UTF-8"), (b"a,b\n1,2\nKanarie,2,3\n", "more or fewer columns")],
)
def test_a_refusal_quotes_no_row(tmp_path: Path, rows: bytes, what: str) -> None:
    (tmp_path / "rows.csv").write_bytes(rows)
    with pytest.raises(RequestError, match=what) as refused:
        draft_schema(tmp_path / "rows.csv", name="t", source="csv:rows.csv")
    assert "Kanarie" not in str(refused.value)


def test_a_draft_says_where_it_is_in_doubt(tmp_path: Path) -> None:
    rows = "".join(f"p{i % 150},{i if i % 50 else 'x'}\n" for i in range(300))
    (tmp_path / "rows.csv").write_text(f"reference,age\n{rows}")
    text = draft_schema(tmp_path / "rows.csv", name="t", source="csv:rows.csv")
    assert '# too many distinct values for a category: type = "id"' in text
    assert "# 294 of 300 cells are numbers" in text


def test_codes_ids_and_the_question_whose_rows_they_are(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "customer_id": [i // 2 for i in range(60)],
            "education": [i % 7 for i in range(60)],
            "passengers": [i % 4 for i in range(60)],
            "age": [20 + i % 5 for i in range(60)],
        }
    )
    text = drafted(tmp_path, rows)
    schema = parse_schema(text)
    assert [one.kind for one in schema.domain] == ["id", "category", "integer", "integer"]
    assert schema.domain["education"].values == tuple("0123456")
    assert "listed as codes" in text
    assert '# unit = { kind = "user", column = "customer_id", max_rows = 8 }' in text
    answered = text.replace('unit = { kind = "row" }', "").replace("# unit", "unit").replace("# size_hint", "size_hint")
    assert parse_schema(answered).unit.code == "user:customer_id:8"


def test_nobody_drafts_from_rows_that_nobody_called_public(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pyarrow.csv.write_csv(ROWS, tmp_path / "rows.csv")
    assert run(["draft", str(tmp_path / "rows.csv")]) == 8
    said = capfd.readouterr()
    assert "that is a leak" in said.err
    assert said.out == ""


def test_a_draft_never_replaces_a_file(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(ROWS, tmp_path / "rows.csv")
    output = tmp_path / "visits.toml"
    words = ["draft", str(tmp_path / "rows.csv"), "--public", "-o", str(output), "--quiet"]
    assert run(words) == 0
    before = output.read_text()
    assert parse_schema(before).name == "visits"
    assert run(words) == 2
    assert output.read_text() == before


def test_a_header_with_a_double_quote_is_to_be_renamed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('"say ""hi""",b\n1,2\n')
    assert run(["draft", str(file), "--public"]) == 2
    said = capsys.readouterr().err
    assert "not 'say \"hi\"'" in said
    assert "Fix: rename the column" in said


def test_codes_with_leading_zeros_are_categories_and_a_decimal_comma_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    lines = [f'0{i % 3}067,{i},"{i},5{i % 7}"\n' for i in range(300)]
    file.write_text("plz,meters,euro\n" + "".join(lines))
    text = draft_schema(file, name="visits", source="csv:rows.csv")
    schema = parse_schema(text)
    assert schema.domain["plz"].values == ("00067", "01067", "02067")
    assert schema.domain["meters"].kind == "integer"
    before = text[: text.index('name = "euro"')].splitlines()[-2]
    assert "decimal comma" in before


GERMAN = (
    'encoding = "cp1252"\ndecimal = ","\nthousands = "."\ndate_format = "%d.%m.%Y"\nmissing = ["k. A."]\n'
    'true = ["ja"]\nfalse = ["nein"]'
)
WORDS = [
    ("Kraft" if i % 2 else "Gerät", f"1.{i + 100},50", f"{i % 28 + 1}.3.2024", "ja" if i % 3 else "nein")
    for i in range(99)
]
LINES = ["Bereich;Beitrag;Beginn;Kurs", *map(";".join, WORDS), "k. A.;k. A.;k. A.;k. A."]


def as_sheet() -> bytes:
    """The same rows in a workbook, every second of numbers and dates."""
    rows: list[list[object]] = [line.split(";") for line in LINES]
    for i, row in enumerate(rows[1:-1:2]):
        row[1], row[2] = 1000 + i * 2 + 100.5, date(2024, 3, i * 2 % 28 + 1)
    return Book([Sheet(rows)]).write()


@pytest.mark.parametrize("form", ["visits.csv", "visits.csv.gz", "visits.zip", "parts", "visits.xlsx"])
def test_settings_of_reading_are_those_of_draft_and_check(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path.resolve()
    create_workspace(folder / "w")
    monkeypatch.chdir(folder / "w")
    text, file = ("\n".join(LINES) + "\n").encode("cp1252"), folder / "w" / form
    if form == "parts":
        file.mkdir()
        head, *rest = text.splitlines(keepends=True)
        (file / "a.csv").write_bytes(head + b"".join(rest[:40]))
        (file / "b.csv").write_bytes(head + b"".join(rest[40:]))
    elif form.endswith("zip"):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("visits.csv", text)
    else:
        file.write_bytes(as_sheet() if form.endswith("xlsx") else gzip.compress(text) if form.endswith("gz") else text)
    settings = [line for line in GERMAN.splitlines() if not (form.endswith("xlsx") and "encoding" in line)]
    words = [word for line in settings for word in ("--reading", line)]
    assert run(["draft", form, "--public", "-o", "schemas/visits.toml", "--quiet", *words]) == 0
    schema = parse_schema((folder / "w" / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert [one.kind for one in schema.domain] == ["category", "real", "date", "boolean"]
    assert schema.domain["Bereich"].values == ("Gerät", "Kraft")
    assert (schema.domain["Beitrag"].lo, schema.domain["Beitrag"].hi) == (1100, 1200)
    capsys.readouterr()
    assert run(["check", "visits", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["tables"][0]
    assert (report["rows"], report["clean"]) == (100, True)
    assert {one["kind"] for one in report["findings"]} == {"null"}


def test_a_draft_with_wrong_settings_says_which_would_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes("\n".join(LINES).encode("cp1252"))
    with pytest.raises(RequestError, match="not UTF-8") as refused:
        draft_schema(tmp_path / "rows.csv", name="t", source="csv:rows.csv")
    assert 'encoding = "cp1252"' in str(refused.value)
    with pytest.raises(RequestError, match="not a valid setting"):
        draft_schema(tmp_path / "rows.csv", name="t", source="csv:rows.csv", reading='encodng = "cp1252"')
