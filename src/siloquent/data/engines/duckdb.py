"""The embedded engine: DuckDB in memory, with no access to files, network, extensions and further settings."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlglot import exp

from siloquent.data.engines.base import (
    OWN_ROWS,
    OWNER_LOG,
    OWNERS,
    SOURCE,
    ReadLimits,
    build_empty_batch,
    hide_failures,
)
from siloquent.data.engines.parts import Part, is_divisible, run_in_parts
from siloquent.errors import DataError

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from siloquent.data.engines.base import Kernel, LineFault, Merge


R = TypeVar("R")


class Streamable(Protocol):
    """Rows that can be read any number of times."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new Arrow stream of all rows."""
        ...


class LinkedSource(Protocol):
    """The join of a linked table's rows with their owners (``data.units.linked_rows``)."""

    def build_view(self, columns: Mapping[str, str]) -> tuple[exp.Query, Streamable]:
        """Build the rows with their owners, a query over ``OWN_ROWS`` and ``OWNERS``, and the latter relation."""
        ...

    def is_current(self) -> bool:
        """Return whether the tables on the way to the unit are still those that were opened."""
        ...

    def compute_digest(self, own: bytes) -> bytes:
        """Return a digest of the rows whose digest is ``own``, and of all that they are linked through."""
        ...

    def close(self) -> None:
        """Close what was opened for the join."""
        ...


BATCH_ROWS = 100_000
MAX_STATEMENTS = 256


