"""CSV: names from the header, cells as text, and no line that can break the reading of the others."""

from __future__ import annotations

import gzip
import logging
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siloquent.data import PrivateTable, check
from siloquent.data.sources.text.lines import CsvRows, split_line
from siloquent.data.sources.text.packed import BOM, TextFile
from siloquent.errors import SchemaError
from siloquent.ledger import Permit
from siloquent.schema import Block
from unit.data.clinic import clinic_schema, full_block, opened

WARDS = '["A", "B", "it\'s; \\"C\\"", "A\\nB", " "]'
TWO = f"""
  {{ name = "age", type = "integer", lo = 0, hi = 9, outside = "drop", null = "cell" }},
  {{ name = "ward", type = "category", values = {WARDS}, other = "cell", null = "cell" }},
"""


def table_of(folder: Path, content: bytes, name: str = "visits.csv") -> tuple[PrivateTable, Permit]:
    (folder / name).write_bytes(content)
    return opened(clinic_schema(attributes=TWO, source=f"csv:{folder / name}"))


def rows_of(folder: Path, content: bytes) -> list[tuple[object, object]]:
    table, permit = table_of(folder, content)
    return [
        (row["age"], row["ward"]) for batch in table.read_rows(["age", "ward"], permit) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"age,ward\n1,A\n2,B\n", [(1, "A"), (2, "B")]),
        (b"age;ward\r\n1;A\r\n2;B\r\n", [(1, "A"), (2, "B")]),
        (b"age\tward\n1\tA\n", [(1, "A")]),
        (b"age|ward\n1|A", [(1, "A")]),
        (b"\xef\xbb\xbfage,ward\n1,A\n", [(1, "A")]),
        (b"x,ward,age\n9,B,2\n", [(2, "B")]),
        (b" AGE , ward \n1,A\n", [(1, "A")]),
        (b'"age","ward"\n1,"it\'s; ""C"""\n', [(1, 'it\'s; "C"')]),
        (b'age,ward\n1,5 ft 3"\n', [(1, "(other)")]),
        (b'age,ward\n1,"A\nB"\n2,A\n', [(2, "A")]),
        (b'age,ward\n1,""\n2,\n', [(1, None), (2, None)]),
        (b"age,ward\n1, \n2,D\n", [(1, " "), (2, "(other)")]),
        (b"age,ward\n", []),
    ],
)
def test_files_in_every_common_form_are_read(
    tmp_path: Path, content: bytes, expected: list[tuple[object, object]]
) -> None:
    assert rows_of(tmp_path, content) == expected


@pytest.mark.parametrize(
    "bad",
    [
        b"1",
        b"\xff\xfe,A",
        b'"x"y',
        b"1,A,B",
        b"z" * 2**20 + b"z,A",
        b"3\r,A",
        b'4,"A"B',
        b"\0,\0",
        b",",
        b"9" * 5_000 + b",A",
    ],
)
def test_a_bad_line_costs_nobody_else_a_row(tmp_path: Path, bad: bytes) -> None:
    kept = rows_of(tmp_path, b"age,ward\n1,A\n" + bad + b"\n")
    assert kept[0] == (1, "A")


def test_nothing_is_sniffed_from_rows(tmp_path: Path) -> None:
    dates = b"age,ward\n" + b"2024-01-01,2024-01-01\n" * 50
    assert rows_of(tmp_path, dates + b"1,A\n")[-1] == (1, "A")


