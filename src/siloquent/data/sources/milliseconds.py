"""Millisecond columns of a Parquet file, read as stored: DuckDB fails for all rows if one value is too large.

DuckDB supports only a three hundredth of the range of TIMESTAMP_MILLIS, and its reader has no option for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from siloquent.data.sources.moments import bound_moments
from siloquent.foreign.pages import Chunk, UnsafeFile, read_chunks

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 2**16


def list_millisecond_columns(connection: duckdb.DuckDBPyConnection, path: str) -> set[str]:
    """Return the names of the file's columns of times in milliseconds."""
    found = connection.execute(
        "SELECT name FROM parquet_schema(?) WHERE type = 'INT64' AND (converted_type = 'TIMESTAMP_MILLIS' OR "
        "(logical_type LIKE 'Timestamp%' AND logical_type NOT LIKE '%MILLIS=<null>%'))",
        [path],
    )
    return {str(name) for (name,) in found.fetchall()}


def list_chunks(connection: duckdb.DuckDBPyConnection, path: str) -> list[Chunk]:
    """Return the column chunks of an owner's own file: DuckDB fails on statistics of a time beyond its range."""
    import duckdb
    import pyarrow.parquet as pq

    try:
        return list(read_chunks(connection, path))
    except duckdb.ConversionException:
        footer = pq.read_metadata(path)
    found = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for leaf in range(group.num_columns):
            one = group.column(leaf)
            at = one.dictionary_page_offset if one.has_dictionary_page else None
            claims = (one.data_page_offset, one.total_compressed_size, one.total_uncompressed_size)
            about = (number, group.num_rows, leaf, one.num_values, one.physical_type, one.compression)
            found.append(Chunk(*about, at, None, *claims))
    return found


class Milliseconds:
    """The rows of such columns of files with the same columns, newly read each time, every time within years 1 to 9999.

    Args:
        columns: Their names in the file and in the result.
        ids: Those that are only compared for equality: whole numbers.
    Raises:
        Suspicious: Arrow finds other columns in the file than DuckDB.
    """

    def __init__(self, paths: Sequence[str], columns: Mapping[str, str], ids: set[str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._paths, self._columns, self._ids = list(paths), dict(columns), ids
        schemas = [pq.read_schema(path) for path in paths]
        found = schemas[0]
        for name in columns:
            same = all(one.names.count(name) == 1 and one.field(name).type == found.field(name).type for one in schemas)
            if not same or not pa.types.is_timestamp(found.field(name).type):
                raise UnsafeFile("two readers find other columns")
        self.schema = pa.schema(
            [
                pa.field(called, pa.int64() if name in ids else found.field(name).type)
                for name, called in self._columns.items()
            ]
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the current rows."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for path in self._paths:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(self._columns), use_threads=False):
                    read = [
                        bound_moments(pa.chunked_array([batch.column(name)]), is_id=name in self._ids)
                        for name in self._columns
                    ]
                    yield from pa.table(read, self.schema).to_batches()
