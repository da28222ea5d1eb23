"""``siloquent declare`` by options and files of answers: no row is read, and nothing is lost or overwritten."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from siloquent.cli.app import run
from siloquent.errors import UnknownName
from siloquent.ledger import Ledger
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import read_workspace
from siloquent.session import create_workspace, open_workspace_ledger

HEADER = "patient_id,age,sex,cost"
SAID = ("--accept", "--column", "sex = F, M; cost = 0.00..999.99", "--max-rows", "4")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    create_workspace(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(f"{HEADER}\np1,33,F,12.50\n", encoding="utf-8")
    return tmp_path


def declare(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    status = run(["declare", *words, "--json"])
    return status, json.loads(capfd.readouterr().out)


def test_a_table_with_ids_is_not_declared_until_it_is_said_whose_rows_they_are(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "loans.csv").write_text("loan_no,reader,price\n", encoding="utf-8")
    words = ["loans.csv", "--column", "loan_no, reader = id; price = 0..100"]
    for _ in range(3):  # each fix, pasted, leads on
        status, told = declare(capfd, *words)
        if not status:
            break
        assert not (folder / "schemas" / "loans.toml").exists()
        words = shlex.split(told["fix"])[2:]
    assert status == 0
    assert (
        'unit = { kind = "user", column = "reader", max_rows = 4 }' in (folder / "schemas" / "loans.toml").read_text()
    )
    other = ["loans.csv", "--name", "other", "--column", "loan_no, reader = id; price = 0..100"]
    assert declare(capfd, *other, "--person", "none")[0] == 0


def test_options_declare_a_table_and_its_first_price(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, told = declare(capfd, "visits.csv", *SAID, "--rows", "5000")
    assert status == 0
    schema = parse_schema((folder / "schemas" / "visits.toml").read_text(encoding="utf-8"))
    assert told["toml"] == (folder / "schemas" / "visits.toml").read_text(encoding="utf-8")
    assert (schema.source, schema.unit.code, schema.size_hint) == ("csv:visits.csv", "user:patient_id:4", 5000)
    assert told["first_query"]["query"].startswith("SELECT COUNT(*) FROM visits ERROR ")
    assert 0 < told["first_query"]["share"] <= 0.05
    words = ("visits.csv", *SAID, "--rows", "500000", "--replace")
    assert declare(capfd, *words)[1]["first_query"]["query"].startswith("SELECT age, COUNT(*) FROM visits GROUP BY age")
    words = ("visits.csv", *SAID, "--replace")
    assert declare(capfd, *words)[1]["first_query"]["query"].startswith("SELECT age, COUNT(*) FROM visits GROUP BY age")
    assert run(["check", "visits"]) == 0
    assert run(["explain", told["first_query"]["query"]]) == 0


def test_the_first_refusals_of_a_new_table_are_mended_by_their_fixes(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i},r{i % 1_200},{i % 40}.50,title {i % 7}\n" for i in range(3_000))
    (folder / "loans.csv").write_text(f"loan_no,reader,price,-v\n{rows}", encoding="utf-8")
    said = ("--column", "loan_no, reader = id; price = 0.00..100.00; -v = text 50", "--person", "reader")
    assert declare(capfd, "loans.csv", "--accept", *said, "--max-rows", "4", "--rows", "3000")[0] == 0
    for question in (
        "SELECT AVG(price) FROM loans ERROR 0.2",
        'SELECT "-v", COUNT(*) FROM loans GROUP BY "-v" ERROR 100',
    ):
        capfd.readouterr()
        assert run(["explain", question, "--json"]) != 0
        fix = json.loads(capfd.readouterr().out)["fix"]
        words = shlex.split(fix[fix.index("siloquent") :])[1:]
        assert run([words[0], *(["--explain"] if words[0] == "discover" else []), *words[1:]]) == 0, fix


def test_looking_at_the_price_opens_no_account(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    declare(capfd, "visits.csv", *SAID)
    ledger: Ledger = open_workspace_ledger(read_workspace(folder))
    with pytest.raises(UnknownName):
        ledger.get_account("visits@1")
    ledger.close()


OTHER_ROWS = ["", "p9,7,M,1\n" * 50, '\xff"\x00,,,,,\n"', "secret-name,ninety,?,NaN\n"]


@pytest.mark.parametrize("rows", OTHER_ROWS, ids=["none", "many", "broken", "odd"])
def test_other_rows_give_the_same_declaration(folder: Path, rows: str, capfd: pytest.CaptureFixture[str]) -> None:
    first = declare(capfd, "visits.csv", *SAID)
    (folder / "schemas" / "visits.toml").unlink()
    (folder / "visits.csv").write_bytes(f"{HEADER}\n".encode() + rows.encode("latin-1"))
    assert declare(capfd, "visits.csv", *SAID) == first


def write_typed(folder: Path, kind: str, rows: pa.Table) -> str:
    if kind == "parquet":
        pyarrow.parquet.write_table(rows, folder / "t.parquet")
        return "t.parquet"
    import duckdb

    (folder / "t.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("rows", rows)
        connection.execute("CREATE TABLE stays AS SELECT * FROM rows")
    return "t.duckdb"


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_types_of_the_file_are_read_and_no_row(folder: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    rows = pa.table(
        {"at": pa.array([0, 10**15], pa.timestamp("us")), "ok": [True, None], "n": [1.5, 2.5], "t": ["a", "b"]}
    )
    words = (write_typed(folder, kind, rows), "--name", "t", "--accept", "--column", "n = 0..9; t = a, b")
    status, told = declare(capfd, *words)
    assert status == 0
    schema = parse_schema(told["toml"])
    assert [one.kind for one in schema.domain] == ["datetime", "boolean", "real", "category"]
    assert schema.source == ("parquet:t.parquet" if kind == "parquet" else "duckdb:t.duckdb#stays")
    assert run(["check", "t"]) == 0
    (folder / "schemas" / "t.toml").unlink()
    write_typed(folder, kind, rows.slice(0, 0))
    assert declare(capfd, *words)[1]["toml"] == told["toml"]


def test_a_database_of_several_tables_needs_the_name_of_one(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import duckdb

    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE a (x INTEGER); CREATE TABLE b (y DATE); CREATE VIEW v AS SELECT * FROM a")
    status, told = declare(capfd, "t.duckdb", "--column", "x = 0..9")
    assert status == 2
    assert "a, b" in told["detail"]
    status, told = declare(capfd, "t.duckdb#b", "--accept")
    assert (status, told["table"], told["source"]) == (0, "b", "duckdb:t.duckdb#b")


def test_open_questions_are_told_all_at_once_and_nothing_is_written(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, told = declare(capfd, "visits.csv")
    assert status == 2
    for wanted in ("--accept", "--column 'sex = ...'", "--column 'cost = ...'"):
        assert wanted in told["detail"]
    assert list((folder / "schemas").iterdir()) == []


def test_all_faults_of_answers_are_told_at_once(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, told = declare(
        capfd, "visits.csv", "--column", "sexx = F, M", "--column", "age = int", "--rows", "a lot", "--epsilon", "2,0"
    )
    assert status == 2
    for part in ("Did you mean 'sex'", "'age': a number needs", "not 'a lot'", "Did you mean 2.0?"):
        assert part in told["detail"]


def test_answers_in_a_file_do_as_well(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "said.toml").write_text(
        'accept = true\ncolumns = ["sex = F, M", "cost = 0.00..999.99"]\nperson = "none"\nepsilon = 0.5\n'
    )
    status, told = declare(capfd, "visits.csv", "--answers", "said.toml", "--epsilon", "2")
    assert status == 0
    schema = parse_schema(told["toml"])
    assert (schema.unit.code, schema.budget.epsilon) == ("row", 2)


def test_a_table_file_is_never_overwritten_silently(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = folder / "schemas" / "visits.toml"
    file.write_text("# mine")
    status, told = declare(capfd, "visits.csv", *SAID)
    assert (status, file.read_text()) == (2, "# mine")
    assert "--replace" in told["fix"]
    assert declare(capfd, "visits.csv", *SAID, "--replace")[0] == 0
    assert declare(capfd, "visits.csv", *SAID, "--replace")[0] == 0
    assert (folder / "schemas" / "visits.toml.1").read_text() == "# mine"
    assert (folder / "schemas" / "visits.toml.2").read_text() == file.read_text()
    assert read_workspace(folder).list_table_names() == ["visits"]


def test_lists_are_copied_from_codes_files_and_other_tables(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "wards.txt").write_text("icu\nsurgery\n\nicu\n")
    declare(capfd, "visits.csv", *SAID)
    (folder / "stays.csv").write_text("month,ward,years\n")
    words = ("stays.csv", "--column", "month = @month; ward = @wards.txt; years = =visits.age", "--accept")
    status, told = declare(capfd, *words)
    assert status == 0
    month, ward, years = parse_schema(told["toml"]).domain
    assert (len(month.values), ward.values, years.edges[1]) == (12, ("icu", "surgery"), 10)


def test_columns_of_declared_tables_are_proposed_to_their_namesakes(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    declare(capfd, "visits.csv", *SAID)
    (folder / "stays.csv").write_text("Sex,cost,days\n")
    status, told = declare(capfd, "stays.csv", "--column", "days = 0..99", "--accept")
    assert status == 0
    sex, cost, _ = parse_schema(told["toml"]).domain
    assert (sex.values, str(cost.hi)) == (("F", "M"), "999.99")
    file = folder / "schemas" / "visits.toml"
    file.write_text(file.read_text().replace('"F", "M"', '"F", "M", "X"'))
    status, told = declare(capfd, "visits.csv", "--accept", "--column", "age = 18..99", "--max-rows", "4", "--replace")
    assert status == 0
    _, age, sex, _ = parse_schema(told["toml"]).domain
    assert (sex.values, str(age.lo)) == (("F", "M", "X"), "18")
    pyarrow.parquet.write_table(pa.table({"sex": [1.5], "cost": [2.5]}), folder / "odd.parquet")
    assert "'sex = ...'" in declare(capfd, "odd.parquet", "--accept")[1]["detail"]


@pytest.mark.parametrize("name", ["@visits.csv", "@nowhere", "=visits.age", "=visits", "@", "@../../etc/passwd"])
def test_rows_are_no_list(folder: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    status, told = declare(capfd, "visits.csv", "--column", f"sex = {name}", "--accept")
    assert status == 2
    assert "p1" not in str(told)


HOSTILE = {
    "header only": (HEADER.encode(), 0, ""),
    "byte order mark": (b"\xef\xbb\xbf" + HEADER.encode() + b"\n", 0, ""),
    "semicolons": (HEADER.replace(",", ";").encode(), 0, ""),
    "tabs": (HEADER.replace(",", "\t").encode(), 0, ""),
    "gzip": (gzip.compress(HEADER.encode()), 0, ""),
    "sep=": (b"sep=;\n" + HEADER.encode(), 2, "sep="),
    "empty": (b"", 2, "no header line"),
    "twice": (b"age,sex,Age\n", 2, "columns 1 and 3 the same name"),
    "no header": (b"39,State-gov,77516\n", 8, "somebody's row"),
    "latin-1": ("größe,sex\n".encode("latin-1"), 2, "not UTF-8"),
    "utf-16": (HEADER.encode("utf-16"), 2, "not UTF-8"),
    "open quote": (b'"age,sex\n1,2\n', 2, "quotes"),
    "old mac": (b"age,sex\r1,2\r", 2, "only CR"),
    "workbook": (b"PK\x03\x04" + bytes(30), 2, "workbook"),
    "too wide": (b",".join(b"x%d" % i for i in range(5_000)), 2, "5,000 columns"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_files_as_people_have_them_are_read_or_refused_in_words(
    folder: Path, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    data, status, told = HOSTILE[kind]
    (folder / "visits.csv").write_bytes(data)
    done, document = declare(capfd, "visits.csv", *SAID)
    assert done == status, document
    assert told in document.get("detail", "")
    assert "77516" not in str(document)
    assert (folder / "schemas" / "visits.toml").exists() == (status == 0)


def test_a_file_that_is_not_there_or_not_readable_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("nowhere.csv", ".", "x" * 5_000, "a\0b", "postgres:nowhere#t", "mysql:x", "parquet:visits.csv"):
        status, told = declare(capfd, name, *SAID)
        assert status in (2, 4), name
        assert told["code"] != "internal", name


def test_four_thousand_columns_and_hostile_names_are_told_briefly(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "visits.csv").write_text(",".join(f"x{i}" for i in range(4_000)))
    assert "at most 2,000" in declare(capfd, "visits.csv", "--column", "x* = 0..9")[1]["detail"]
    assert declare(capfd, "visits.csv", "--column", "x1, x2 = 0..9; rest = skip")[1]["attributes"] == 2
    (folder / "odd.csv").write_text(f'"a ""b""",\x1b[2Jred,{"y" * 100_000},[x](y),,age\n', encoding="utf-8")
    status = run(["declare", "odd.csv", "--column", "[x](y), column5 = 0..9; rest = skip", "--accept"])
    shown = capfd.readouterr()
    assert status == 0, shown.err[:500]
    assert "\x1b[2J" not in shown.out + shown.err
    assert len(shown.out + shown.err) < 2_000
    text = (folder / "schemas" / "odd.toml").read_text(encoding="utf-8")
    assert parse_schema(text).domain.names == ("[x](y)", "column5", "age")
    assert "\x1b" not in text
    assert len(text) < 5_000


def test_an_analyst_cannot_declare(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert declare(capfd, "visits.csv", *SAID, "--analyst", "ana")[0] == 8


def test_a_file_that_is_not_utf_8_is_declared_with_its_settings(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "visits.csv").write_bytes("Fälle 2024\nage;größe\n1;1,5\n".encode("cp1252"))
    told = ("--column", "age, größe = 0.0..9.9", "--person", "none")
    done, refused = declare(capfd, "visits.csv", *told)
    assert (done, "not UTF-8 in its header line" in refused["detail"]) == (2, True)
    settings = ['encoding = "cp1252" under [reading]', "skip = 1", 'decimal = ","']
    options = [word for line in settings for word in ("--reading", line)]
    done, document = declare(capfd, "visits.csv", *told, *options)
    assert done == 0, document
    text = (folder / "schemas" / "visits.toml").read_text(encoding="utf-8")
    assert '[reading]\nencoding = "cp1252"\nskip = 1\ndecimal = ","\n' in text
    done, refused = declare(capfd, "visits.csv", *told, "--reading", 'encodng = "cp1252"', "--replace")
    assert (done, "'encodng' is not a valid setting" in refused["detail"]) == (2, True)


@pytest.mark.parametrize("words", [("declare", "loans.csv"), ("draft", "loans.csv", "--public")])
@pytest.mark.parametrize("given", [(), ("--reading", "skip = 0"), ("--reading", 'encoding = "utf-8"')])
def test_a_file_that_is_not_utf8_is_read_by_the_pasted_fix(
    folder: Path, capfd: pytest.CaptureFixture[str], words: tuple[str, ...], given: tuple[str, ...]
) -> None:
    (folder / "loans.csv").write_text("Straße;Preis\nA;1\n", encoding="cp1252")
    said = ["--column", "Straße = A, B; Preis = 0..9", "--person", "none"] if words[0] == "declare" else []
    said += ["--header"] if said else []
    capfd.readouterr()
    assert run([*words, *given, *said, "--json"]) == 2
    fix = json.loads(capfd.readouterr().out)["fix"]
    assert run(shlex.split(fix)[1:]) == 0, fix
