"""Parquet files: their claims are checked before they are read, and verified page by page.

A footer is a claim. A few hundred kilobytes can unpack to terabytes: pages larger than the footer says, texts that
share a prefix, a long text in a dictionary that every row points to. Page headers are reliable, since a reader has to
allocate the sizes in them; so all of them are walked, and nothing is unpacked. Long texts are truncated row by row as
they are read: the length of one must not decide whether others count. For the same reason, the size of a page of texts
is limited only in files from outside. The footer is read by DuckDB, which reads the rows afterwards: two readers would
interpret it differently, and pyarrow crashes the process on some invalid ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sqlglot import exp

from siloquent.data.engines.base import SOURCE, ReadLimits
from siloquent.data.sources.files import SourceFile, find_source_file
from siloquent.data.sources.milliseconds import Milliseconds, list_chunks, list_millisecond_columns
from siloquent.errors import SchemaError
from siloquent.foreign.pages import (
    DICTIONARY,
    MAGIC,
    Chunk,
    Page,
    UnsafeFile,
    compute_max_bytes,
    read_chunks,
    read_leaves,
    walk_pages,
)

if TYPE_CHECKING:
    import duckdb

    from siloquent.data.engines.duckdb import Streamable

MOMENTS = "moments"
"""The relation of times in milliseconds."""
MAX_FOOTER = 2**26
MAX_UNPACKED = 2**30
MAX_RATIO = 1_000
"""The most bytes per byte of a file from outside that claims to unpack to more than ``MAX_UNPACKED`` bytes."""
FROM_OUTSIDE = ReadLimits(rows=2**31, text_bytes=2**26, shared_bytes=2**27, memory_bytes=2**27, threads=1)
_DELTA_BYTE_ARRAY = 7


def attach_parquet(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[SourceFile],
    limits: ReadLimits,
    columns: Iterable[str],
    *,
    table: str,
    kinds: Mapping[str, str] | None = None,
) -> dict[str, Streamable]:
    """Make ``SOURCE`` the rows of Parquet files with the same columns; return the further relations that it reads.

    A text that is not UTF-8 is NULL, as in other sources; refusing it would lose all rows.

    A text of more than ``limits.value_bytes`` is truncated as it is read, before anything copies it: a dictionary may
    hold one long text that every row points to.

    Args:
        columns: The columns that will be read.
        kinds: The kinds of their attributes. If values are listed, a text that is too long is not listed, otherwise it
            is NULL.
    Raises:
        SchemaError: one is not Parquet, or has other columns than the first.
        Suspicious: one claims too much, or more or less than it holds.
    """
    columns = list(columns)
    for file in files:
        check_parquet(connection, file, limits, columns, table=table)
    described = _describe_all(connection, files, table)
    place = _list_paths([file.path for file in files])
    rows = _build_select(place, "replace")
    folded = {name.casefold(): kind for name, kind in (kinds or dict.fromkeys(columns, "")).items()}
    texts = [name for name, kind in described.items() if kind == "VARCHAR" and name.casefold() in folded]
    beside = "?" * (1 + max((len(name) for name in described), default=0))  # not a prefix of any column's name
    shown: dict[str, str] = {}
    without: list[str] = []
    if texts:
        # Invalid bytes are replaced in one reading and left out in the other: only valid texts agree in both.
        most = limits.value_bytes
        cut, listed = [], []
        for i, name in enumerate(texts):
            quoted, other, is_long = (_quote_name(one) for one in (name, f"{beside}t{i}", f"{beside}u{i}"))
            without.append(f"{beside}t{i}")
            if folded[name.casefold()] == "category":
                # Long texts end before the readings are put side by side, which copies them: all rows may point to the
                # same one. A text that is too long is not listed, but it is not NULL.
                short = f"CASE WHEN strlen({quoted}) <= {most} THEN {quoted} END"
                cut.append(f"{short} AS {quoted}")
                listed += [f"{short} AS {other}", f"strlen({quoted}) > {most} AS {is_long}"]
                without.append(f"{beside}u{i}")
                valid = f"CASE WHEN {other} = {quoted} THEN {quoted} END"
                shown[name] = f"CASE WHEN {is_long} THEN repeat('?', {most + 1}) ELSE {valid} END"
            else:
                listed.append(f"{quoted} AS {other}")
                shown[name] = f"CASE WHEN strlen({quoted}) <= {most} AND {other} = {quoted} THEN {quoted} END"
        if cut:
            rows = f"(SELECT * REPLACE ({', '.join(cut)}) FROM {rows})"
        rows += f" POSITIONAL JOIN (SELECT {', '.join(listed)} FROM {_build_select(place, 'ignore')})"
    lent: dict[str, Streamable] = {}
    moments = _find_milliseconds(connection, files, table) if kinds else set()
    called = {name: f"{beside}{i}" for i, name in enumerate(described) if name in moments and name.casefold() in folded}
    if called:
        ids = {name for name in called if folded[name.casefold()] == "id"}
        lent[MOMENTS] = Milliseconds([file.path for file in files], called, ids)
        connection.register(MOMENTS, lent[MOMENTS])
        rows += f" POSITIONAL JOIN {MOMENTS}"
        shown |= {name: _quote_name(beside) for name, beside in called.items()}
        without += called.values()
    left_out = f" EXCLUDE ({', '.join(map(_quote_name, without))})" if without else ""
    replaced = (
        f" REPLACE ({', '.join(f'{text} AS {_quote_name(name)}' for name, text in shown.items())})" if shown else ""
    )
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT *{left_out}{replaced} FROM {rows}")
    return lent


def _describe_all(connection: duckdb.DuckDBPyConnection, files: Sequence[SourceFile], table: str) -> dict[str, str]:
    """Return the columns of the first file, with DuckDB's types; refuse files with others.

    Raises:
        SchemaError: a file has other columns, or columns of other types.
    """
    first: dict[str, str] | None = None
    for file in files:
        rows = _build_select(_list_paths([file.path]), "replace")
        found = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
        described = {str(name): str(kind) for name, kind, *_ in found}
        first = described if first is None else first
        if first != described:
            raise _build_difference(file, table)
    return first or {}


def _find_milliseconds(connection: duckdb.DuckDBPyConnection, files: Sequence[SourceFile], table: str) -> set[str]:
    found = [list_millisecond_columns(connection, file.path) for file in files]
    for file, columns in zip(files, found, strict=True):
        if columns != found[0]:
            raise _build_difference(file, table)
    return found[0]


def _build_difference(file: SourceFile, table: str) -> SchemaError:
    return SchemaError(
        f"The file {Path(file.path).name!r} of {table!r} has other columns or types than the first part.",
        fix="write all parts with the same columns, or name those that belong together: FOLDER/2024-*.parquet",
    )


def _list_paths(paths: Sequence[str]) -> str:
    """Return the paths as one SQL text or a list of them."""
    texts = [exp.Literal.string(path).sql("duckdb") for path in paths]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _build_select(place: str, wrong_bytes: str) -> str:
    """Return the rows of the files at ``place``, a SQL text; ``wrong_bytes`` says how invalid UTF-8 is treated."""
    return f"read_parquet({place}, hive_partitioning = false, utf8_validation = '{wrong_bytes}', can_have_nan = true)"


def _quote_name(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("duckdb")


def check_parquet(
    connection: duckdb.DuckDBPyConnection, file: SourceFile, limits: ReadLimits, columns: Iterable[str], *, table: str
) -> None:
    """Refuse a file that would unpack to more than its size and ``limits`` allow; needs almost no memory.

    Raises:
        SchemaError: it is not Parquet, or one of ``columns`` holds lists. Suspicious: as the class says.
    """
    wanted = {column.casefold() for column in columns}
    with open(file.path, "rb") as opened:
        size = _require_parquet(opened, table)
        leaves = read_leaves(connection, file.path)
        chunks = list_chunks(connection, file.path) if limits.rows is None else list(read_chunks(connection, file.path))
        _check_footer(connection, file, size, limits, len(leaves), chunks, len(wanted))
        read = {i: leaf for i, leaf in enumerate(leaves) if leaf.column.casefold() in wanted}
        lists = next((leaf.column for leaf in read.values() if leaf.is_repeated), None)
        if lists is not None:
            raise SchemaError(
                f"The column {lists!r} of the Parquet file of {table!r} holds lists; expected one value per row.",
                fix="write the file with one value per row, or remove the attribute",
            )
        for chunk in chunks:
            if chunk.leaf in read:
                _check_chunk(opened, chunk, limits)


def _require_parquet(opened: BinaryIO, table: str) -> int:
    """Return the size of the file, if it begins and ends like Parquet."""
    first = opened.read(4)
    size = opened.seek(0, 2)
    opened.seek(max(size - 8, 0))
    last = opened.read(8)
    if first != MAGIC or last[4:] != MAGIC:
        raise SchemaError(f"The source of {table!r} is not a Parquet file.", fix="check the file, or its kind")
    if int.from_bytes(last[:4], "little") > min(MAX_FOOTER, size):
        raise UnsafeFile("the footer is larger than the file, or than any footer")
    return size


def _check_footer(
    connection: duckdb.DuckDBPyConnection,
    file: SourceFile,
    size: int,
    limits: ReadLimits,
    leaves: int,
    chunks: list[Chunk],
    columns: int,
) -> None:
    path = exp.Literal.string(file.path).sql("duckdb")
    said = connection.execute(f"SELECT num_rows, num_row_groups FROM parquet_file_metadata({path})").fetchall()
    rows, count = said[0]
    groups = {chunk.group: chunk.rows for chunk in chunks}
    if leaves > limits.columns:
        raise UnsafeFile(f"more than {limits.columns} columns")
    if [(chunk.group, chunk.leaf) for chunk in chunks] != list(product(range(count), range(leaves))):
        raise UnsafeFile("a row group has more or fewer columns than the file")
    if not all(chunk.is_within(size) for chunk in chunks):
        raise UnsafeFile("a column chunk lies where it cannot")
    if min(groups.values(), default=0) < 0 or sum(groups.values()) != rows:
        raise UnsafeFile("row groups do not add up to the rows")
    if limits.rows is None:
        return
    if rows > limits.rows:
        raise UnsafeFile(f"more than {limits.rows} rows")
    unpacked = rows * columns * 8
    if unpacked > max(MAX_UNPACKED, size * MAX_RATIO):
        raise UnsafeFile(f"{size} bytes say that they unpack to {unpacked}")


def _check_chunk(opened: BinaryIO, chunk: Chunk, limits: ReadLimits) -> None:
    values = unpacked = 0
    most = limits.text_bytes if chunk.kind == "BYTE_ARRAY" else limits.page_bytes
    for page in walk_pages(opened, chunk):
        unpacked += page.unpacked
        if not 0 <= page.unpacked <= most or unpacked > chunk.unpacked:
            raise UnsafeFile("a page is too large, or larger than the footer says")
        if page.kind != DICTIONARY:
            values += page.values
            _check_data(page, limits)
    if values != chunk.rows or chunk.values != chunk.rows:
        raise UnsafeFile("pages hold more or fewer values than the footer says")


def _check_data(page: Page, limits: ReadLimits) -> None:
    # Each value may repeat the beginning of the previous one, so the header bounds only the product.
    most = limits.shared_bytes
    if most is not None and page.encoding == _DELTA_BYTE_ARRAY and page.unpacked * page.values > most:
        raise UnsafeFile("texts share prefixes (DELTA_BYTE_ARRAY), so their size cannot be known: use another encoding")


def read_parquet_header(path: Path) -> list[str]:
    """Return the column names of a file from outside, after checking all of it; no row is unpacked.

    Raises:
        SchemaError: it is not Parquet.
        DataError: its claims are false, or its values would fill far more memory than its size.
    """
    from siloquent.data.engines.duckdb import DuckDBEngine

    straight = path.resolve()
    file = find_source_file(straight.name, straight.parent, table=path.stem)
    limits, file_name = FROM_OUTSIDE, path.stem

    def attach(connection: duckdb.DuckDBPyConnection) -> None:
        with open(file.path, "rb") as opened:
            _require_parquet(opened, file_name)
        leaves = read_leaves(connection, file.path)
        lists = {leaf.column for leaf in leaves if leaf.is_repeated}
        attach_parquet(connection, [file], limits, {one.column for one in leaves} - lists, table=file_name)
        chunks = [chunk for chunk in read_chunks(connection, file.path) if not leaves[chunk.leaf].is_repeated]
        values = sum(compute_max_bytes(file.path, chunk) for chunk in chunks)
        if values > max(MAX_UNPACKED, file.size * MAX_RATIO):
            raise UnsafeFile(f"{file.size} bytes hold values of up to {values}")

    engine = DuckDBEngine(attach, files=[file.path], limits=limits, unchanged=file.is_unchanged)
    try:
        return list(engine.list_columns())
    finally:
        engine.close()
