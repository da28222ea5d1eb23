"""Parquet files: what they claim is checked before they are read, and page by page whether the claims hold.

A footer is a claim. A few hundred kilobytes can unpack to terabytes: pages that are larger than the footer says, texts
that share a prefix, a long text in a dictionary that every row points to. Page headers say the truth, since a reader
has to allocate what they say; so all of them are walked, and nothing is unpacked. Long texts are cut off row by row
where they are read: how long one is must not decide whether others count. The footer is read by DuckDB, which reads the
rows afterwards: two readers would differ on what it says, and pyarrow's ends the whole process over some wrong ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sqlglot import exp

from siloquent.data.engines.base import SOURCE, Limits
from siloquent.data.sources.files import SourceFile, source_file
from siloquent.data.sources.thrift import CompactReader, Struct
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

MAGIC = b"PAR1"
MOST_FOOTER = 2**26
MOST_HEADER = 2**16
MOST_UNPACKED = 2**30
MOST_RATIO = 1_000
"""A file that says it unpacks to more than ``MOST_UNPACKED`` bytes has at least a thousandth of that itself."""
MOST_WIDE = 2**24
_DATA, _INDEX, _DICTIONARY, _DATA_V2 = range(4)
_DELTA_BYTE_ARRAY = 7


class Suspicious(ValueError):
    """The file would need more memory or time than it may; the text goes to the owner's log only."""


def attach_parquet(
    connection: duckdb.DuckDBPyConnection,
    file: SourceFile,
    limits: Limits,
    columns: Iterable[str],
    *,
    table: str,
    listed: Iterable[str] = (),
) -> None:
    """Make ``SOURCE`` the rows of a Parquet file.

    A text of more than ``limits.value_bytes`` is cut off where it is read, before anything copies it: a dictionary may
    hold one long text that every row points to.

    Args:
        columns: The columns that will be read.
        listed: Those of them whose values are listed: there a text that is too long is one that is not listed, else it
            is NULL.
    Raises:
        SchemaError: It is not Parquet.
        Suspicious: It claims too much, or more or less than it holds.
    """
    check_parquet(connection, file, limits, columns, table=table)
    path = exp.Literal.string(file.path).sql("duckdb")
    rows = f"read_parquet({path}, hive_partitioning = false)"
    wanted, unlisted = {name.casefold() for name in columns}, {name.casefold() for name in listed}
    described = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    short = [
        f"{_bounded_text(exp.column(exp.to_identifier(name, quoted=True)), limits, name.casefold() in unlisted)} "
        f"AS {exp.to_identifier(name, quoted=True).sql('duckdb')}"
        for name, kind, *_ in described
        if kind == "VARCHAR" and name.casefold() in wanted
    ]
    replaced = f" REPLACE ({', '.join(short)})" if short else ""
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT *{replaced} FROM {rows}")


def _bounded_text(text: exp.Column, limits: Limits, is_listed: bool) -> str:
    """``text`` in DuckDB's SQL; where it is too long, NULL or, ``is_listed``, a text that no list can hold."""
    column, most = text.sql("duckdb"), limits.value_bytes
    other = f"repeat('?', {most + 1})" if is_listed else "NULL"
    return f"CASE WHEN strlen({column}) > {most} THEN {other} ELSE {column} END"


def check_parquet(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, limits: Limits, columns: Iterable[str], *, table: str
) -> None:
    """Refuse a file that would unpack to more than its size and ``limits`` allow; costs no memory to speak of.

    Raises:
        SchemaError: It is not Parquet, or one of ``columns`` holds lists. Suspicious: as the class says.
    """
    wanted = {column.casefold() for column in columns}
    with open(file.path, "rb") as opened:
        size = _require_parquet(opened, table)
        leaves = _leaves(connection, file)
        chunks = list(_chunks(connection, file))
        _check_footer(connection, file, size, limits, len(leaves), chunks, len(wanted))
        read = {i: leaf for i, leaf in enumerate(leaves) if leaf.column.casefold() in wanted}
        lists = next((leaf.column for leaf in read.values() if leaf.is_repeated), None)
        if lists is not None:
            raise SchemaError(
                f"The column {lists!r} of the Parquet file of {table!r} holds lists; expected one value a row.",
                fix="write the file with one value a row, or leave the attribute out",
            )
        for chunk in chunks:
            if chunk.leaf in read:
                _check_chunk(opened, chunk, limits)


