"""Ten kinds of sources that hold any rows: each writes them anew, and says where a session finds them."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from benchmarks.hostile.kinds import PLAIN, Values
from benchmarks.hostile.workbooks import Book, Sheet
from benchmarks.replay.audit import LEDGER_ID
from siloquent.api import Session
from siloquent.explore.plan.cache import ByteLRU
from siloquent.explore.plan.reuse import earlier_answers
from siloquent.ledger import MemoryLedger
from siloquent.schema.build import parse_schema
from siloquent.schema.workspace import Workspace

TYPES = {name: pa.string() for name in PLAIN} | {
    "age": pa.float64(),
    "ill": pa.bool_(),
    "cost": pa.int64(),
    "day": pa.timestamp("us"),
    "code": pa.int32(),
}
Line = Values | bytes
"""A row, or a line of a CSV file as it stands."""
_EPOCH = datetime(1970, 1, 1)


class Source(ABC):
    """Where rows stand."""

    name: str
    address = ""
    postgres: tuple[tuple[str, str, str], ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def put(self, rows: Sequence[Line]) -> object:
        """Write these rows in place of all others; the frame, for sources that are frames."""

    @contextmanager
    def opened(self, declaration: str, rows: Sequence[Line]) -> Iterator[Session]:
        """A session over ``rows`` whose ledger has always the same name, so that the same rows of a user count."""
        frame = self.put(rows)
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            with patch("secrets.token_hex", lambda _=32: LEDGER_ID):
                ledger = MemoryLedger()
            # Answers are remembered by the ledger's name, and another run's are not this one's.
            stack.enter_context(patch.object(earlier_answers, "_memories", ByteLRU(64, lambda _: 1)))
            folder = Path(name).resolve()
            if self.address:
                (folder / "schemas").mkdir()
                address = f'[table]\nsource = "{self.address}"'
                (folder / "schemas" / "visits.toml").write_text(declaration.replace("[table]", address))
                if (kept := self.folder / "rows").exists():
                    os.link(kept, folder / "rows")
            with Session(Workspace(folder, postgres=self.postgres), ledger) as session:
                if not self.address:
                    session.add_frame(parse_schema(declaration), frame)
                yield session


class Csv(Source):
    """Text, one row a line; nothing but cells that need it are quoted."""

    name = "csv"
    address = "csv:rows"

    def put(self, rows: Sequence[Line]) -> object:
        """Write the file."""
        lines = [",".join(PLAIN).encode(), *(row if isinstance(row, bytes) else line(row) for row in rows)]
        self.write(b"\n".join(lines) + b"\n")
        return None

    def write(self, data: bytes) -> None:
        """Put the bytes into the file."""
        (self.folder / "rows").unlink(missing_ok=True)
        (self.folder / "rows").write_bytes(data)


class Gzipped(Csv):
    """The same, gzipped."""

    name = "csv.gz"

    def write(self, data: bytes) -> None:
        """Put the bytes into the file."""
        super().write(gzip.compress(data, 1))


def line(row: Values) -> bytes:
    """A row as a line of CSV; a line end within a cell is CR alone, since a row is a line."""
    if any(isinstance(value, bytes) for value in row.values()):
        return b",".join(cell(value).encode() if not isinstance(value, bytes) else value for value in row.values())
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow([cell(value) for value in row.values()])
    return file.getvalue().encode()


def cell(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value).replace("\n", "\r")


class Xlsx(Csv):
    """A sheet of numbers, booleans, days and texts, which every cell refers to."""

    name = "xlsx"
    address = "xlsx:rows"

    def put(self, rows: Sequence[Line]) -> object:
        """Write the file."""
        cells = [[_for_sheet(value) for value in row.values()] for row in rows if isinstance(row, dict)]
        self.write(Book([Sheet([list(PLAIN), *cells])]).write())
        return None


def _for_sheet(value: Any) -> Any:
    """A value that a sheet can hold: days from 1900 on, finite numbers, and texts."""
    if isinstance(value, datetime):
        return value if value.year > 1900 else str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return _plain(value)


class Arrow(Source):
    """A table in memory."""

    name = "arrow"

    def put(self, rows: Sequence[Line]) -> object:
        """The table."""
        return arrow(rows)


class Pandas(Source):
    """A frame whose types pandas infers from the values."""

    name = "pandas"

    def put(self, rows: Sequence[Line]) -> object:
        """The frame."""
        import pandas as pd

        values = [{n: _plain(v, "surrogateescape") for n, v in row.items()} for row in rows if isinstance(row, dict)]

        def column(name: str) -> Any:
            given = [row[name] for row in values]
            try:
                return pd.Series(given)
            except UnicodeEncodeError:
                return pd.Series(given, dtype=object)

        return pd.DataFrame({name: column(name) for name in PLAIN})


class Polars(Source):
    """A frame of polars, whose texts are always UTF-8."""

    name = "polars"

    def put(self, rows: Sequence[Line]) -> object:
        """The frame."""
        import polars as pl

        return pl.DataFrame(arrow(rows, is_utf8=True))


class Parquet(Source):
    """A file that pyarrow writes."""

    name = "parquet"
    address = "parquet:rows"

    def put(self, rows: Sequence[Line]) -> object:
        """Write the file."""
        import pyarrow.parquet as pq

        (self.folder / "rows").unlink(missing_ok=True)
        pq.write_table(arrow(rows), self.folder / "rows")
        return None


class DuckDB(Source):
    """A database file whose texts have a collation that does not tell case apart."""

    name = "duckdb"
    address = "duckdb:rows#visits"

    def put(self, rows: Sequence[Line]) -> object:
        """Write the file."""
        import duckdb

        (self.folder / "rows").unlink(missing_ok=True)
        table = arrow(rows, is_utf8=True)
        with duckdb.connect(str(self.folder / "rows")) as connection:
            connection.register("given", table)
            kept = ", ".join(f"{n} COLLATE NOCASE AS {n}" if TYPES[n] == pa.string() else n for n in PLAIN)
            connection.execute(f"CREATE TABLE visits AS SELECT {kept} FROM given")
        return None


class Postgres(Source):
    """A table of a PostgreSQL server; its texts hold no NUL."""

    name = "postgres"
    address = "postgres:hostile#visits"
    postgres = (("hostile", "dsn_env", "HOSTILE_ROWS_DSN"),)

    def __init__(self, folder: Path, dsn: str) -> None:
        import psycopg

        super().__init__(folder)
        os.environ["HOSTILE_ROWS_DSN"] = dsn
        self.connection = psycopg.connect(dsn.replace("+psycopg", ""), autocommit=True)
        kinds = {"age": "float8", "ill": "boolean", "cost": "int8", "day": "timestamp", "code": "int4"}
        columns = ", ".join(f"{name} {kinds.get(name, 'text')}" for name in PLAIN)
        self.connection.execute(f"DROP TABLE IF EXISTS visits; CREATE TABLE visits ({columns})".encode())

    def put(self, rows: Sequence[Line]) -> object:
        """Replace the table's rows."""
        self.connection.execute("TRUNCATE visits")
        with self.connection.cursor() as cursor, cursor.copy("COPY visits FROM STDIN") as copy:
            for row in rows:
                if isinstance(row, dict):
                    copy.write_row([_for_postgres(name, _plain(value)) for name, value in row.items()])
        return None


