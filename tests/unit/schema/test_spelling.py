"""Days and numbers are declared by an example in the file's own spelling, and settings are written into table files."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import siloquent as sq
from siloquent.errors import RequestError
from siloquent.schema.build import parse_schema
from siloquent.schema.declaring.spelling import DAYS, read_day_format, read_decimal_signs
from siloquent.schema.domains import DomainFolder
from siloquent.schema.files.reading_edits import split_reading_fix, write_reading
from siloquent.schema.formats.value_formats import list_candidates


def test_every_format_that_a_check_proposes_is_read_off_an_example() -> None:
    for form in list_candidates("date"):
        assert read_day_format(date(2024, 12, 31).strftime(form.date)) == ("" if form.date == "%Y-%m-%d" else form.date)
    assert read_day_format("31/12/2024 or 2024-12-31") == "%d/%m/%Y | %Y-%m-%d"
    assert [bool(read_day_format(one)) for one in DAYS] == [False, True, True, True, True]
    for wrong in ("01.02.2024", "tomorrow", "31.12."):
        with pytest.raises(RequestError, match="31st of December"):
            read_day_format(wrong)


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        ("12.50", {}), (".", {}), ("", {}), ("12,50", {"decimal": ","}), ("comma", {"decimal": ","}),
        ("1.234,50", {"decimal": ",", "thousands": "."}), ("1,234.50", {"thousands": ","}),
        ("1 234,5", {"decimal": ",", "thousands": " "}), ("1'234.50", {"thousands": "'"}),
    ],
)  # fmt: skip
def test_signs_of_numbers_are_read_off_an_example(said: str, settings: dict[str, str]) -> None:
    assert read_decimal_signs(said) == settings


@pytest.mark.parametrize("said", ["12", "1,234,50", "1.2.3", "twelve", "12;5"])
def test_other_texts_say_nothing_about_numbers(said: str) -> None:
    with pytest.raises(RequestError, match="how numbers are written"):
        read_decimal_signs(said)


def put_csv(folder: Path, header: str) -> Path:
    file = folder / "meters.csv"
    file.write_text(f"{header}\n", encoding="utf-8")
    return file


def test_a_file_of_texts_is_asked_how_it_writes_days_and_decimals(tmp_path: Path) -> None:
    meant = {"read_on": "2020-01-01..2025-12-31", "usage": "0.00..9999.99", "town": "Bonn, Ulm", "meter": "id"}
    file = put_csv(tmp_path, "meter;read_on;usage;town")
    draft = sq.declare(file, meant, person="meter", max_rows=12)
    assert [one.key for one in draft.questions] == [], "they have defaults"
    from siloquent.schema.declaring.questions import list_open_questions

    asked = {one.key: one.text for one in list_open_questions(draft.draft)}
    assert "31st of December 2024 in read_on" in asked["days"]
    assert "twelve and a half in usage" in asked["decimal"]
    said = draft.say(days="31.12.2024", decimal="1.234,50")
    reading = said.to_schema().reading.values
    assert (reading.date, reading.decimal, reading.thousands) == ("%d.%m.%Y", ",", ".")
    again = said.say(decimal="12.50").to_schema().reading.values
    assert (again.date, again.decimal, again.thousands) == ("%d.%m.%Y", ".", "")
    given = sq.declare(file, meant, person="meter", max_rows=12, reading={"decimal": ",", "date_format": "%d.%m.%Y"})
    assert not {"days", "decimal"} & {one.key for one in list_open_questions(given.draft)}
    counts = sq.declare(file, {**meant, "read_on": "skip", "usage": "0..99"}, person="meter", max_rows=12)
    assert not {"days", "decimal"} & {one.key for one in list_open_questions(counts.draft)}


TABLE = """format = 1
attribute = [
  { name = "paid", type = "boolean", null = "drop" },
  { name = "x", type = "integer", lo = 0, hi = 9, null = "drop", outside = "clamp" },
]
%s[table]
name = "v"
source = "csv:v.csv"
adjacency = "add-remove"
unit = { kind = "row" }
[budget]
accountant = "pure"
epsilon = "1"
"""


@pytest.mark.parametrize(
    ("section", "fix", "expected"),
    [
        ("", 'decimal = "," and thousands = "." under [reading] in schemas/v.toml', (",", ".")),
        ("[reading]  # as typed\nskip = 0\n", 'decimal = "," under [reading]', (",", "")),
        ('[reading]\ndecimal = ","\nskip = 1\n', 'decimal = "." and thousands = "," under [reading]', (".", ",")),
    ],
)
def test_a_proposed_setting_is_written_beside_the_others(
    tmp_path: Path, section: str, fix: str, expected: tuple[str, str]
) -> None:
    text = TABLE % section
    changed = write_reading(text, "\n".join(split_reading_fix(fix)), DomainFolder(tmp_path))
    assert changed is not None
    reading = parse_schema(changed).reading
    assert (reading.values.decimal, reading.values.thousands) == expected
    assert reading.skip == parse_schema(text).reading.skip
    assert "# as typed" in changed or "# as typed" not in section


def test_a_setting_of_one_column_is_written_for_it_alone(tmp_path: Path) -> None:
    lines = split_reading_fix('true = ["x"] and false = ["-"] under [reading.columns."paid"] in schemas/v.toml')
    changed = write_reading(TABLE % "", "\n".join(lines), DomainFolder(tmp_path))
    assert changed is not None
    assert parse_schema(changed).reading.get_format("paid").true == ("x",)
    inline = TABLE % '[reading]\ncolumns."paid" = { true = ["ja"], false = ["nein"] }\n'
    assert write_reading(inline, "\n".join(lines), DomainFolder(tmp_path)) is None, "TOML does not extend inline tables"
    assert write_reading(TABLE % "", 'nonsense = "1"', DomainFolder(tmp_path)) is None


@pytest.mark.parametrize(
    "pair", ["да/нет", "hayır / evet", "kyllä/ei", "ja/nei", "ναι/όχι", "はい/いいえ", "nein/ja", "1/0"]
)
def test_words_for_yes_and_no_are_booleans_whatever_their_language(pair: str) -> None:
    import pyarrow as pa

    yes, no = pair.split("/")
    frame = pa.table({"paid": [yes.strip(), no.strip()], "x": [1, 2]})
    for meant in (pair, pair.title()):
        schema = sq.declare(frame, {"paid": meant, "x": "0..9"}, name="v", person="none").to_schema()
        assert schema.domain["paid"].kind == "boolean"