def _require_parquet(opened: BinaryIO, table: str) -> int:
    """The size of the file, if it begins and ends like Parquet."""
    first = opened.read(4)
    size = opened.seek(0, 2)
    opened.seek(max(size - 8, 0))
    last = opened.read(8)
    if first != MAGIC or last[4:] != MAGIC:
        raise SchemaError(f"The source of {table!r} is not a Parquet file.", fix="check the file, or its kind")
    if int.from_bytes(last[:4], "little") > min(MOST_FOOTER, size):
        raise Suspicious("the footer is larger than the file, or than any footer")
    return size


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One column of values: the column of the table that it is, or is a part of."""

    column: str
    is_repeated: bool


def _leaves(connection: duckdb.DuckDBPyConnection, file: SourceFile) -> list[_Leaf]:
    """The footer's columns of values, in its order."""
    path = exp.Literal.string(file.path).sql("duckdb")
    described = connection.execute(f"SELECT name, repetition_type, num_children FROM parquet_schema({path})").fetchall()
    leaves: list[_Leaf] = []
    within: list[tuple[_Leaf, int]] = []  # the groups that are open, and how many of their parts are still to come
    for name, repetition, children in described[1:]:
        outer = within[-1][0] if within else _Leaf(str(name), False)
        found = _Leaf(outer.column, outer.is_repeated or repetition == "REPEATED")
        if children:
            within.append((found, int(children)))
            continue
        leaves.append(found)
        while within:
            group, left = within.pop()
            if left > 1:
                within.append((group, left - 1))
                break
    return leaves


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What the footer says of the values of one column in one row group."""

    group: int
    rows: int
    leaf: int
    values: int
    kind: str
    compression: str
    dictionary_at: int | None
    index_at: int | None
    data_at: int
    packed: int
    unpacked: int

    @property
    def at(self) -> int:
        """Where its first page is. Some writers say 0 for no dictionary; DuckDB takes all before a page for that."""
        return self.data_at if self.dictionary_at is None or self.dictionary_at < len(MAGIC) else self.dictionary_at

    def lies_within(self, size: int) -> bool:
        """Whether all of it can be in a file of ``size`` bytes: DuckDB fetches it with others, also if nobody asks."""
        if not self.rows:
            return True
        index_at = self.at if self.index_at is None else self.index_at
        return len(MAGIC) <= min(self.at, index_at) <= self.data_at <= self.at + self.packed <= size


def _chunks(connection: duckdb.DuckDBPyConnection, file: SourceFile) -> Iterator[_Chunk]:
    path = exp.Literal.string(file.path).sql("duckdb")
    rows = connection.execute(
        "SELECT row_group_id, row_group_num_rows, column_id, num_values, type, compression, dictionary_page_offset, "
        "index_page_offset, data_page_offset, total_compressed_size, total_uncompressed_size "
        f"FROM parquet_metadata({path})"
    )
    for row in rows.fetchall():
        yield _Chunk(*row)


def _check_footer(
    connection: duckdb.DuckDBPyConnection,
    file: SourceFile,
    size: int,
    limits: Limits,
    leaves: int,
    chunks: list[_Chunk],
    columns: int,
) -> None:
    path = exp.Literal.string(file.path).sql("duckdb")
    said = connection.execute(f"SELECT num_rows, num_row_groups FROM parquet_file_metadata({path})").fetchall()
    rows, count = said[0]
    groups = {chunk.group: chunk.rows for chunk in chunks}
    if leaves > limits.columns:
        raise Suspicious(f"more than {limits.columns} columns")
    if [(chunk.group, chunk.leaf) for chunk in chunks] != list(product(range(count), range(leaves))):
        raise Suspicious("a row group has more or fewer columns than the file")
    if not all(chunk.lies_within(size) for chunk in chunks):
        raise Suspicious("a column chunk lies where it cannot")
    if rows > limits.rows or min(groups.values(), default=0) < 0 or sum(groups.values()) != rows:
        raise Suspicious(f"more than {limits.rows} rows, or row groups that do not add up to the rows")
    unpacked = rows * columns * 8
    if unpacked > max(MOST_UNPACKED, size * MOST_RATIO):
        raise Suspicious(f"{size} bytes say that they unpack to {unpacked}")


@dataclass(frozen=True, slots=True)
class _Page:
    """What a page header says, and where the page's bytes are."""

    kind: int
    values: int
    encoding: int
    packed: int
    unpacked: int
    at: int


def _check_chunk(opened: BinaryIO, chunk: _Chunk, limits: Limits) -> None:
    values = unpacked = 0
    for page in _pages(opened, chunk):
        unpacked += page.unpacked
        if not 0 <= page.unpacked <= limits.page_bytes or unpacked > chunk.unpacked:
            raise Suspicious("a page is too large, or larger than the footer says")
        if page.kind != _DICTIONARY:
            values += page.values
            _check_data(page, limits)
    if values != chunk.rows or chunk.values != chunk.rows:
        raise Suspicious("pages hold more or fewer values than the footer says")