class DuckDBEngine:
    """Rows of one source in DuckDB.

    ``computes_cells``: kept rows are grouped and summed by any expression, in one pass.

    Args:
        attach: Makes the relation ``SOURCE`` of a file, once; returns the further relations that it reads, if any.
        arrow: The rows of ``SOURCE`` instead: a table, or any object that returns an Arrow stream of the same rows
            each time.
        fill: For fetched sources: returns the replacement of ``arrow``, when rows are first read.
        files: The only files that may be read afterwards.
        unchanged: Returns whether the source is still the one that was opened; called before and after reads.
        faults: Counts the unreadable lines, if the source has lines.
        digest: Hashes the source (``data.digests``).
        linked: Joins the rows with their owners; None for a table that names them itself, or has none.
    Raises:
        DataError: DuckDB cannot read the source.
    """

    computes_cells = True

    @hide_failures
    def __init__(
        self,
        attach: Callable[[duckdb.DuckDBPyConnection], Mapping[str, Streamable] | None] = lambda _: None,
        *,
        arrow: Streamable | None = None,
        fill: Callable[[], Streamable] | None = None,
        files: Sequence[str] = (),
        limits: ReadLimits | None = None,
        unchanged: Callable[[], bool] = lambda: True,
        faults: Callable[[], Mapping[LineFault, int]] = dict,
        digest: Callable[[], bytes] = bytes,
        linked: LinkedSource | None = None,
    ) -> None:
        # Imported here: DuckDB takes longer to import than the rest of the command line.
        import duckdb

        self._limits, self._unchanged, self._faults = limits or ReadLimits(), unchanged, faults
        self._arrow, self._fill, self._digest = arrow, fill, digest
        self._linked, self._own = linked, SOURCE if linked is None else OWN_ROWS
        self._beside: dict[str, Streamable] = {}
        self._lock = threading.RLock()
        self._views: dict[str, exp.Query] = {}
        self._forgotten: deque[str] = deque()
        self._parts = 1
        self._statements: dict[str, duckdb.Statement] = {}
        self._connection = duckdb.connect(":memory:", config=_build_settings(self._limits))
        try:
            # The right side of a join is hashed: in ours it is the smaller one. DuckDB knows no size of a stream,
            # and would hash the rows instead of their owners.
            self._connection.execute("SET disabled_optimizers = 'build_side_probe_side'")
            # First: a view in a foreign database file may name other files, and binding it would open them.
            _shut(self._connection, files)
            self._beside = dict(attach(self._connection) or {})
            self._lend(self._connection)
            described = self._connection.execute(f"DESCRIBE {SOURCE if arrow is None else self._own}").fetchall()
            if linked is not None:
                described = self._link(linked, described)
        except BaseException:  # allowed: whatever went wrong, the connection is let go and it is raised again
            self._connection.close()
            raise
        self._schema = {str(row[0]): str(row[1]) for row in described}

    def _link(self, linked: LinkedSource, described: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
        """Make ``SOURCE`` the rows with their owners; return its columns and their types."""
        if self._arrow is None:
            self._connection.execute(f"ALTER VIEW {SOURCE} RENAME TO {OWN_ROWS}")
        query, owners = linked.build_view({str(row[0]): str(row[1]) for row in described})
        self._beside[OWNERS] = owners
        self._connection.register(OWNERS, owners)
        self._connection.execute(f"CREATE VIEW {SOURCE} AS {query.sql('duckdb')}")
        return list(self._connection.execute(f"DESCRIBE {SOURCE}").fetchall())

    def list_columns(self) -> Mapping[str, str]:
        """Return the source's columns in order, with DuckDB's type names."""
        return dict(self._schema)

    @hide_failures
    def keep(self, name: str, query: exp.Query, *, share: int = 4) -> bool:
        """Copy the rows of ``query`` into memory as relation ``name``; leave it a view if they do not fit.

        Args:
            share: The part of the memory that they may take is one of so many.
        """
        text, limits = Part().sql(query, {}), self._limits
        with self._lock:
            self._drop_forgotten()
            self._require_rows()
            described = self._connection.execute(f"DESCRIBE {text}").fetchall()
            kept = min(limits.kept_bytes, limits.memory_bytes // share)  # the rest is for computations on it
            fits = kept // max(sum(_WIDTHS.get(str(row[1]), 64) for row in described), 1)
            self._connection.execute(f"CREATE TABLE {name} AS {text} LIMIT 0")

            def insert(part: Part) -> int:
                more = fits + 1 - self._count_rows(name)
                self._connection.execute(f"INSERT INTO {name} {part.sql(query, {})} LIMIT {more}")
                return self._count_rows(name)

            is_whole = all(rows <= fits for rows in self._run(query, insert))
            if not is_whole:
                self._connection.execute(f"DROP TABLE {name}")
                self._views[name] = query
            self._require_rows()
            return is_whole

    def forget(self, name: str) -> None:
        """Drop what was kept as relation ``name`` before the next rows are kept; never fails."""
        self._forgotten.append(name)

    def _drop_forgotten(self) -> None:
        while self._forgotten:
            name = self._forgotten.popleft()
            self._views.pop(name, None)
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")

    @hide_failures
    def describe(self, query: exp.Query) -> pa.Schema:
        """Return the columns of the rows of ``query``; reads none of them."""
        with self._lock:
            return self._connection.sql(f"{Part().sql(query, self._views)} LIMIT 0").to_arrow_reader().schema

    @hide_failures
    def look_up(self, name: str, values: Sequence[str]) -> None:
        """Make the public ``values`` a relation ``name`` with the columns value and place."""
        import pyarrow as pa

        table = pa.table({"value": pa.array(values, pa.string()), "place": range(len(values))})
        with self._lock:
            self._connection.register(f"{name}_arrow", table)
            self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM {name}_arrow")
            self._connection.unregister(f"{name}_arrow")

    @hide_failures
    def lend(self, name: str, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Make public numbers a relation ``name``, until ``take_back``."""
        import pyarrow as pa

        with self._lock:
            self._connection.register(name, pa.table(dict(columns)))

    @hide_failures
    def lend_rows(self, name: str, rows: Streamable) -> None:
        """Make rows of another engine a relation ``name``, read anew each time, until ``take_back``."""
        with self._lock:
            self._beside[name] = rows
            self._connection.register(name, rows)

    @hide_failures
    def take_back(self, name: str) -> None:
        """Drop the relation ``name`` that was lent."""
        with self._lock:
            self._beside.pop(name, None)
            self._connection.unregister(name)

    @hide_failures
    def aggregate(self, query: exp.Query) -> pa.Table:
        """Return the rows of a grouped count or sum of indices; their order has no meaning."""
        import pyarrow as pa

        with self._lock:
            self._require_rows()
            found = list(self._run(query, lambda part: self._grouped(query, part)))
            return found[0] if len(found) == 1 else pa.concat_tables(found)

    def _grouped(self, query: exp.Query, part: Part) -> pa.Table:
        import pyarrow as pa

        statement = self._parse_statement(query) if part == Part() else part.sql(query, self._views)
        # All columns are whole numbers; as numpy arrays they arrive in half the time that Arrow takes.
        return pa.table(self._connection.execute(statement).fetchnumpy())

    @hide_failures
    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """Apply ``kernel`` to every batch of the rows of ``query`` and merge the results."""
        with closing(self._open_cursor()) as cursor:

            def folded(part: Part) -> NDArray[Any]:
                reader = self._stream(cursor, query, part)
                state = kernel(build_empty_batch(reader.schema))
                for batch in reader:
                    state = merge(state, kernel(batch))
                return state

            return reduce(merge, self._run(query, folded))

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``query``, a batch at a time."""
        with closing(self._open_cursor()) as cursor:
            parts = self._run(query, lambda part: self._begun(cursor, query, part))
            while (reader := hide_failures(lambda: next(parts, None))()) is not None:
                step = hide_failures(partial(next, reader, None))
                while (batch := step()) is not None:
                    yield batch

    def _begun(self, cursor: duckdb.DuckDBPyConnection, query: exp.Query, part: Part) -> Iterator[pa.RecordBatch]:
        """Return the rows of a part once the first have arrived: then all of its users fit into memory."""
        reader = self._stream(cursor, query, part)
        first = next(reader, None)
        return chain([] if first is None else [first], reader)

    def _stream(self, cursor: duckdb.DuckDBPyConnection, query: exp.Query, part: Part) -> pa.RecordBatchReader:
        return cursor.sql(part.sql(query, self._views)).to_arrow_reader(BATCH_ROWS)

    def _run(self, query: exp.Query, run: Callable[[Part], R]) -> Iterator[R]:
        """Yield the results of ``run`` for all users, or for parts of them in turn."""
        if not is_divisible(query, self._views):
            return map(run, [Part()])

        def noted(part: Part) -> R:
            found = run(part)
            self._parts = max(self._parts, part.count)
            return found

        parts = [Part(number, self._parts) for number in range(self._parts)]
        return chain.from_iterable(run_in_parts(part, noted) for part in parts)

    def is_current(self) -> bool:
        """Return whether a file is still the one that was opened, of the same size and modification time."""
        return self._unchanged() and (self._linked is None or self._linked.is_current())

    @hide_failures
    def compute_digest(self) -> bytes:
        """Return the source's digest, if it is still the one that was opened."""
        found = self._digest() if self._linked is None else self._linked.compute_digest(self._digest())
        self._require_unchanged()
        return found

    @hide_failures
    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """Return the counts of the source's unreadable lines, by fault."""
        return self._faults()

    def close(self) -> None:
        """Release the rows in memory and the files."""
        with self._lock:
            self._connection.close()
        if self._linked is not None:
            self._linked.close()

    def _count_rows(self, relation: str) -> int:
        return int(self._connection.execute(f"SELECT COUNT(*) FROM {relation}").fetchall()[0][0])

    def _parse_statement(self, query: exp.Query) -> duckdb.Statement:
        """Return ``query`` as parsed by DuckDB: for a small table, writing and parsing take as long as running it."""
        text = query.meta.get("duckdb") or Part().sql(query, self._views)
        query.meta["duckdb"] = text
        if text not in self._statements:
            if len(self._statements) >= MAX_STATEMENTS:
                self._statements.clear()
            self._statements[text] = self._connection.extract_statements(text)[0]
        return self._statements[text]

    @hide_failures
    def _open_cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a separate connection for a stream of rows, so that other questions need not wait for its end."""
        with self._lock:
            self._require_rows()
            cursor = self._connection.cursor()
        self._lend(cursor)
        return cursor

    def _lend(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Register the Arrow table, if the rows are in one, on a connection: each connection needs it."""
        if self._arrow is not None:
            connection.register(self._own, self._arrow)
        for name, rows in self._beside.items():
            connection.register(name, rows)

    def _require_rows(self) -> None:
        """Load the rows, of a source that is still the one that was opened."""
        if self._fill is not None:
            self._arrow, self._fill = self._fill(), None
            self._lend(self._connection)
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        if not self.is_current():
            OWNER_LOG.error("the source changed after it was opened: raise `version` in its schema and open it again")
            raise DataError()


_WIDTHS = {"SMALLINT": 2, "INTEGER": 4, "BIGINT": 8, "DOUBLE": 8}


def _build_settings(limits: ReadLimits) -> dict[str, Any]:
    return {
        "threads": limits.threads,
        "memory_limit": f"{limits.memory_bytes}B",
        "temp_directory": "",  # rows in memory never spill to disk
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,  # a table's name never means a Python variable
    }


def _shut(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """Allow only reads of ``files`` from now on, no writes and no changes of settings."""
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # times with a zone are read in UTC, on every connection
    allowed = [name for file in files for name in (file, f"{file}.wal")]  # DuckDB looks for a database's log
    listed = ", ".join(exp.Literal.string(name).sql("duckdb") for name in allowed)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
