"""Under every setting of ``[reading]``, no row's text changes what becomes of another row.

Rows and hostile lines are read together and apart: what is read of all is what is read of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.hostile.workbooks import Book, Sheet
from siloquent.api import Session
from siloquent.data.units.contribution_bounding import select_bounded_rows
from siloquent.ledger import MemoryLedger
from siloquent.schema.workspace import Workspace

NAMES = ("who", "ward", "price", "age", "born", "seen", "ill")
TABLE = """format = 1
attribute = [
  {{ name = "who", type = "id" }},
  {{ name = "ward", type = "category", values = ["A", "B", "NA"], other = "{other}", null = "{null}" }},
  {{ name = "price", type = "real", lo = 0, hi = 100, grid = 0.5, outside = "{outside}", null = "{null}" }},
  {{ name = "age", type = "integer", lo = 0, hi = 9, outside = "{outside}", null = {{ value = 3 }} }},
  {{ name = "born", type = "date", lo = 2020-01-01, hi = 2029-12-31, outside = "{outside}", null = "{null}" }},
  {{ name = "seen", type = "datetime", lo = 2024-01-01, hi = 2024-12-31, grid = "hour", outside="drop", null="cell" }},
  {{ name = "ill", type = "boolean", null = "{null}" }},
]
[reading]
{reading}
[table]
name = "visits"
source = "{source}"
adjacency = "{adjacency}"
unit = {{ kind = "row" }}
[budget]
accountant = "pure"
epsilon = "1"
"""
ROWS = (
    ("p1", "A", "1.234,50", "3", "31.12.2024", "2024-02-03 10:00", "ja"),
    ("p2", "B", "12.5", "-9", "2024-12-31", "2024-07-01 10:00Z", "nein"),
    ("p3", "NA", "-", "NA", "1.1.1900", "1.2.2024 9:05", "true"),
    ("p4", "", "77", "4,0", "", "-", "x"),
)
WORDS = (
    *("", "A", "NA", "-", "-9", "-9,0", "1.5", "1,5", "1.234", "1 234,5", "1e5", "inf", "nan", "1.1.1900", "31.12.24"),
    *("2024-02-30", "2024-07-01T10:00+02:00", "ja", "JA", "nein", "true", "0", "x" * 70_000, "\u0661", "ä", "'", '"'),
    *('""', "';'", '","', "\r", "\0", "\ufeff", "\t", "=1+1", "p1"),
)
CELLS = st.one_of(st.sampled_from(WORDS), st.text("0123456789.,;:'\" -+eENAja\t|ä\r\0", max_size=9))
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=9), min_size=1, max_size=12)


@st.composite
def readings(draw: st.DrawFn, *, of_csv: bool = True) -> list[str]:
    """Lines of ``[reading]``."""
    found = []
    decimal, thousands = draw(st.sampled_from([(".", ""), (",", ""), (",", "."), (",", " "), (".", ","), (".", "'")]))
    found += [f'decimal = "{decimal}"'] if decimal == "," else []
    found += [f'thousands = "{thousands}"'] if thousands else []
    found += draw(st.sampled_from([[], ['missing = ["NA", "-"]'], ['missing = ["-9", "1.1.1900", "NA"]']]))
    found += draw(st.sampled_from([[], ['date_format = "%d.%m.%Y"'], ['date_format = "%d.%m.%y"']]))
    found += draw(st.sampled_from([[], ['datetime_format = "%d.%m.%Y %H:%M"'], ['time_zone = "Europe/Berlin"']]))
    found += draw(st.sampled_from([[], ['true = ["ja"]', 'false = ["nein"]'], ['true = ["x"]', 'false = ["-"]']]))
    if of_csv:
        found.append(f'delimiter = "{draw(st.sampled_from([",", ";", "|"]))}"')
        found += draw(st.sampled_from([[], ['quote = "\'"'], ['quote = ""']]))
        found += draw(st.sampled_from([[], ['encoding = "cp1252"'], ['encoding = "utf-16-le"']]))
    return found


DECLARED = st.fixed_dictionaries(
    {
        "other": st.sampled_from(["drop", "cell"]),
        "null": st.sampled_from(["drop", "cell"]),
        "outside": st.sampled_from(["drop", "clamp"]),
        "adjacency": st.sampled_from(["add-remove", "replace-one"]),
    }
)
Read = Counter[tuple[int, ...]]


def read(folder: Path, data: bytes, source: str, reading: Sequence[str], declared: dict[str, str]) -> Read:
    """Count the rows that are read, each as the places of its values; OUTSIDE is -1."""
    (folder / "schemas").mkdir(exist_ok=True)
    text = TABLE.format(reading="\n".join(reading), source=source, **declared)
    (folder / "schemas" / "visits.toml").write_text(text, encoding="utf-8")
    (folder / source.partition(":")[2]).write_bytes(data)
    with Session(Workspace(folder), MemoryLedger()) as session:
        engine, columns, _ = session.table("visits").open_for_owner()
        counted = [column for column in columns if column.attribute.is_countable]
        for column in counted:
            if column.lookup:
                engine.look_up(column.lookup, column.attribute.values)
        query = select_bounded_rows(columns, session.schema("visits").unit, salt="", wanted=counted)
        found: Read = Counter()
        for batch in engine.read_batches(query):
            found.update(zip(*(np.asarray(part).tolist() for part in batch.columns), strict=True))
    return found


def write_csv(rows: Sequence[Sequence[str]], reading: Sequence[str]) -> bytes:
    """Lines with cells as they are, nothing quoted: what a hostile cell begins, its line has to end."""
    said = dict(line.split(" = ", 1) for line in reading)
    by, encoding = said["delimiter"].strip('"'), said.get("encoding", '"utf-8"').strip('"')
    lines = [by.join(row) for row in (NAMES, *rows)]
    return "\n".join(lines).encode(encoding, "replace") + "\n".encode(encoding)


def write_sheet(rows: Sequence[Sequence[Any]]) -> bytes:
    return Book([Sheet([list(NAMES), *map(list, rows)])]).write()


def differences(folder: Path, hostile: Sequence[Sequence[Any]], source: str, reading: Sequence[str],
                declared: dict[str, str]) -> Read:  # fmt: skip
    """Rows that are read otherwise together than apart: between the plain rows, and by themselves in another order."""

    def count(rows: Sequence[Sequence[Any]]) -> Read:
        data = write_sheet(rows) if source.startswith("xlsx") else write_csv(rows, reading)
        return read(folder, data, source, reading, declared)

    mixed = [row for place, row in enumerate(hostile) for row in (row, ROWS[place % len(ROWS)])]
    apart = count([ROWS[place % len(ROWS)] for place in range(len(hostile))])
    half = len(hostile) // 2
    for part in (hostile[half:], hostile[:half][::-1]):
        apart += count(part) if part else Counter()
    together = count(mixed)
    return (together - apart) + (apart - together)


BAD = [
    *(["p9", '"A', "1"], ['"'], ["'"], ["a"] * 7, [""] * 7),
    *(["p9", "A", "1,5", "1", "31.12.2024", '"', "ja"], ["\0"] * 7),
]
QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLAIN = {"other": "drop", "null": "cell", "outside": "drop", "adjacency": "add-remove"}


@pytest.mark.slow
@QUICK
@given(hostile=LINES, reading=readings(), declared=DECLARED)
@example(hostile=BAD, reading=['decimal = ","', 'missing = ["NA", "-"]', 'delimiter = ";"'], declared=PLAIN)
@example(hostile=BAD, reading=['delimiter = ","', 'quote = "\'"', 'encoding = "utf-16-le"'], declared=PLAIN)
def test_lines_of_csv_do_not_touch_one_another(
    hostile: list[list[str]], reading: list[str], declared: dict[str, str], tmp_path: Path
) -> None:
    lines = [[cell.replace("\n", " ") for cell in row] for row in hostile]
    assert not differences(tmp_path.resolve(), lines, "csv:rows.csv", reading, declared)


@pytest.mark.slow
@QUICK
@given(
    hostile=st.lists(st.lists(st.one_of(CELLS, st.none(), st.booleans(), st.floats(-1e9, 1e9)), max_size=9), min_size=1,
                     max_size=12),
    reading=readings(of_csv=False),
    declared=DECLARED,
)  # fmt: skip
@example(hostile=BAD, reading=['decimal = ","', 'missing = ["NA", "-"]'], declared=PLAIN)
def test_rows_of_a_sheet_do_not_touch_one_another(
    hostile: list[list[Any]], reading: list[str], declared: dict[str, str], tmp_path: Path
) -> None:
    assert not differences(tmp_path.resolve(), hostile, "xlsx:rows.xlsx", reading, declared)


def test_records_whose_quotes_span_lines_would_be_seen(tmp_path: Path) -> None:
    reading = ['delimiter = ";"', 'decimal = ","']
    assert not differences(tmp_path.resolve(), BAD[:2], "csv:rows.csv", reading, PLAIN)
    assert differences(tmp_path.resolve(), BAD[:2], "csv-records:rows.csv", reading, PLAIN)
