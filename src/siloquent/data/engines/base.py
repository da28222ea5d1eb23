"""What an engine must offer the data room, the limits it keeps, and how its failures become one fixed text."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

from siloquent.errors import DataError, SiloquentError
from siloquent.schema.coercion import MAX_TEXT

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp

    Kernel = Callable[[pa.RecordBatch], NDArray[Any]]
    Merge = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

P = ParamSpec("P")
R = TypeVar("R")

SOURCE = "source"
"""The relation that holds the table's rows, in every engine."""
IN_PART = "IN_PART"
"""A condition on a user that an engine may put a part of all users in place of: each user's rows are ranked apart."""
SourceKind = Literal["text", "integer", "decimal", "real", "boolean", "date", "datetime", "other"]
LineFault = Literal["encoding", "form"]
"""What is wrong with a line that is left out: it is not UTF-8, or its quotes, columns or length are not right."""

# What an engine says may quote rows, so it goes to a log of its own: it has no handler until the owner adds one, and
# does not pass records on to the application's log.
OWNER_LOG = logging.getLogger("siloquent.owner")
OWNER_LOG.addHandler(logging.NullHandler())
OWNER_LOG.propagate = False


def _measure_half_memory() -> int:
    """Half of what this machine has, or 4 GiB where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 2**32


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What one table may hold in memory, and how much of a source is read.

    The defaults bound what a declaration or a writer's settings decide, never what rows hold: a bound that one row more
    can pass tells whether that row is there. The others are for files from outside, which are refused before they are
    anybody's source.

    Attributes:
        page_bytes: Of a Parquet page whose values all have one width.
        text_bytes: Of one that holds texts, where a single long text makes a page; the format's own most.
        shared_bytes: Of a page of texts that share prefixes, if each were as long as the page; None: no bound.
        rows: Of a file; None: no bound.
    """

    columns: int = 4_096
    line_bytes: int = 2**20
    page_bytes: int = 2**26
    text_bytes: int = 2**31 - 1
    shared_bytes: int | None = None
    rows: int | None = None
    value_bytes: int = MAX_TEXT
    memory_bytes: int = field(default_factory=_measure_half_memory)
    kept_bytes: int = 2**31
    threads: int = min(4, os.cpu_count() or 1)


class Engine(Protocol):
    """Rows behind SQL. Queries are sqlglot trees in DuckDB's dialect over ``SOURCE`` and what was kept.

    Every failure of the engine beneath is raised as ``DataError``, whose text is always the same.
    """

    def list_columns(self) -> Mapping[str, str]:
        """The source's columns in order, with type names as DuckDB writes them."""
        ...

    def keep(self, name: str, query: exp.Query) -> bool:
        """Make the rows of ``query`` a relation ``name``; whether they are in memory, or else read anew each time."""
        ...

    def look_up(self, name: str, values: Sequence[str]) -> None:
        """Make the public ``values`` a relation ``name`` with the columns value and place (0, 1, ..)."""
        ...

    def aggregate(self, query: exp.Query) -> pa.Table:
        """The rows of a grouped count or sum of indices; their order means nothing."""
        ...

    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """``kernel`` of every batch of the rows of ``query``, merged; of one empty batch if there are no rows.

        Args:
            kernel: Gives a numpy array without objects, so that it can travel between processes.
            merge: Associative and commutative: batches are cut and ordered as the engine likes.
        """
        ...

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """The rows of ``query``, a batch at a time."""
        ...

    def is_current(self) -> bool:
        """Whether the source is still what was opened, as far as that can be seen without reading it."""
        ...

    def compute_digest(self) -> bytes:
        """Equal for equal rows, as far as the source can tell; it never leaves the session as it is."""
        ...

    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """How many lines of the source are left out because they cannot be read, and why; for the owner's check."""
        ...

    def close(self) -> None:
        """Let go of memory, files and connections."""
        ...


def hide_failures(call: Callable[P, R]) -> Callable[P, R]:
    """``call``, whose failures become one ``DataError`` with one fixed text; the owner's log has the details.

    The error carries neither cause nor context, since an engine's message may quote a row.
    """

    @functools.wraps(call)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except SiloquentError:
            raise
        except Exception:  # allowed: an engine's errors depend on rows, so all of them must look the same
            OWNER_LOG.exception("the data source failed in %s", call.__qualname__)
        error = DataError()
        error.__suppress_context__ = True
        raise error

    return guarded


def build_empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of that schema without rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def get_source_kind(type_name: str) -> SourceKind:
    """Which kind of column a DuckDB type is, as far as reading it as a declared attribute goes.

    >>> get_source_kind("DECIMAL(18,3)"), get_source_kind("TIMESTAMP_NS"), get_source_kind("INTEGER[]")
    ('decimal', 'datetime', 'other')
    """
    name = type_name.upper()
    if name.endswith("]"):
        return "other"
    head = name.partition("(")[0]
    return _KINDS.get(head, "other")


_KINDS: dict[str, SourceKind] = {
    # A frame whose column holds nothing but NULL has no better type, and is not refused for its rows.
    **dict.fromkeys(("VARCHAR", "ENUM", "UUID", "NULL", '"NULL"', "VOID"), "text"),
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"
    ),
    **dict.fromkeys(("DECIMAL", "HUGEINT", "UHUGEINT"), "decimal"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "real"),
    "BOOLEAN": "boolean",
    "DATE": "date",
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
        "datetime",
    ),
}
