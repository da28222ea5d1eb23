"""The memory check of the requested rows, before anything is paid."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix

CELL_BYTES = 24
"""Bytes for each output cell, from its group to its entry in a column; measured: 8 to 18."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def find_memory_limit() -> int:
    """Return the bytes that this process may use: the least of the machine's, its container's and its own limit."""
    import os
    import resource

    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    if own != resource.RLIM_INFINITY:
        found.append(own)
    with suppress(OSError, ValueError):  # not a container, or "max"
        found.append(int(_CGROUP.read_text(encoding="ascii")))
    return min(found)


def limit_rows(rows: int, columns: int) -> int:
    """Return ``rows``, or as many as fit into memory; more rows can be drawn from the model at no cost."""
    room = find_memory_limit()
    return rows if rows * columns * CELL_BYTES <= room else max(1, room // (2 * columns * CELL_BYTES))


def require_memory(rows: int | None, columns: int) -> None:
    """Refuse more rows than there is memory for.

    Args:
        rows: As requested; None: as many as the table has, which is unknown as yet; ``limit_rows`` limits these.
    Raises:
        RequestError: They need more memory than is available.
    """
    room, need = find_memory_limit(), (rows or 0) * columns * CELL_BYTES
    if need > room:
        fits = max(1, room // (2 * columns * CELL_BYTES))
        raise RequestError(
            f"{rows:,} rows of {columns} columns take some {need / 10**9:.3g} GB of memory; there are "
            f"{room / 10**9:.3g} GB here.",
            fix=build_fix(UseOption("rows", fits), ", then more from the model, which is free"),
        )