def _pages(opened: BinaryIO, chunk: _Chunk) -> Iterator[_Page]:
    """The pages of a column chunk, until all of its rows were seen."""
    if not chunk.rows:
        return
    at, end = chunk.at, chunk.at + chunk.packed
    seen = 0
    while seen < chunk.rows:
        if at >= end:
            raise Suspicious("pages hold more or fewer values than the footer says")
        page = _page(opened, at)
        if page.at + page.packed > end or page.packed < 0 or page.values < 0:
            raise Suspicious("a page goes on beyond its column chunk")
        at = page.at + page.packed
        if page.kind != _INDEX:
            seen += page.values if page.kind != _DICTIONARY else 0
            yield page


def _page(opened: BinaryIO, at: int) -> _Page:
    opened.seek(at)
    reader = CompactReader(opened.read(MOST_HEADER))
    header = reader.struct()
    kind = _whole(header, 1)
    detail = header.get({_DATA: 5, _INDEX: 6, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0))
    if not isinstance(detail, dict):
        raise Suspicious("a page of no known kind")
    values = 0 if kind == _INDEX else _whole(detail, 1)
    encoding = _whole(detail, 4 if kind == _DATA_V2 else 2) if kind != _INDEX else 0
    return _Page(kind, values, encoding, _whole(header, 3), _whole(header, 2), at + reader.at)


def _whole(fields: Struct, number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int):
        raise Suspicious("a page header lacks a number")
    return value


def _check_data(page: _Page, limits: Limits) -> None:
    # Each value may repeat the beginning of the one before, so the header bounds nothing but the product.
    if page.encoding == _DELTA_BYTE_ARRAY and page.unpacked * page.values > 2 * limits.page_bytes:
        raise Suspicious("texts share prefixes (DELTA_BYTE_ARRAY), so their size cannot be known: use another encoding")


def _lengths(opened: BinaryIO, page: _Page, chunk: _Chunk) -> Iterator[int]:
    """How long each text of a dictionary is; nothing else is unpacked anywhere."""
    import pyarrow as pa

    opened.seek(page.at)
    data = opened.read(page.packed)
    if chunk.compression != "UNCOMPRESSED":
        data = pa.Codec(chunk.compression.lower()).decompress(data, decompressed_size=page.unpacked, asbytes=True)
    at = 0
    while at + 4 <= len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        yield length
        at += 4 + length


def parquet_header(path: Path) -> list[str]:
    """The columns' names of a file that came from outside, once all of it was looked at: no row is unpacked.

    Raises:
        SchemaError: It is not Parquet.
        DataError: It claims what it does not hold, or its values would fill far more memory than it weighs.
    """
    from siloquent.data.engines.duckdb import DuckDBEngine

    straight = path.resolve()
    file = source_file(straight.name, straight.parent, table=path.stem)
    limits, file_name = Limits(memory_bytes=2**27, threads=1), path.stem

    def attach(connection: duckdb.DuckDBPyConnection) -> None:
        with open(file.path, "rb") as opened:
            _require_parquet(opened, file_name)
        leaves = _leaves(connection, file)
        lists = {leaf.column for leaf in leaves if leaf.is_repeated}
        attach_parquet(connection, file, limits, {one.column for one in leaves} - lists, table=file_name)
        values = sum(_filled(file, chunk) for chunk in _chunks(connection, file) if not leaves[chunk.leaf].is_repeated)
        if values > max(MOST_UNPACKED, file.size * MOST_RATIO):
            raise Suspicious(f"{file.size} bytes hold values of up to {values}")

    engine = DuckDBEngine(attach, files=[file.path], limits=limits, unchanged=file.unchanged)
    try:
        return list(engine.schema())
    finally:
        engine.close()


def _filled(file: SourceFile, chunk: _Chunk) -> int:
    """The most bytes that the values of a column chunk can take, each written out."""
    filled, width = 0, 8
    with open(file.path, "rb") as opened:
        for page in _pages(opened, chunk):
            if page.kind != _DICTIONARY:
                filled += max(page.unpacked, page.values * width)
            elif chunk.kind == "BYTE_ARRAY":
                width = max(8, page.unpacked)
                if width * chunk.rows > MOST_WIDE:  # as if each row held all of it: too much, so it is looked at
                    width = max(_lengths(opened, page, chunk), default=0)
    return filled
