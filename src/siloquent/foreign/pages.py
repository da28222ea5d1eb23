"""Page headers of a Parquet file: the unpacked size of each page, and the number of its values.

A footer is only a claim; a reader allocates what page headers declare. So all of them are walked, and only large
dictionaries are unpacked. DuckDB reads the footer, as it later reads the rows: two readers could interpret it
differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from siloquent.foreign.thrift import CompactReader, Struct

if TYPE_CHECKING:
    import duckdb

MAGIC = b"PAR1"
MAX_HEADER = 2**16
MAX_WIDTH = 2**24
_MAX_INDEXES = 16
_DATA, _INDEX, DICTIONARY, _DATA_V2 = range(4)


class UnsafeFile(ValueError):
    """The file would need more memory or time than it may; the text goes to the owner's log only."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of values: the table's column that it is, or is a part of."""

    column: str
    is_repeated: bool


def read_leaves(connection: duckdb.DuckDBPyConnection, path: str) -> list[Leaf]:
    """Return the footer's columns of values, in its order."""
    described = connection.execute(
        "SELECT name, repetition_type, num_children FROM parquet_schema(?)", [path]
    ).fetchall()
    leaves: list[Leaf] = []
    within: list[tuple[Leaf, int]] = []  # the open groups, and the number of their parts still to come
    for name, repetition, children in described[1:]:
        outer = within[-1][0] if within else Leaf(str(name), False)
        found = Leaf(outer.column, outer.is_repeated or repetition == "REPEATED")
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
class Chunk:
    """The footer's claims about one column in one row group."""

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
        """The offset of its first page. An offset inside the magic bytes means that there is no dictionary."""
        return self.data_at if self.dictionary_at is None or self.dictionary_at < len(MAGIC) else self.dictionary_at

    def is_within(self, size: int) -> bool:
        """Return whether it fits into a file of ``size`` bytes: DuckDB may prefetch it even if it is not selected."""
        if not self.rows:
            return True
        index_at = self.at if self.index_at is None else self.index_at
        return len(MAGIC) <= min(self.at, index_at) <= self.data_at <= self.at + self.packed <= size


def read_chunks(connection: duckdb.DuckDBPyConnection, path: str) -> Iterator[Chunk]:
    rows = connection.execute(
        "SELECT row_group_id, row_group_num_rows, column_id, num_values, type, compression, dictionary_page_offset, "
        "index_page_offset, data_page_offset, total_compressed_size, total_uncompressed_size "
        "FROM parquet_metadata(?)",
        [path],
    )
    for row in rows.fetchall():
        yield Chunk(*row)


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of a page header, and the offset of the page's bytes."""

    kind: int
    values: int
    encoding: int
    packed: int
    unpacked: int
    at: int


def walk_pages(opened: BinaryIO, chunk: Chunk) -> Iterator[Page]:
    """Iterate over the pages of a column chunk until all of its rows were seen."""
    if not chunk.rows:
        return
    at, end = chunk.at, chunk.at + chunk.packed
    seen = indexes = 0
    while seen < chunk.rows:
        if at >= end:
            raise UnsafeFile("pages hold more or fewer values than the footer says")
        page = _read_page(opened, at)
        if page.at + page.packed > end or page.packed < 0 or page.values < 0:
            raise UnsafeFile("a page extends beyond its column chunk")
        at = page.at + page.packed
        indexes += page.kind == _INDEX
        if indexes > _MAX_INDEXES:
            raise UnsafeFile("more index pages than a column chunk has")
        if page.kind != _INDEX:
            seen += page.values if page.kind != DICTIONARY else 0
            yield page


def _read_page(opened: BinaryIO, at: int) -> Page:
    opened.seek(at)
    reader = CompactReader(opened.read(MAX_HEADER))
    header = reader.read_struct()
    kind = _get_int(header, 1)
    detail = header.get({_DATA: 5, _INDEX: 6, DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0))
    if not isinstance(detail, dict):
        raise UnsafeFile("a page of no known kind")
    values = 0 if kind == _INDEX else _get_int(detail, 1)
    encoding = _get_int(detail, 4 if kind == _DATA_V2 else 2) if kind != _INDEX else 0
    return Page(kind, values, encoding, _get_int(header, 3), _get_int(header, 2), at + reader.at)


def _get_int(fields: Struct, number: int) -> int:
    value = fields.get(number)
    if not isinstance(value, int):
        raise UnsafeFile("a page header lacks a number")
    return value


def read_lengths(opened: BinaryIO, page: Page, chunk: Chunk) -> Iterator[int]:
    """Iterate over the length of each text of a dictionary; nothing else is unpacked."""
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


def compute_max_bytes(path: str, chunk: Chunk) -> int:
    """Return the most bytes that the values of a column chunk can take, each written out."""
    filled, width = 0, 8
    with open(path, "rb") as opened:
        for page in walk_pages(opened, chunk):
            if page.kind != DICTIONARY:
                filled += max(page.unpacked, page.values * width)
            elif chunk.kind == "BYTE_ARRAY":
                width = max(8, page.unpacked)
                if width * chunk.rows > MAX_WIDTH:  # too much even as an upper bound, so lengths are read
                    width = max(read_lengths(opened, page, chunk), default=0)
    return filled
