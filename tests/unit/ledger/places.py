"""Fresh databases for ledgers under test, and raw ways into them."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa


def fresh_database(server: str, *, template: str = "template1") -> str:
    """The address of a new database on the PostgreSQL server at ``server``, empty or a copy of ``template``."""
    name = f"ledger_{secrets.token_hex(6)}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}")
    engine.dispose()
    return sa.make_url(server).set(database=name).render_as_string(hide_password=False)


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a SQLite ledger, as somebody with a shell on the machine has it; commits at the end."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection
        connection.commit()