def _for_postgres(name: str, value: Any) -> Any:
    if name == "day" and type(value) is int:
        return "infinity" if value > 0 else "-infinity"
    if name == "cost" and value is not None:
        return min(max(value, -(2**63)), 2**63 - 1)
    return value.replace("\0", "?") if isinstance(value, str) else value


class Spark(Source):
    """A view whose texts have a collation that does not tell case apart."""

    name = "spark"
    address = "spark:global_temp.hostile"

    def __init__(self, folder: Path, session: Any) -> None:
        super().__init__(folder)
        self.session = session

    def put(self, rows: Sequence[Line]) -> object:
        """Replace the view."""
        from pyspark.sql.functions import col, collate
        from pyspark.sql.types import TimestampNTZType

        binary = pa.table(
            {n: c.cast(pa.binary()) if c.type == pa.string() else c for n, c in _columns(rows, is_utf8=False).items()}
        )
        frame = self.session.createDataFrame(binary)
        for name, kind in TYPES.items():
            if kind == pa.string():
                frame = frame.withColumn(name, collate(col(name).cast("string"), "UTF8_LCASE"))
        frame = frame.withColumn("day", col("day").cast(TimestampNTZType()))
        frame.createOrReplaceGlobalTempView("hostile")
        return None


def _plain(value: Any, errors: str = "replace") -> Any:
    return value.decode("utf-8", errors) if isinstance(value, bytes) else value


def arrow(rows: Sequence[Line], *, is_utf8: bool = False) -> pa.Table:
    """Rows with ``TYPES``; texts that are not UTF-8 stay so, unless the source cannot hold them."""
    return pa.table(_columns(rows, is_utf8=is_utf8))


def _columns(rows: Sequence[Line], *, is_utf8: bool) -> dict[str, pa.Array]:
    values = [row for row in rows if isinstance(row, dict)]
    return {name: _column(kind, [row[name] for row in values], is_utf8) for name, kind in TYPES.items()}


def _column(kind: pa.DataType, values: list[Any], is_utf8: bool) -> pa.Array:
    if kind == pa.string():
        raw = [v.encode() if isinstance(v, str) else v for v in values]
        raw = [v.decode("utf-8", "replace").encode() if is_utf8 and v is not None else v for v in raw]
        return pa.array(raw, pa.binary()).view(pa.string())
    if pa.types.is_timestamp(kind):
        micro = [(v - _EPOCH) // timedelta(microseconds=1) if isinstance(v, datetime) else v for v in values]
        return pa.array(micro, pa.int64()).view(kind)
    if kind == pa.int64():
        return pa.array([None if v is None else min(max(v, -(2**63)), 2**63 - 1) for v in values], kind)
    return pa.array(values, kind)
