"""Untrusted tables: Parquet and CSV files whose unpacked size is known, and bounded, before a row is read.

The claims of footers and page headers are compared with the contents; the values of dictionaries count as often as rows
point to them. Rows are then read by the reader that read the footer, under a memory limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.foreign.documents import DocumentTooLarge
from siloquent.foreign.parquet import check_foreign

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILE = 2**31
MAX_COLUMNS = 4_096
MAX_FREE = 2**26
"""The size to which any file may unpack, however small the file."""
MAX_GROWTH = 16
"""The ratio to its own size by which a larger file may unpack."""
MAX_HEADER = 2**20
BATCH_ROWS = 50_000


def read_table(path: Path, *, columns: Sequence[str] | None = None, most: int = MAX_FILE) -> pa.Table:
    """Read a Parquet or CSV file, by the ending of its name.

    Args:
        columns: The columns that are read; None: all of them.
        most: The most bytes of the file.
    Raises:
        OSError: It cannot be read. ValueError: Not such a file. DocumentTooLarge: It would unpack to too many bytes.
    """
    if path.stat().st_size > most:
        raise DocumentTooLarge(f"a file of more than {most} bytes")
    return read_parquet(path, columns) if path.suffix in (".parquet", ".pq") else _read_csv(path)


def read_parquet_names(path: Path) -> list[str]:
    """Return the columns' names of a Parquet file.

    Raises:
        As ``read_table``.
    """
    import duckdb

    try:
        with duckdb.connect(":memory:", config=_build_settings(path)) as connection:
            return check_foreign(connection, path, _compute_memory_limit(path))
    except duckdb.Error:
        raise ValueError("it is not a Parquet file that can be read") from None


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a Parquet file, batch by batch.

    Raises:
        As ``read_table``.
    """
    import duckdb
    import pyarrow as pa

    try:
        with duckdb.connect(":memory:", config=_build_settings(path)) as connection:
            names = check_foreign(connection, path, _compute_memory_limit(path), columns)
            wanted = [name for name in names if columns is None or name in columns]
            if not wanted:
                return pa.table({})
            chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in wanted)
            file = "'" + str(path.resolve()).replace("'", "''") + "'"
            query = f"SELECT {chosen} FROM read_parquet({file}, hive_partitioning = false)"
            reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
            batches, held = [], 0
            for batch in reader:
                batches.append(batch)
                held += batch.nbytes
                if held > 4 * _compute_memory_limit(path):
                    raise DocumentTooLarge("a file whose rows take far more memory than the file itself")
            return pa.Table.from_batches(batches, reader.schema)
    except (duckdb.Error, pa.ArrowException):
        raise ValueError("it is not a Parquet file that can be read") from None
    except OSError as failed:  # the engine's out-of-memory error while rows are being read
        if failed.errno is None:
            raise DocumentTooLarge("a file whose rows take more memory than it may") from None
        raise


def read_csv_names(path: Path) -> list[str]:
    """Return the columns' names of a CSV file.

    Raises:
        As ``read_table``.
    """
    import pyarrow as pa
    import pyarrow.csv

    _check_header(path)
    try:
        # The names are valid whatever the lines below them hold: those are checked when they are read.
        parsing = pyarrow.csv.ParseOptions(invalid_row_handler=_noted([]))
        with pyarrow.csv.open_csv(path, parse_options=parsing) as reader:
            return list(reader.schema.names)
    except pa.ArrowException as wrong:
        raise ValueError(str(wrong)) from None


def read_texts(path: Path, *, left_out: list[int] | None = None) -> pa.Table:
    """Return a CSV file whose columns are all text; an empty cell is NULL.

    Args:
        left_out: A list that gets an entry for each line skipped for its number of columns; None: such lines are
            refused.
    Raises:
        As ``read_table``.
    """
    import pyarrow as pa
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() for name in read_csv_names(path)}, strings_can_be_null=True, null_values=[""]
    )
    return _read_csv(path, options, left_out)


def _read_csv(path: Path, options: object = None, left_out: list[int] | None = None) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    _check_header(path)
    try:
        parsing = None if left_out is None else pyarrow.csv.ParseOptions(invalid_row_handler=_noted(left_out))
        return pyarrow.csv.read_csv(path, parse_options=parsing, convert_options=options)
    except pa.ArrowException as wrong:
        raise ValueError(str(wrong)) from None


def _noted(left_out: list[int]) -> Callable[[Any], str]:
    def skip(line: Any) -> str:
        left_out.append(line.actual_columns)
        return "skip"

    return skip


def _check_header(path: Path) -> None:
    """Refuse a first line of more columns than a table may have, since each would have its own buffers."""
    with path.open("rb") as file:
        line = file.readline(MAX_HEADER + 1)
    if len(line) > MAX_HEADER or line.count(b",") >= MAX_COLUMNS:
        raise DocumentTooLarge(f"a first line of more than {MAX_COLUMNS:,} columns")


def _compute_memory_limit(path: Path) -> int:
    return max(MAX_FREE, path.stat().st_size * MAX_GROWTH)


def _build_settings(path: Path) -> dict[str, str]:
    room = 2**27 + _compute_memory_limit(path) // 2
    return {
        "threads": "1",
        "memory_limit": f"{room}B",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
        "python_enable_replacements": "false",
    }
