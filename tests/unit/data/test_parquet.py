"""Honest Parquet files of every writer are read; small ones that would unpack to gigabytes are refused at once."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.hostile.parquet_files import Node, footer_of, with_footer
from siloquent.data import PrivateTable, ReadLimits, open_source
from siloquent.data.sources.files import find_source_file
from siloquent.data.sources.parquet import FROM_OUTSIDE, UnsafeFile, check_parquet, read_parquet_header
from siloquent.errors import DataError, SchemaError
from siloquent.foreign.thrift import CompactReader, Malformed
from siloquent.schema import Block
from unit.data.clinic import SALT, clinic_schema, full_block, ledger_for, opened, permit_of, visits
from unit.data.parquet_forgery import BYTE_ARRAY, DELTA_BYTE_ARRAY, DICTIONARY, RLE_DICTIONARY, Page, forge, struct

ONE = '{ name = "age", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop" }'
TEXT = '{ name = "ward", type = "category", values = ["A"], other = "cell", null = "drop" }'


def checked(path: Path, column: str = "age", limits: ReadLimits | None = None) -> None:
    with duckdb.connect() as connection:
        file = find_source_file(path.name, path.parent, table="t")
        check_parquet(connection, file, limits or ReadLimits(), [column], table="t")


def refusal(path: Path, column: str = "age") -> str:
    with pytest.raises(UnsafeFile) as caught:
        checked(path, column, FROM_OUTSIDE)
    return str(caught.value)


def whole(count: int) -> bytes:
    return bytes(np.arange(count, dtype="<i8").tobytes())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "gzip", "use_dictionary": False},
        {"compression": "brotli", "data_page_size": 100},
        {"compression": "lz4", "row_group_size": 50},
        {"compression": "none", "column_encoding": {"note": "DELTA_BYTE_ARRAY"}, "use_dictionary": False},
        {"column_encoding": {"age": "DELTA_BINARY_PACKED"}, "use_dictionary": False},
        {"column_encoding": {"weight": "BYTE_STREAM_SPLIT"}, "use_dictionary": False},
    ],
)
def test_honest_files_are_read(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = visits(400)
    pq.write_table(rows, tmp_path / "visits.parquet", **options)
    schema = clinic_schema(source=f"parquet:{tmp_path}/visits.parquet")
    table, permit = opened(schema)
    frame, permit_frame = opened(schema, rows)
    blocks = [full_block(schema, "age"), full_block(schema, "ward", "smoker")]
    assert [c.tolist() for c in table.count_by_cell(blocks, permit)] == [
        c.tolist() for c in frame.count_by_cell(blocks, permit_frame)
    ]
    assert sum(batch.num_rows for batch in table.read_rows(["note"], permit)) == 400


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_files_of_other_writers_are_read(tmp_path: Path, writer: str) -> None:
    rows, path = visits(400), tmp_path / "visits.parquet"
    if writer == "polars":
        import polars as pl

        pl.from_arrow(rows).write_parquet(path)  # type: ignore[union-attr]
    else:
        duckdb.from_arrow(rows).write_parquet(str(path))
    table, permit = opened(clinic_schema(source=f"parquet:{path}"))
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [400]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    pq.write_table(visits(0), tmp_path / "visits.parquet")
    table, permit = opened(clinic_schema(source=f"parquet:{tmp_path}/visits.parquet"))
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [0]


def test_a_forged_file_that_tells_the_truth_is_read(tmp_path: Path) -> None:
    forge(tmp_path / "t.parquet", [Page(whole(10), 10), Page(whole(5), 5)], rows=15)
    table, permit = opened(clinic_schema(attributes=ONE, source=f"parquet:{tmp_path}/t.parquet"))
    schema = table.schema
    assert table.count_by_cell([full_block(schema, "age")], permit)[0].tolist() == [2, 2, 2, 2, 2, 1, 1, 1, 1, 1]


LIES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a page that unpacks to more than the footer says": (
        lambda p: forge(p, [Page(whole(1000), 10)], rows=10, says_unpacked=120),
        "larger than the footer says",
    ),
    "a header that claims two gigabytes": (
        lambda p: forge(p, [Page(whole(10), 10, says_unpacked=2**31 - 1)], rows=10, says_unpacked=2**40),
        "too large",
    ),
    "a negative size": (lambda p: forge(p, [Page(whole(10), 10, says_unpacked=-5)], rows=10), "too large"),
    "more values than rows": (lambda p: forge(p, [Page(whole(10), 10**9)], rows=10), "more or fewer values"),
    "fewer values than rows": (
        lambda p: forge(p, [Page(whole(10), 9)], rows=10),
        "more or fewer values",
    ),
    "a chunk with other rows than its group": (lambda p: forge(p, [Page(whole(10), 10)], rows=10, values=11), "values"),
    "groups that do not add up": (lambda p: forge(p, [Page(whole(9), 9)], rows=10, group_rows=9), "do not add up"),
    "rows beyond any table": (lambda p: forge(p, [Page(whole(9), 9)], rows=2**40), "rows"),
    "gigabytes from kilobytes": (lambda p: forge(p, [Page(whole(9), 9)], rows=2**30), "unpack to"),
    "a page beyond the file": (lambda p: forge(p, [Page(whole(10), 10, says_packed=10**6)], rows=10), "beyond"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_footer_that_lies_is_found_out(tmp_path: Path, lie: str) -> None:
    make, expected = LIES[lie]
    path = make(tmp_path / "t.parquet")
    with pytest.raises((UnsafeFile, Malformed), match=expected):
        checked(path, limits=FROM_OUTSIDE)
    with pytest.raises((UnsafeFile, Malformed)):
        checked(path)


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"data_page_version": "2.0"}], ids=str)
@pytest.mark.parametrize("length", [65_536, 70_000, 3_000_000])
def test_what_becomes_of_a_long_text_is_decided_by_its_row_alone(
    tmp_path: Path, length: int, options: dict[str, Any]
) -> None:
    long = "A" * length
    rows = pa.table({"ward": ["A"] * 60 + ["B", long, None, long]})
    listed = TEXT.replace('["A"]', '["A", "B"]')
    as_text = ', { name = "note", type = "text" }'
    pq.write_table(rows.append_column("note", rows["ward"]), tmp_path / "t.parquet", **options)
    table, permit = opened(clinic_schema(attributes=listed + as_text, source=f"parquet:{tmp_path}/t.parquet"))
    assert table.count_by_cell([full_block(table.schema, "ward")], permit)[0].tolist() == [60, 1, 2]
    notes = [one for batch in table.read_rows(["note"], permit) for one in batch.column(0).to_pylist()]
    kept = [long, long] if length <= 65_536 else [None, None]
    assert sorted(map(repr, notes)) == sorted(map(repr, ["A"] * 60 + ["B", None, *kept]))


def test_a_long_text_that_many_rows_point_to_costs_its_own_size(tmp_path: Path) -> None:
    long = (2**25).to_bytes(4, "little") + b"x" * 2**25
    count = 200_000
    varint, left = bytearray(), count << 1  # one run of the same index
    while left:
        varint.append((left & 127) | (128 if left > 127 else 0))
        left >>= 7
    indices = b"\x01" + bytes(varint) + b"\x00"
    pages = [Page(long, 1, DICTIONARY), Page(indices, count, encoding=RLE_DICTIONARY)]
    forge(tmp_path / "t.parquet", pages, rows=count, name="ward", physical=BYTE_ARRAY)
    schema = clinic_schema(attributes=TEXT, source=f"parquet:{tmp_path}/t.parquet")
    ledger = ledger_for(schema)
    engine = open_source(schema, None, limits=ReadLimits(memory_bytes=2**28, threads=1))
    table = PrivateTable(schema, engine, ledger, salt=SALT)
    counted = table.count_by_cell([full_block(schema, "ward")], permit_of(ledger, schema.account))
    assert counted[0].tolist() == [0, count]


def test_a_large_dictionary_of_short_texts_is_read(tmp_path: Path) -> None:
    rows = pa.table({"ward": [f"patient number {i}" for i in range(20_000)]})
    pq.write_table(rows, tmp_path / "t.parquet", dictionary_pagesize_limit=2**24)
    table, permit = opened(clinic_schema(attributes=TEXT, source=f"parquet:{tmp_path}/t.parquet"))
    assert table.count_by_cell([full_block(table.schema, "ward")], permit)[0].tolist() == [0, 20_000]


def test_texts_that_share_a_prefix_are_refused_from_outside_where_that_could_grow(tmp_path: Path) -> None:
    page = Page(b"x" * 60_000, 10_000, encoding=DELTA_BYTE_ARRAY)
    forge(tmp_path / "t.parquet", [page], rows=10_000, name="ward", physical=BYTE_ARRAY)
    assert "DELTA_BYTE_ARRAY" in refusal(tmp_path / "t.parquet", "ward")


@pytest.mark.parametrize(
    "options", [{}, {"column_encoding": {"ward": "DELTA_BYTE_ARRAY"}, "use_dictionary": False}], ids=str
)
def test_one_text_of_a_hundred_megabytes_takes_no_other_row_along(tmp_path: Path, options: dict[str, Any]) -> None:
    path, counted = tmp_path / "t.parquet", []
    for last in ("A", "x" * 100_000_000):
        pq.write_table(pa.table({"ward": ["A"] * 5_000 + [last]}), path, **options)
        table, permit = opened(clinic_schema(attributes=TEXT, source=f"parquet:{path}"))
        counted.append(table.count_by_cell([full_block(table.schema, "ward")], permit)[0].tolist())
        with contextlib.suppress(DataError):
            assert read_parquet_header(path) == ["ward"]
    assert counted == [[5_001, 0], [5_000, 1]]


@pytest.mark.parametrize(
    "unit", ['{ kind = "row" }', '{ kind = "user", column = "ward", max_rows = 2 }'], ids=["row", "user"]
)
def test_a_text_that_is_not_utf_8_takes_no_other_row_along(tmp_path: Path, unit: str) -> None:
    raw = pa.array([b"A?", b"A?", b"A\xff", b"A\xfe", "\u00e4".encode(), None], pa.binary())
    pq.write_table(pa.table({"ward": raw.view(pa.string()), "age": range(6)}), tmp_path / "t.parquet")
    declared = clinic_schema(
        attributes='{ name = "ward", type = "id" }, ' + ONE, source=f"parquet:{tmp_path}/t.parquet", unit=unit
    )
    table, permit = opened(declared)
    counted = table.count_by_cell([full_block(table.schema, "age")], permit)[0].tolist()
    # Two users whose ids are not UTF-8 are no users: shown alike, they would share what one of them may add.
    assert counted == [1, 1, 1, 1, 1, 1, 0, 0, 0, 0] if '"row"' in unit else [1, 1, 0, 0, 1, 0, 0, 0, 0, 0]


def test_a_text_that_is_not_utf_8_is_null_as_in_other_sources(tmp_path: Path) -> None:
    raw = pa.array([b"A", b"A\xff", b"A?", None], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"ward": raw}), tmp_path / "t.parquet")
    ward = '{ name = "ward", type = "category", values = ["A", "A?"], other = "cell", null = "cell" }'
    table, permit = opened(clinic_schema(attributes=ward, source=f"parquet:{tmp_path}/t.parquet"))
    assert table.count_by_cell([full_block(table.schema, "ward")], permit)[0].tolist() == [1, 1, 0, 2]


def test_a_nan_is_null_whatever_the_statistics_say(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [1.0, float("nan"), 9.0]}), tmp_path / "t.parquet")
    table, permit = opened(clinic_schema(attributes=ONE, source=f"parquet:{tmp_path}/t.parquet"))
    assert table.count_by_cell([full_block(table.schema, "age")], permit)[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]


def test_columns_that_are_not_declared_may_be_as_they_like(tmp_path: Path) -> None:
    rows = pa.table({"age": [1, 2], "scan": ["x" * 3_000_000, "y"]})
    pq.write_table(rows, tmp_path / "t.parquet")
    table, permit = opened(clinic_schema(attributes=ONE, source=f"parquet:{tmp_path}/t.parquet"))
    assert table.count_by_cell([full_block(table.schema, "age")], permit)[0].tolist()[:3] == [0, 1, 1]


def test_a_refused_file_says_nothing_to_analysts_and_everything_to_the_owner(
    tmp_path: Path, owner_log: list[logging.LogRecord]
) -> None:
    forge(tmp_path / "t.parquet", [Page(whole(10), 10**9)], rows=10)
    with pytest.raises(DataError) as caught:
        opened(clinic_schema(attributes=ONE, source=f"parquet:{tmp_path}/t.parquet"))
    assert str(caught.value) == str(DataError())
    assert "more or fewer values" in str(owner_log[0].exc_info)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"name,age\n1,2\n", b"PAR1" + b"x" * 100])
def test_what_is_no_parquet_is_a_schema_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(SchemaError, match="not a Parquet file"):
        opened(clinic_schema(attributes=ONE, source=f"parquet:{tmp_path}/t.parquet"))


def test_a_bomb_is_refused_without_memory(tmp_path: Path) -> None:
    """Three bombs in a process that may grow by 256 MiB: nothing is unpacked; long texts are cut off later."""
    forge(tmp_path / "page.parquet", [Page(b"\0" * 2**28, 2**25)], rows=2**25)
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, "i4")), pa.array(["x" * 4_000_000]))
    pq.write_table(pa.table({"age": long}), tmp_path / "dictionary.parquet", compression="zstd")
    prefix = Page(b"y" * 2**25, 10_000, encoding=DELTA_BYTE_ARRAY)
    forge(tmp_path / "prefix.parquet", [prefix], rows=10_000, physical=BYTE_ARRAY)
    assert all(path.stat().st_size < 2**16 for path in tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", _BOMBS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused", "read", "refused"], done.stderr


_BOMBS = """
import resource, sys, duckdb, pyarrow
from pathlib import Path
from siloquent.data.sources.files import find_source_file
from siloquent.data.sources.parquet import FROM_OUTSIDE, UnsafeFile, check_parquet
connection = duckdb.connect(config={"threads": 1})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
for name in ("page", "dictionary", "prefix"):
    try:
        file = find_source_file(f"{name}.parquet", Path(sys.argv[1]), table="t")
        check_parquet(connection, file, FROM_OUTSIDE, ["age"], table="t")
        sys.stdout.write("read ")
    except UnsafeFile:
        sys.stdout.write("refused ")