@pytest.mark.slow
def test_random_bytes_never_fail(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    letters = np.frombuffer(b"a1A,;\"\n\r\0 \xff\xc3\xa9'\\", dtype=np.uint8)
    for _ in range(100):
        body = rng.choice(letters, int(rng.integers(200))).tobytes()
        table, permit = table_of(tmp_path, b"age,ward\n" + body)
        table.count_by_cell([full_block(table.schema, "age", "ward"), Block((), ())], permit)


def test_a_gzipped_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    table, permit = table_of(tmp_path, gzip.compress(b"age,ward\n1,A\n1,B\n"), name="visits.data")
    assert table.count_by_cell([full_block(table.schema, "ward")], permit)[0].tolist() == [1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no header line"),
        (b"\n1,A\n", "no header line"),
        (b"\xff\xfe\x00a\n1\n", "not UTF-8"),
        (b"age,age\n1,2\n", "columns 1 and 2 the same name"),
        (b"age,Age,ward\n", "columns 1 and 2 the same name"),
        (b'"age,ward\n1,2\n', "quotes in its header"),
        (b",".join(b"c%d" % i for i in range(5_000)), "has 5,000 columns"),
        (b"age,ward\r1,A\r2,B\r", "only CR"),
        (b"age,ward\r1,A\n2,B\n", "only CR"),
        (b'"age\r",ward\n1,A\n', "only CR"),
        (b"a" * (2**20 + 5), "header line over"),
        (b"\x1f\x8bnot gzip at all", "cannot be unpacked"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    with pytest.raises(SchemaError, match=what):
        table_of(tmp_path, content)


def test_the_owner_learns_how_many_lines_are_left_out(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, b"age,ward\n1,A\n1\n\xff,A\n2,B\n" + b"z" * 2**21 + b"\n")
    report = check(table)
    lines = [(f.count, f.fix.partition(" ")[0]) for f in report.findings if f.kind == "unreadable_lines"]
    assert (report.rows, lines) == (2, [(1, "encoding"), (2, "rewrite")])


def test_the_owner_learns_that_a_file_is_not_utf_8(tmp_path: Path) -> None:
    rows = "".join(f"{i % 10},{'A' if i % 3 else 'ä'}\n" for i in range(20_000))
    table, _ = table_of(tmp_path, f"age,ward\n{rows}".encode("latin-1"))
    report = check(table)
    [lines] = [f for f in report.findings if f.kind == "unreadable_lines"]
    assert (report.rows, lines.count, report.is_clean) == (13_333, 6_667, False)
    assert "not in the declared encoding" in lines.sentence
    assert "as UTF-8" in lines.fix


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_with_too_many_columns_are_left_out_and_counted(tmp_path: Path, end: bytes) -> None:
    table, _ = table_of(tmp_path, end.join([b"age,ward", b"1,A", b"2,B,9", b"3,A,", b"4", b"5,B", b""]))
    report = check(table)
    assert report.rows == 3  # a delimiter at the end of a line adds no column
    assert [f.count for f in report.findings if f.kind == "unreadable_lines"] == [2]


@pytest.mark.parametrize("cell", [b'"', b'"A', b'"""', b' "A', b'"A"B,"', b'"A""', b'"" "', b'A"', b"A,moved", b"A\rB"])
def test_a_line_with_a_quote_or_cell_too_many_is_judged_alone(tmp_path: Path, cell: bytes) -> None:
    lines = [b"%d,A" % (i % 10) for i in range(1000)]
    lines[250] = b'3,B"'
    lines[500] = b"3," + cell
    kept = rows_of(tmp_path, b"age,ward\n" + b"\n".join(lines) + b"\n")
    others = Counter((i % 10, "A") for i in range(1000) if i not in (250, 500))
    assert not others - Counter(kept)
    assert 999 <= len(kept) <= 1000


def test_another_line_end_changes_nothing_for_ragged_lines(tmp_path: Path) -> None:
    ragged = b"age,ward\n" + b"1,A\n" * 20 + b"1,A,moved\n" * 30
    assert (len(rows_of(tmp_path, ragged)), len(rows_of(tmp_path, ragged + b"2,B\r\n"))) == (20, 21)


def test_records_may_span_lines_where_that_is_declared(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_bytes(b'age,ward\r\n1,"A\nB"\r\n2,"it\'s; ""C"""\r\n3,A\r\n')
    table, permit = opened(clinic_schema(attributes=TWO, source=f"csv-records:{tmp_path / 'visits.csv'}"))
    batches = list(table.read_rows(["age", "ward"], permit))
    found = [(row["age"], row["ward"]) for batch in batches for row in batch.to_pylist()]
    assert sorted(found) == [(1, "A\nB"), (2, 'it\'s; "C"'), (3, "A")]


def test_where_the_number_of_rows_is_public_every_line_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(b"age,ward\n1,A\n2\n\xff,A\n\n" + b"z" * 2**21 + b'\n"3,A\n')
    schema = replace(clinic_schema(attributes=TWO, source=f"csv:{path}"), adjacency="replace-one")
    table, permit = opened(schema)
    assert int(table.count_by_cell([Block((), ())], permit)[0].sum()) == 6


SIGNS = st.sampled_from([b"a", b"1", b",", b'"', b'""', b"\r", b"\n", b"\r\n", b"\0", b"\xff", b"\xc3\xa9", BOM, b" "])


@given(signs=st.lists(SIGNS, max_size=60), columns=st.integers(1, 3), chunk=st.integers(1, 40))
def test_blocks_of_lines_are_read_as_each_line_by_itself(signs: list[bytes], columns: int, chunk: int) -> None:
    body = b"".join(signs)
    lines = body.split(b"\n")[: None if not body.endswith(b"\n") and body else -1]
    split = [split_line(line.removesuffix(b"\r"), b",", columns) for line in lines]
    expected = [[cell or None for cell in cells] for cells in split if not isinstance(cells, str)]
    with tempfile.NamedTemporaryFile() as file, patch("siloquent.data.sources.text.lines.BLOCK_BYTES", chunk):
        names = [f"c{i}" for i in range(columns)]
        file.write(",".join(names).encode() + b"\n" + body)
        file.flush()
        rows = CsvRows(TextFile(file.name), b",", names, frozenset(names), 2**20)
        found = [list(row.values()) for row in pa.table(rows).to_pylist()]
        assert Counter(map(tuple, found)) == Counter(map(tuple, expected))
        assert sum(rows.count_faults().values()) == len(split) - len(expected)


@pytest.mark.parametrize("cell", [b'A"', b'"A"B', b'"A"B"C', b'a"b"c', b'"A" '])
def test_a_quote_out_of_place_within_its_line_costs_nobody_else_a_row(tmp_path: Path, cell: bytes) -> None:
    kept = rows_of(tmp_path, b"age,ward\n1,A\n2," + cell + b"\n3,B\n")
    assert [row for row in kept if row[0] != 2] == [(1, "A"), (3, "B")]


@pytest.mark.parametrize("first", [b"31,canary\n", b"age,canary\n", b"age,ward31,canary\n", b"canary,canary,age\n"])
def test_the_first_line_is_never_shown_since_it_could_be_somebodys_row(
    tmp_path: Path, first: bytes, owner_log: list[logging.LogRecord]
) -> None:
    with pytest.raises(SchemaError) as refused:
        table_of(tmp_path, first + b"5,canary\n" * 3)
    assert "canary" not in str(refused.value)
    if first.count(b"canary") == 1:
        assert "does not name 'ward'" in str(refused.value) or "does not name 'age', 'ward'" in str(refused.value)
        assert "canary" in owner_log[0].getMessage()


def test_a_line_counts_in_every_question_or_in_none(tmp_path: Path) -> None:
    """DuckDB alone leaves a line out only if a column that is asked for is what is wrong with it."""
    table, permit = table_of(tmp_path, b"age,ward\n1,A\n2,\xff\n3,B\n4," + b"x" * 2**20 + b"\n\xc3,A\n")
    blocks = [full_block(table.schema, "age"), full_block(table.schema, "ward"), Block((), ())]
    assert [int(counts.sum()) for counts in table.count_by_cell(blocks, permit)] == [2, 2, 2]
    for column in ("age", "ward"):
        assert sum(batch.num_rows for batch in table.read_rows([column], permit)) == 2
    report = check(table)
    assert report.rows == report.counted == 2
    assert [f.count for f in report.findings if f.kind == "unreadable_lines"] == [2, 1]
