"""Spark: the same queries, transpiled; kernels run where the rows are, and their results are merged in this process."""

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
        session: A running session; the engine works in a new one beside it, so that no setting or view is shared.
        table: The name of a table, as a sqlglot table.
    Raises:
        DataError: Spark cannot read the table.
    """

    @hide_failures
    def __init__(self, session: SparkSession, table: exp.Table) -> None:
        _silence()
        self._session = session.newSession()
        self._session.conf.set("spark.sql.session.timeZone", "UTC")  # moments without a zone stay as they are
        _compare_by_bytes(self._session.sql(f"SELECT * FROM {table.sql('spark')}")).createOrReplaceTempView(SOURCE)
        self._kept: list[DataFrame] = []
        self._name = table.sql("spark")

    def compute_digest(self) -> bytes:
        """Of the table's name: a catalogue does not say whether rows changed, so the declared version alone counts."""
        return prepare_name_digest("spark", self._name)()

    @hide_failures
    def list_columns(self) -> Mapping[str, str]:
        """The source's columns in order, with the names that DuckDB gives their types."""
        found = self._session.table(SOURCE).schema.fields
        names = {field.name: field.dataType.simpleString() for field in found}
        return {name: _TYPES.get(kind, kind.upper()) for name, kind in names.items()}

    @hide_failures
    def keep(self, name: str, query: exp.Query) -> bool:
        """Keep the rows of ``query`` as view ``name`` in the executors' memory; what does not fit is computed again."""
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
    def aggregate(self, query: exp.Query) -> pa.Table:
        """The rows of a grouped count or sum of indices; their order means nothing."""
        return self._run(query).toArrow()

    @hide_failures
    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """``kernel`` of every batch, merged first within partitions and then here."""
        rows = self._run(query)
        state = kernel(build_empty_batch(rows.limit(0).toArrow().schema))
        for row in rows.mapInArrow(_PartitionKernel(kernel, merge), "state binary").collect():
            state = merge(state, np.load(io.BytesIO(row["state"]), allow_pickle=False))
        return state

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """The rows of ``query``, a batch at a time; all of them pass through this process."""
        yield from hide_failures(lambda: self._run(query).toArrow().to_batches())()

    def is_current(self) -> bool:
        """Always: catalogues do not tell what was written since."""
        return True

    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """None: tables have no lines."""
        return {}

    @hide_failures
    def close(self) -> None:
        """Let go of the rows in the executors' memory; the session goes on."""
        for kept in self._kept:
            kept.unpersist()

    def _run(self, query: exp.Query) -> DataFrame:
        return self._session.sql(format_spark_sql(query))


def _compare_by_bytes(rows: DataFrame) -> DataFrame:
    """``rows`` whose texts are compared by their bytes, and NULL where they are not UTF-8.

    A collation would melt users whose ids differ in case, and Arrow fails over all rows for one such text.
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
    """pyspark writes failed queries with the value that failed to standard error; ours go to the owner's log alone."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True


class _PartitionKernel:
    """What runs where the rows are: the kernel over the batches of one partition, its state as numpy's file format."""

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
    """``query``, a tree in DuckDB's dialect, as text for Spark whose session time zone is UTC."""
    return query.transform(_translate_node).sql("spark")


def _translate_node(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Anonymous) and node.name.upper() == IN_PART:  # Spark sorts what does not fit on its disks
        return exp.true()
    if isinstance(node, exp.Anonymous) and node.name.upper() == "EPOCH_US":
        moment = exp.cast(node.expressions[0], "TIMESTAMPLTZ")
        return exp.Anonymous(this="UNIX_MICROS", expressions=[moment])
    return node