"""


@pytest.mark.parametrize(
    "data", [b"", b"\x15", b"\x1c" * 20, b"\x18\xff\xff\xff\x7f", b"\x19\xfc\xff\xff\x03", b"\x15" + b"\xff" * 12]
)
def test_a_thrift_reader_never_believes_a_length(data: bytes) -> None:
    with pytest.raises(Malformed):
        CompactReader(data).read_struct()


def test_a_thrift_reader_reads_what_was_written() -> None:
    reader = CompactReader(struct((1, -3), (4, b"abc"), (20, 2**40)) + b"rest")
    assert reader.read_struct() == {1: -3, 4: b"abc", 20: 2**40}
    assert reader.data[reader.at :] == b"rest"


def test_a_footer_over_which_pyarrow_ends_the_process_is_read_or_refused(tmp_path: Path) -> None:
    """A histogram of a wrong length in the statistics is an exception in C++ that nobody catches there."""
    path = tmp_path / "visits.parquet"
    pq.write_table(visits(50), path)
    footer = footer_of(path.read_bytes())
    for _, chunk in footer[4][0][1].value:
        histogram = chunk[3][16][3]
        histogram.value.append(histogram.value[0])
    path.write_bytes(with_footer(path.read_bytes(), footer))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import pyarrow.parquet as p; p.ParquetFile({str(path)!r}).metadata.row_group(0).column(0)",
        ],
        check=False,
        capture_output=True,
    )
    assert done.returncode != 0
    table, permit = opened(clinic_schema(source=f"parquet:{path}"))
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [50]


def test_a_declared_column_of_lists_is_refused_with_its_name(tmp_path: Path) -> None:
    """Nobody checks how long lists are, so not even an id, which may be of any type, is one."""
    rows = visits(20)
    lists = pa.array([[1, 2]] * 20)
    pq.write_table(rows.set_column(0, "patient", lists), tmp_path / "visits.parquet")
    with pytest.raises(SchemaError, match="'patient' of the Parquet file of 'visits' holds lists"):
        opened(clinic_schema(source=f"parquet:{tmp_path}/visits.parquet"))
    pq.write_table(rows.append_column("more", lists), tmp_path / "visits.parquet")
    table, permit = opened(clinic_schema(source=f"parquet:{tmp_path}/visits.parquet"))
    assert table.count_by_cell([Block((), ())], permit)[0].tolist() == [20]


def test_a_row_group_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": [1, 2], "other": [3, 4]}), path)
    footer = footer_of(path.read_bytes())
    del footer[4][0][1].value[1]
    path.write_bytes(with_footer(path.read_bytes(), footer))
    with pytest.raises((UnsafeFile, duckdb.Error), match="columns"):
        checked(path)


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("lie", [(7, 10**6), (7, -1), (9, 10**6), (9, 2), (10, -7)])
def test_a_chunk_beyond_the_file_is_refused_also_in_a_column_that_nobody_asks_for(
    tmp_path: Path, column: int, lie: tuple[int, int]
) -> None:
    """DuckDB fetches neighbouring columns in one go, so a lie in one of them failed only once a charge stood."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"age": [1, 2], "other": [3, 4]}), path, use_dictionary=False)
    footer = footer_of(path.read_bytes())
    chunk = footer[4][0][1][column][3]
    number, value = lie
    chunk.value = sorted(
        [(n, v) for n, v in chunk.value if n != number] + [(number, Node(6, value))], key=lambda field: field[0]
    )
    path.write_bytes(with_footer(path.read_bytes(), footer))
    assert "lies where it cannot" in refusal(path)


