"""Spark: the same queries, transpiled; kernels run where the rows are, and results are merged in this process."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from siloquent.data.digests import prepare_name_digest
from siloquent.data.engines.base import IN_PART, SOURCE, build_empty_batch, hide_failures

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from siloquent.data.engines.base import Kernel, LineFault, Merge

_TYPES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "smallint": "SMALLINT",
    "tinyint": "TINYINT",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}


class SparkEngine:
    """Rows of one Spark table or frame.

    Args:
        session: A running session; the engine works in a new one beside it, so that they share no setting or view.
        table: The name of a table, as a sqlglot table.
    Raises:
        DataError: Spark cannot read the table.
    """

    computes_cells = False

    @hide_failures
    def __init__(self, session: SparkSession, table: exp.Table) -> None:
        _silence()
        self._session = session.newSession()
        self._session.conf.set("spark.sql.session.timeZone", "UTC")  # times without a zone are unchanged
        _compare_by_bytes(self._session.sql(f"SELECT * FROM {table.sql('spark')}")).createOrReplaceTempView(SOURCE)
        self._kept: list[DataFrame] = []
        self._name = table.sql("spark")

    def compute_digest(self) -> bytes:
        """Return the digest of the table's name: catalogues do not record changes, so only the version counts."""
        return prepare_name_digest("spark", self._name)()

    @hide_failures
    def list_columns(self) -> Mapping[str, str]:
        """Return the source's columns in order, with DuckDB's names of their types."""
        found = self._session.table(SOURCE).schema.fields
        names = {field.name: field.dataType.simpleString() for field in found}
        return {name: _TYPES.get(kind, kind.upper()) for name, kind in names.items()}

    @hide_failures
    def keep(self, name: str, query: exp.Query) -> bool:
        """Keep the rows of ``query`` as view ``name`` in the executors' memory; rows that do not fit are recomputed."""
        from pyspark import StorageLevel

        kept = self._run(query).persist(StorageLevel.MEMORY_ONLY)  # rows never spill to disk
        kept.createOrReplaceTempView(name)
        self._kept.append(kept)
        return True

    @hide_failures
    def look_up(self, name: str, values: Sequence[str]) -> None:
        """Make the public ``values`` a relation ``name`` with the columns value and place."""
        import pyarrow as pa

        table = pa.table({"value": pa.array(values, pa.string()), "place": pa.array(range(len(values)), pa.int64())})
        self._session.createDataFrame(table).createOrReplaceTempView(name)

    @hide_failures
    def lend(self, name: str, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Make public numbers a relation ``name``, until ``take_back``."""
        import pyarrow as pa

        self._session.createDataFrame(pa.table(dict(columns))).createOrReplaceTempView(name)

    @hide_failures
    def take_back(self, name: str) -> None:
        """Drop the relation ``name`` that was lent."""
        self._session.catalog.dropTempView(name)

    @hide_failures
    def aggregate(self, query: exp.Query) -> pa.Table:
        """Return the rows of a grouped count or sum of indices; their order has no meaning."""
        return self._run(query).toArrow()

    @hide_failures
    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """Apply ``kernel`` to every batch; merge the results first within partitions and then here."""
        rows = self._run(query)
        state = kernel(build_empty_batch(rows.limit(0).toArrow().schema))
        for row in rows.mapInArrow(_PartitionKernel(kernel, merge), "state binary").collect():
            state = merge(state, np.load(io.BytesIO(row["state"]), allow_pickle=False))
        return state

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``query``, a batch at a time; this process holds those of one partition at a time."""
        import pyarrow as pa

        packed = hide_failures(lambda: self._run(query).mapInArrow(_pack_batches, "batch binary").toLocalIterator())()
        take = hide_failures(lambda: next(packed, None))
        while (row := take()) is not None:
            with pa.ipc.open_stream(row["batch"]) as reader:
                yield from reader

    def is_current(self) -> bool:
        """Return True: catalogues do not record later writes."""
        return True

    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """Return no counts: tables have no lines."""
        return {}

    @hide_failures
    def close(self) -> None:
        """Release the rows in the executors' memory; the session continues."""
        for kept in self._kept:
            kept.unpersist()

    def _run(self, query: exp.Query) -> DataFrame:
        return self._session.sql(format_spark_sql(query))


def _compare_by_bytes(rows: DataFrame) -> DataFrame:
    """Return ``rows`` with texts compared by their bytes, and NULL for those that are not UTF-8.

    A collation would merge users whose ids differ in case, and Arrow fails for all rows because of one such text.
    """
    from pyspark.sql.functions import col, collate, try_validate_utf8
    from pyspark.sql.types import StringType

    shown = [
        try_validate_utf8(collate(quoted, "UTF8_BINARY")).alias(field.name)
        if isinstance(field.dataType, StringType)
        else quoted
        for field in rows.schema.fields
        for quoted in [col(f"`{field.name.replace('`', '``')}`")]
    ]
    return rows.select(*shown)


def _silence() -> None:
    """Disable pyspark's log of failed queries, which shows failing values; ours go to the owner's log only."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


def _pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch as bytes in Arrow's stream format, a row each; it runs where the rows are."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])


class _PartitionKernel:
    """The kernel over the batches of one partition, run where the rows are; its state is in numpy's file format."""

    def __init__(self, kernel: Kernel, merge: Merge) -> None:
        self._kernel, self._merge = kernel, merge

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        state: NDArray[Any] | None = None
        try:
            for batch in batches:
                found = self._kernel(batch)
                state = found if state is None else self._merge(state, found)
        except Exception:  # allowed: Spark logs what a worker raises, and that may quote rows
            raise RuntimeError("a kernel failed over the rows of a partition") from None
        if state is not None:
            file = io.BytesIO()
            np.save(file, state, allow_pickle=False)
            yield pa.RecordBatch.from_arrays([pa.array([file.getvalue()], pa.binary())], names=["state"])


def format_spark_sql(query: exp.Query) -> str:
    """Return ``query``, a tree in DuckDB's dialect, as text for Spark with session time zone UTC."""
    return query.transform(_translate_node).sql("spark", copy=False)


def _translate_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.upper() == IN_PART:  # Spark sorts on disk if need be
        return exp.true()
    if isinstance(node, exp.Anonymous) and node.name.upper() == "EPOCH_US":
        moment = exp.cast(node.expressions[0], "TIMESTAMPLTZ")
        return exp.Anonymous(this="UNIX_MICROS", expressions=[moment])
    return node
