"""The interface of engines, their limits, and the conversion of their failures to one fixed text."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

from siloquent.errors import DataError, SiloquentError
from siloquent.schema.files.coercion import MAX_TEXT
from siloquent.schema.formats.source_kinds import SourceKind

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp

    Kernel = Callable[[pa.RecordBatch], NDArray[Any]]
    Merge = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

P = ParamSpec("P")
R = TypeVar("R")

SOURCE = "source"
"""The relation that holds the table's rows, in every engine."""
OWN_ROWS = "own_rows"
"""The relation of a linked table's own rows, where ``SOURCE`` holds them with their owners."""
OWNERS = "owners"
"""The relation of its parent's keys with their owners."""
IN_PART = "IN_PART"
"""A condition on a user that an engine may replace by a part of all users: each user's rows are ranked separately."""
LineFault = Literal["encoding", "form", "formula", "error", "merged"]
"""Lines that are left out: invalid UTF-8, or wrong quotes, columns or length; and in sheets, cells without a value:
formulas whose value is not stored, error values, and merged areas."""

# An engine's messages may quote rows, so they go to a separate log: it has no handler until the owner adds one, and
# does not propagate records to the application's log.
OWNER_LOG = logging.getLogger("siloquent.owner")
OWNER_LOG.addHandler(logging.NullHandler())
OWNER_LOG.propagate = False


def _measure_half_memory() -> int:
    """Return half of this machine's memory, or 4 GiB if its size is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 2**32


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on the memory of one table, and on reads of a source.

    The defaults bound only quantities set by a declaration or a writer's settings, never by the rows: a limit that one
    more row can exceed reveals that row. The other limits are for files from outside, which are refused before they
    become a source.

    Attributes:
        page_bytes: Of a Parquet page whose values all have the same width.
        text_bytes: Of a page of texts, where a single long text can fill a page; the format's own maximum.
        shared_bytes: Of a page of texts that share prefixes, if each were as long as the page; None: no limit.
        rows: Of a file; None: no limit.
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
    """Rows behind SQL. Queries are sqlglot trees in DuckDB's dialect over ``SOURCE`` and kept relations.

    Every failure of the underlying engine is raised as ``DataError`` with a fixed text. ``computes_cells``: kept rows
    are grouped and summed by any expression.
    """

    computes_cells: bool

    def list_columns(self) -> Mapping[str, str]:
        """Return the source's columns in order, with DuckDB's type names."""
        ...

    def keep(self, name: str, query: exp.Query) -> bool:
        """Make the rows of ``query`` a relation ``name``; return whether they are in memory, or reread each time."""
        ...

    def look_up(self, name: str, values: Sequence[str]) -> None:
        """Make the public ``values`` a relation ``name`` with the columns value and place (0, 1, ...)."""
        ...

    def lend(self, name: str, columns: Mapping[str, NDArray[np.int64]]) -> None:
        """Make public numbers a relation ``name``, until ``take_back``."""
        ...

    def take_back(self, name: str) -> None:
        """Drop the relation ``name`` that was lent."""
        ...

    def aggregate(self, query: exp.Query) -> pa.Table:
        """Return the rows of a grouped count or sum of indices; their order has no meaning."""
        ...

    def map_merge(self, kernel: Kernel, merge: Merge, query: exp.Query) -> NDArray[Any]:
        """Apply ``kernel`` to every batch of ``query`` and merge the results; without rows, to one empty batch.

        Args:
            kernel: Returns a numpy array without objects, so that it can travel between processes.
            merge: Associative and commutative: the engine chooses the batches and their order.
        """
        ...

    def read_batches(self, query: exp.Query) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``query``, a batch at a time."""
        ...

    def is_current(self) -> bool:
        """Return whether the source is still the one that was opened, as far as that is visible without reading it."""
        ...

    def compute_digest(self) -> bytes:
        """Return a digest, equal for equal rows as far as the source can tell; it never leaves the session unkeyed."""
        ...

    def count_unreadable_lines(self) -> Mapping[LineFault, int]:
        """Return the number of unreadable lines or cells, by fault; for the owner's check."""
        ...

    def close(self) -> None:
        """Release memory, files and connections."""
        ...


def hide_failures(call: Callable[P, R]) -> Callable[P, R]:
    """Wrap ``call`` so that its failures become a ``DataError`` with a fixed text; the owner's log has the details.

    The error has neither cause nor context, since an engine's message may quote a row.
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
    """Return a batch of that schema without rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def get_source_kind(type_name: str) -> SourceKind:
    """Return the kind of column that a DuckDB type is, for reading it as a declared attribute.

    >>> get_source_kind("DECIMAL(18,3)"), get_source_kind("TIMESTAMP_NS"), get_source_kind("INTEGER[]")
    ('decimal', 'datetime', 'other')
    """
    name = type_name.upper()
    if name.endswith("]"):
        return "other"
    head = name.partition("(")[0]
    return _KINDS.get(head, "other")


_KINDS: dict[str, SourceKind] = {
    # A column of only NULLs in a frame has no better type, and is not refused because of its rows.
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
