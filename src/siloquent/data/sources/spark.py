"""Tables of a Spark catalogue: the active session, or a local one with settings for a shared machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from siloquent.data.engines.base import hide_failures
from siloquent.data.engines.spark import SparkEngine
from siloquent.errors import MissingExtra, SchemaError, UnknownName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME_PARTS = 3


def open_spark(where: str, master: str, *, table: str) -> SparkEngine:
    """Return the table ``where`` (``TABLE``, ``DB.TABLE`` or ``CAT.DB.TABLE``) of the active session's catalogue.

    Raises:
        MissingExtra: pyspark is not installed.
        SchemaError: ``where`` is not a table name. UnknownName: there is no such table (with suggestions).
        DataError: Spark does not start, or cannot read the table.
    """
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise MissingExtra("spark", f"The source of {table!r}") from None
    parts = where.split(".")
    if not all(parts) or len(parts) > _NAME_PARTS:
        raise SchemaError(
            f"The source of {table!r} does not name a table.", fix='source = "spark:CATALOGUE.DATABASE.TABLE"'
        )
    session = _get_session(master)
    catalogue, database, relation = [""] * (_NAME_PARTS - len(parts)) + parts
    found = exp.table_(relation, db=database or None, catalog=catalogue or None, quoted=True)
    name = found.sql("spark")
    # As the engine's own session sees it: temporary views belong to the session that created them.
    if not hide_failures(lambda: session.newSession().catalog.tableExists(name))():
        raise UnknownName(f"table in the source of {table!r}", where, _list_tables(session))
    return SparkEngine(session, found)


@hide_failures
def _get_session(master: str) -> SparkSession:
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # kernels need this environment
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.io.encryption.enabled": "true",  # shuffles and sorts write rows to files
    }
    builder = SparkSession.builder.master(master).appName("siloquent")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@hide_failures
def _list_tables(session: SparkSession) -> list[str]:
    return [found.name for found in session.catalog.listTables()][:1000]
