"""Validation of an untrusted Parquet file before a row is read: footer, page headers, total size of its values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.foreign.documents import DocumentTooLarge
from siloquent.foreign.pages import (
    DICTIONARY,
    MAGIC,
    Chunk,
    UnsafeFile,
    compute_max_bytes,
    read_chunks,
    read_leaves,
    walk_pages,
)
from siloquent.foreign.thrift import CompactReader, Malformed

if TYPE_CHECKING:
    import duckdb

MAX_FOOTER = 2**20
MAX_LISTED = 100_000
"""The most entries of all lists of a footer: a reader allocates some hundred bytes for each, whatever it holds."""
MAX_COLUMNS = 4_096
MAX_PAGE = 2**25
MAX_PAGES = 20_000
MAX_DICTIONARIES = 2**23
_DELTA_BYTE_ARRAY = 7


def check_foreign(
    connection: duckdb.DuckDBPyConnection, path: Path, room: int, columns: Sequence[str] | None = None
) -> list[str]:
    """Return the names of a file's columns, after checking that its values of ``columns`` fill at most ``room`` bytes.

    Closes ``connection``'s access to all other files.

    Raises:
        ValueError: Not Parquet, or it holds lists. DocumentTooLarge: It claims too much, or more than it holds.
    """
    straight = path.resolve(strict=True)
    _require_footer(straight)
    if any(sign in str(straight) for sign in "*?[]{}"):
        raise ValueError("a file whose name is a pattern: rename it")
    name = str(straight)
    quoted = "'" + name.replace("'", "''") + "'"
    connection.execute(f"SET allowed_paths = [{quoted}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    leaves = read_leaves(connection, name)
    if len(leaves) > MAX_COLUMNS:
        raise DocumentTooLarge(f"more than {MAX_COLUMNS:,} columns")
    names = list(dict.fromkeys(leaf.column for leaf in leaves))
    if len(names) != len(leaves) or any(leaf.is_repeated for leaf in leaves):
        raise ValueError("a file with lists or structures; expected one value a row and column")
    chunks = list(read_chunks(connection, name))
    _require_sums(connection, name, straight.stat().st_size, len(leaves), chunks)
    read = [chunk for chunk in chunks if columns is None or leaves[chunk.leaf].column in columns]
    try:
        _require_pages(name, read, room)
    except (UnsafeFile, Malformed) as wrong:
        raise DocumentTooLarge(str(wrong)) from None
    return names


def _require_footer(path: Path) -> None:
    """Check a footer without trusting its counts, before any other reader allocates memory for them."""
    with path.open("rb") as file:
        first, size = file.read(4), file.seek(0, 2)
        file.seek(max(size - 8, 0))
        last = file.read(8)
        length = int.from_bytes(last[:4], "little")
        if first != MAGIC or last[4:] != MAGIC or length + 12 > size:
            raise ValueError("it is not a Parquet file")
        if length > max(MAX_FOOTER, size // 64):
            raise DocumentTooLarge("a footer larger than a file of this size can need")
        file.seek(size - 8 - length)
        try:
            CompactReader(file.read(length), most_listed=MAX_LISTED).read_struct()
        except Malformed as wrong:
            raise DocumentTooLarge(f"a footer that cannot be: {wrong}") from None


def _require_sums(
    connection: duckdb.DuckDBPyConnection, name: str, size: int, leaves: int, chunks: Sequence[Chunk]
) -> None:
    """Check that row groups, rows and offsets add up, and that no two chunks share bytes."""
    said = connection.execute("SELECT num_rows, num_row_groups FROM parquet_file_metadata(?)", [name]).fetchall()
    rows, count = said[0]
    groups = {chunk.group: chunk.rows for chunk in chunks}
    if [(chunk.group, chunk.leaf) for chunk in chunks] != list(product(range(count), range(leaves))):
        raise DocumentTooLarge("a row group has more or fewer columns than the file")
    if min(groups.values(), default=0) < 0 or sum(groups.values()) != rows:
        raise DocumentTooLarge("row groups that do not add up to the rows")
    if not all(chunk.is_within(size) and chunk.packed >= 0 and chunk.unpacked >= 0 for chunk in chunks):
        raise DocumentTooLarge("a column chunk lies where it cannot")
    if sum(chunk.packed for chunk in chunks) > size:
        raise DocumentTooLarge("column chunks that overlap")


def _require_pages(name: str, chunks: Sequence[Chunk], room: int) -> None:
    """Check that every page has an ordinary size and matches the footer, and that all values fit into ``room``."""
    total = pages = dictionaries = 0
    with open(name, "rb") as opened:
        for chunk in chunks:
            values = unpacked = 0
            for page in walk_pages(opened, chunk):
                pages += 1
                unpacked += page.unpacked
                if not 0 <= page.unpacked <= MAX_PAGE or unpacked > chunk.unpacked:
                    raise DocumentTooLarge("a page is too large, or larger than the footer says")
                dictionaries += page.unpacked if page.kind == DICTIONARY else 0
                # Each text may repeat the beginning of the one before, so only the product bounds them.
                total += page.unpacked * page.values if page.encoding == _DELTA_BYTE_ARRAY else 0
                values += page.values if page.kind != DICTIONARY else 0
                # The reader's own cost of a page: a file of headers only would keep it busy very long.
                if pages > MAX_PAGES + room // 2**16 or dictionaries > MAX_DICTIONARIES + room // 4:
                    raise DocumentTooLarge("more pages than such a file has")
            if values != chunk.rows or chunk.values != chunk.rows:
                raise DocumentTooLarge("pages hold more or fewer values than the footer says")
            total += max(compute_max_bytes(name, chunk), 8 * chunk.rows)
            if total > room:
                raise DocumentTooLarge("a file whose values would take far more space than the file itself")
