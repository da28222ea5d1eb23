"""Raw ways into the files of ledgers under test."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a SQLite ledger, as somebody with a shell on the machine has it; commits at the end."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()
