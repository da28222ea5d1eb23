"""Storage of reports: one DuckDB file per epoch, one report per user and service, and counters of the others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from siloquent.collect.measure.tally import Tally, tally
from siloquent.collect.measure.wire import Batch, find_report_length, read_reports
from siloquent.collect.spec.collection import Collection
from siloquent.collect.spec.counters import Counters
from siloquent.errors import DataError, RequestError
from siloquent.fixes import UseOption

if TYPE_CHECKING:
    import duckdb

Integers = NDArray[np.int64]
AT_ONCE = 2**17
"""The number of a file's reports that are read together."""
COLUMNS = ("layer", "t0", "t1", "c0", "c1", "c2")
"""Columns of the tables ``reports_0``, ...: the layer, the token's halves, a set's bits or a hash's a, b, y."""


class ReportStore:
    """The reports to one collection.

    Args:
        path: The database; None keeps all in memory.
    Raises:
        RequestError: the database belongs to another collection, or cannot be opened.
    """

    def __init__(self, collection: Collection, path: Path | None = None) -> None:
        import duckdb  # heavy, and not needed on devices

        self.collection = collection
        self._lock = threading.RLock()
        self._tallies: dict[tuple[int, ...], tuple[tuple[int, ...], Tally]] = {}
        try:
            self._connection = duckdb.connect(":memory:" if path is None else str(path))
        except duckdb.Error:
            raise RequestError(
                f"The reports in {path} cannot be opened: another program has them open, or they are none.",
                fix="stop the other program, then retry",
            ) from None
        self._prepare()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        self._connection.execute("CREATE TABLE IF NOT EXISTS made (digest VARCHAR)")
        known = self._connection.execute("SELECT digest FROM made").fetchall()
        if known and known[0][0] != self.collection.digest:
            self.close()
            raise RequestError(
                "These reports belong to a different collection, epoch or design.",
                fix="name the document that the clients use",
            )
        if not known:
            self._connection.execute("INSERT INTO made VALUES (?)", [self.collection.digest])
        counters = ", ".join(f"{name} BIGINT" for name in Counters.__dataclass_fields__)
        self._connection.execute(f"CREATE TABLE IF NOT EXISTS counters ({counters})")
        for number in range(len(self.collection.channels)):
            public = "".join(f", p{at} BIGINT" for at in range(len(self.collection.list_public_attributes(number))))
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS reports_{number} (layer BIGINT, t0 BIGINT, t1 BIGINT, "
                f"c0 BIGINT, c1 BIGINT, c2 BIGINT{public})"
            )

    def ingest(self, data: bytes) -> Counters:
        """Ingest concatenated reports: all of them are accepted or counted as refused, in one transaction.

        Raises:
            DataError: the file could not be written; nothing of ``data`` was counted.
        """
        batches, refused = read_reports(self.collection, data)
        return self._store_batches(batches, refused)

    def ingest_file(self, path: Path) -> Counters:
        """Ingest a file as ``ingest`` does, some reports at a time, so that a file may be larger than memory.

        Raises:
            OSError: the file cannot be read. DataError: as ``ingest``, but earlier reports of the file are kept.
        """
        with path.open("rb") as file:
            length = find_report_length(self.collection, file.read(2))
            file.seek(0)
            found = Counters()
            while data := file.read(length * AT_ONCE):
                found = found.combine(self._store_batches(*read_reports(self.collection, data, length)))
        return found

    def ingest_arrow(self, table: Any, column: str = "report") -> Counters:
        """Ingest one binary column of an Arrow table, which may hold reports of several services.

        Raises:
            RequestError: there is no such binary column. DataError: as ``ingest``.
        """
        import pyarrow as pa
        from pyarrow import compute

        if column not in table.column_names or not _is_binary(table.schema.field(column).type):
            raise RequestError(f"The table has no binary column {column!r}.", fix=UseOption("column", "report"))
        cells = table.column(column).combine_chunks().cast(pa.large_binary())
        sizes = compute.binary_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
        known = [int(size) for size in np.unique(sizes) if self.collection.is_length(int(size))]
        batches, refused = [], Counters(bad_length=int((~np.isin(sizes, known)).sum()))
        for size in known:
            data = b"".join(cells.filter(pa.array(sizes == size)).to_pylist())
            own, counters = read_reports(self.collection, data, size)
            batches += own
            refused = refused.combine(counters)
        return self._store_batches(batches, refused)

    def add(self, batches: Sequence[Batch]) -> Counters:
        """Add reports that were already read, or simulated."""
        return self._store_batches(batches, Counters())

    def _store_batches(self, batches: Sequence[Batch], refused: Counters) -> Counters:
        with self._lock, self._open_transaction():
            for batch in batches:
                added = self._insert(batch)
                refused = refused.combine(Counters(accepted=added, duplicate=len(batch.layers) - added))
            values = [getattr(refused, name) for name in Counters.__dataclass_fields__]
            self._connection.execute(f"INSERT INTO counters VALUES ({', '.join('?' * len(values))})", values)
        return refused

    @contextlib.contextmanager
    def _open_transaction(self) -> Iterator[None]:
        import duckdb

        self._connection.execute("BEGIN")
        try:
            yield
            self._connection.execute("COMMIT")
        except duckdb.Error:
            with contextlib.suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")
            raise DataError from None
        except BaseException:  # allowed: whatever stops it, half a batch must not stay, and it is raised again
            self._connection.execute("ROLLBACK")
            raise

    def _insert(self, batch: Batch) -> int:
        """Add the first report of each user who has none yet; return how many were added."""
        import pyarrow as pa

        _, first = np.unique(batch.tokens, axis=0, return_index=True)
        first.sort()
        columns = [batch.layers, *batch.tokens.T, *batch.columns.T, *batch.public.T]
        names = [*COLUMNS, *(f"p{at}" for at in range(batch.public.shape[1]))]
        arrived = pa.table({name: column[first] for name, column in zip(names, columns, strict=True)})
        self._connection.register("arrived", arrived)
        try:
            table = f"reports_{batch.channel}"
            new = f"SELECT a.* FROM arrived a ANTI JOIN {table} r ON a.t0 = r.t0 AND a.t1 = r.t1"
            done = self._connection.execute(f"INSERT INTO {table} {new}").fetchall()
        finally:
            self._connection.unregister("arrived")
        return int(done[0][0])

    @property
    def counters(self) -> Counters:
        """The counts of all reports so far."""
        names = ", ".join(f"COALESCE(SUM({name}), 0)" for name in Counters.__dataclass_fields__)
        with self._lock:
            row = self._connection.execute(f"SELECT {names} FROM counters").fetchall()[0]
        return Counters(*(int(value) for value in row))

    def count_reports(self) -> tuple[int, ...]:
        """Return the number of reports of each channel."""
        with self._lock:
            return tuple(
                int(self._connection.execute(f"SELECT COUNT(*) FROM reports_{number}").fetchall()[0][0])
                for number in range(len(self.collection.channels))
            )

    def tally(self, channels: tuple[int, ...]) -> Tally:
        """Return the supports of the users who reported to all of ``channels``; cached until more reports arrive."""
        with self._lock:
            stamp = self.count_reports()
            known = self._tallies.get(channels)
            if known is None or known[0] != stamp:
                known = stamp, tally(self.collection, self._join_channels(channels))
                self._tallies[channels] = known
            return known[1]

    def count_layer_reports(self, channel: int) -> list[int]:
        """Return the number of reports of each layer of a channel."""
        found = [0] * len(self.collection.channels[channel].layers)
        with self._lock:
            rows = self._connection.execute(f"SELECT layer, COUNT(*) FROM reports_{channel} GROUP BY layer").fetchall()
        for layer, count in rows:
            found[layer] = int(count)
        return found

    @contextlib.contextmanager
    def use_one_thread(self, channel: int = 0) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the database on one thread, with a channel's reports as the relation ``reports``; for measuring."""
        with self._lock:
            before = self._connection.execute("SELECT current_setting('threads')").fetchall()[0][0]
            self._connection.execute("SET threads = 1")
            self._connection.execute(f"CREATE OR REPLACE TEMP VIEW reports AS SELECT * FROM reports_{channel}")
            try:
                yield self._connection
            finally:
                self._connection.execute("DROP VIEW reports")
                self._connection.execute(f"SET threads = {int(before)}")

    def to_arrow(self, channel: int) -> Any:
        """Return the reports of a channel as an Arrow table, for other engines."""
        with self._lock:
            return self._connection.sql(f"SELECT * FROM reports_{channel}").to_arrow_table()

    def _join_channels(self, channels: tuple[int, ...]) -> list[Batch]:
        widths = [len(self.collection.list_public_attributes(number)) for number in channels]
        parts = [
            f"r{number}.{name}"
            for number, width in zip(channels, widths, strict=True)
            for name in (*COLUMNS, *(f"p{at}" for at in range(width)))
        ]
        tables = f"reports_{channels[0]} r{channels[0]}"
        for number in channels[1:]:
            tables += f" JOIN reports_{number} r{number} ON r{number}.t0 = r{channels[0]}.t0"
            tables += f" AND r{number}.t1 = r{channels[0]}.t1"
        named = ", ".join(f"{part} AS x{at}" for at, part in enumerate(parts))
        found = self._connection.execute(f"SELECT {named} FROM {tables}").fetchnumpy()
        columns = [np.asarray(column, dtype=np.int64) for column in found.values()]
        batches, at = [], 0
        for number, width in zip(channels, widths, strict=True):
            own = columns[at : at + 6 + width]
            at += 6 + width
            public = np.column_stack(own[6:]) if width else np.zeros((len(own[0]), 0), dtype=np.int64)
            batches.append(Batch(number, own[0], np.column_stack(own[1:3]), np.column_stack(own[3:6]), public))
        return batches


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
