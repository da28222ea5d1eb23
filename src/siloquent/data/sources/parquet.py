"""Parquet files: what they claim is checked before they are read, and page by page whether the claims hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from siloquent.data.engines.base import SOURCE, Limits
from siloquent.data.sources.files import SourceFile
from siloquent.errors import SchemaError

if TYPE_CHECKING:
    import duckdb

MAGIC = b"PAR1"


def attach_parquet(connection: duckdb.DuckDBPyConnection, file: SourceFile, limits: Limits, *, table: str) -> None:
    """Make ``SOURCE`` the rows of a Parquet file.

    Raises:
        SchemaError: It is not Parquet.
    """
    with open(file.path, "rb") as opened:
        first = opened.read(4)
        opened.seek(max(opened.seek(0, 2) - 4, 0))
        if first != MAGIC or opened.read(4) != MAGIC:
            raise SchemaError(f"The source of {table!r} is not a Parquet file.", fix="check the file, or its kind")
    path = exp.Literal.string(file.path).sql("duckdb")
    connection.execute(f"CREATE VIEW {SOURCE} AS SELECT * FROM read_parquet({path}, hive_partitioning = false)")
