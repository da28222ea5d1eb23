"""Whether the rows that are asked for fit into memory: known before anything is paid."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from siloquent.errors import RequestError

CELL_BYTES = 24
"""Of each cell put out, from its group to its place in a column; measured: 8 to 18."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def find_memory_limit() -> int:
    """The bytes that this process may use: of the machine, its container and its own limit, the least."""
    import os
    import resource

    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    if own != resource.RLIM_INFINITY:
        found.append(own)
    with suppress(OSError, ValueError):  # not a container, or "max"
        found.append(int(_CGROUP.read_text(encoding="ascii")))
    return min(found)


def rows_that_fit(rows: int, columns: int) -> int:
    """``rows``, or as many of them as there is memory for: what was paid for is given, and more is drawn for free."""
    room = find_memory_limit()
    return rows if rows * columns * CELL_BYTES <= room else max(1, room // (2 * columns * CELL_BYTES))


def require_memory(rows: int | None, columns: int) -> None:
    """Refuse more rows than there is memory for.

    Args:
        rows: As asked; None: as many as the table has, which nobody may know yet: ``rows_that_fit`` sees to these.
    Raises:
        RequestError: They need more memory than there is.
    """
    room, need = find_memory_limit(), (rows or 0) * columns * CELL_BYTES
    if need > room:
        fits = max(1, room // (2 * columns * CELL_BYTES))
        raise RequestError(
            f"{rows:,} rows of {columns} columns take some {need / 10**9:.3g} GB of memory; there are "
            f"{room / 10**9:.3g} GB here.",
            fix=f"rows = {fits}, then more from the model, which is free",
        )
