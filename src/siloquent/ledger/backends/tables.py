"""The tables of a ledger in SQLite: created, protected against changes, and upgraded."""

from __future__ import annotations

import secrets  # allowed: names of keys and ledgers, never noise

import sqlalchemy as sa
from sqlalchemy import Connection

from siloquent.ledger.backends.sql import FORMAT, KEPT_FOR_EVER, LEDGER, metadata

_STOP = "BEGIN SELECT RAISE(ABORT, 'a ledger is never changed'); END"
_SETTINGS = ("name", "parent", "accountant", "unit", "adjacency", "disclosures")
_OLD = "before_{}"

# REPLACE removes rows without firing a DELETE trigger, so existing rows are refused before the insert.
_TAKEN = {
    "ledger": "EXISTS (SELECT 1 FROM ledger)",
    "account": "EXISTS (SELECT 1 FROM account WHERE name = NEW.name)",
    "entry": "NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM entry)",
    "permit": "EXISTS (SELECT 1 FROM permit WHERE seq = NEW.seq OR key = NEW.key)",
    "answer": "EXISTS (SELECT 1 FROM answer WHERE seq = NEW.seq OR permit = NEW.permit)",
}


def fill(connection: Connection) -> None:
    """Create the tables of a new ledger, with their guards and its random id."""
    metadata.create_all(connection)
    name = secrets.token_hex(16)  # allowed: a name
    connection.execute(sa.insert(LEDGER), {"one": 1, "id": name, "format": FORMAT})
    _create_guards(connection)


def is_current(connection: Connection) -> bool:
    """Return whether the tables are as ``fill`` creates them: strict, and with all guards."""
    listed = connection.exec_driver_sql("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").all()
    strict = {name for name, is_strict in listed if is_strict}
    found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").all()
    # By their texts: a trigger of the right name could have an empty body.
    return strict >= set(metadata.tables) and {row[0]: row[1] for row in found} == _build_guards()


def rebuild(connection: Connection) -> None:
    """Copy every row into tables as ``fill`` creates them, within the transaction of ``connection``.

    Other processes with the file open continue with the new tables.
    """
    listed = "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'index') AND sql IS NOT NULL"
    for kind, name in connection.exec_driver_sql(listed).all():
        connection.exec_driver_sql(f'DROP {kind} "{name}"')
    for name in metadata.tables:
        connection.exec_driver_sql(f'ALTER TABLE "{name}" RENAME TO "{_OLD.format(name)}"')
    metadata.create_all(connection)
    for table in metadata.sorted_tables:
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        # A share's account follows its parent's, as foreign keys require.
        order = "name" if table.name == "account" else "1"
        connection.exec_driver_sql(
            f'INSERT INTO "{table.name}" ({names}) SELECT {names} FROM "{_OLD.format(table.name)}" ORDER BY {order}'
        )
    for table in reversed(metadata.sorted_tables):
        connection.exec_driver_sql(f'DROP TABLE "{_OLD.format(table.name)}"')
    _create_guards(connection)


def _create_guards(connection: Connection) -> None:
    for statement in _build_guards().values():
        connection.exec_driver_sql(statement)


def _build_guards() -> dict[str, str]:
    """Build triggers by name: no row of an entry, permit or answer changes, and only the numbers of an account do."""
    guards = {}
    for table in KEPT_FOR_EVER:
        for act in ("UPDATE", "DELETE"):
            name = f"{table.name}_no_{act.lower()}"
            guards[name] = f'CREATE TRIGGER "{name}" BEFORE {act} ON "{table.name}" {_STOP}'
    changed = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _SETTINGS)
    closed = "(OLD.successor IS NOT NULL AND NEW.successor IS NOT OLD.successor)"
    guards["account_no_delete"] = f"CREATE TRIGGER account_no_delete BEFORE DELETE ON account {_STOP}"
    guards["account_no_update"] = (
        f"CREATE TRIGGER account_no_update BEFORE UPDATE ON account WHEN {changed} OR {closed} {_STOP}"
    )
    for name, taken in _TAKEN.items():
        guards[f"{name}_no_replace"] = (
            f'CREATE TRIGGER {name}_no_replace BEFORE INSERT ON "{name}" WHEN {taken} {_STOP}'
        )
    return guards