def test_a_file_from_outside_tells_its_columns_and_those_with_lists_do_not_matter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [1, 2], "many": [[1], [2]]}), tmp_path / "t.parquet")
    assert read_parquet_header(tmp_path / "t.parquet") == ["age", "many"]
    (tmp_path / "no.parquet").write_bytes(b"age\n1\n2\n3\n")
    with pytest.raises(SchemaError, match="not a Parquet file"):
        read_parquet_header(tmp_path / "no.parquet")


@pytest.mark.parametrize(("length", "rows"), [(60_000, 20_000), (1_000, 1_200_000)])
def test_a_text_that_fills_gigabytes_by_being_pointed_at_is_refused_from_outside(
    tmp_path: Path, length: int, rows: int
) -> None:
    pointed = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["A" * length]))
    pq.write_table(pa.table({"ward": pointed}), tmp_path / "t.parquet")
    with pytest.raises(DataError):
        read_parquet_header(tmp_path / "t.parquet")


def test_many_short_texts_in_a_large_dictionary_are_taken_from_outside(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    notes = pa.array([f"note {number:08d}" for number in rng.integers(0, 10**8, 100_000).tolist()])
    pq.write_table(pa.table({"note": notes}), tmp_path / "t.parquet", dictionary_pagesize_limit=2**24)
    assert read_parquet_header(tmp_path / "t.parquet") == ["note"]
