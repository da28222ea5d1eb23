"""The ledger in a PostgreSQL database: for servers with several processes or machines."""

from __future__ import annotations

import secrets  # allowed: names of keys and ledgers, never noise
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from siloquent.errors import LedgerError, MissingExtra
from siloquent.fixes import FixLike, run
from siloquent.ledger.backends.database import DatabaseLedger
from siloquent.ledger.backends.sql import FORMAT, KEPT_FOR_EVER, LEDGER, metadata
from siloquent.ledger.base_ledger import CrashPoints

_MAKING = 0x51_10_9E_17  # the advisory lock under which tables are created


class PostgresLedger(DatabaseLedger):
    """A ledger whose writers lock its single row during a transaction; commits are always synchronous.

    Args:
        url: ``postgresql+psycopg://host/database``; the password comes from PGPASSWORD or ~/.pgpass.
        head: The head file of this machine, or None.
    Raises:
        MissingExtra: psycopg is not installed.
        LedgerError: no connection, no ledger in the database, or of another format.
    """

    def __init__(
        self, url: str, *, head: Path | None = None, create: bool = False, crash_points: CrashPoints | None = None
    ) -> None:
        try:
            engine = sa.create_engine(url, poolclass=NullPool, connect_args={"options": "-c synchronous_commit=on"})
        except ModuleNotFoundError:
            raise MissingExtra("postgres", "A ledger in PostgreSQL") from None
        except (sa.exc.ArgumentError, ValueError):  # a port that is not a number
            raise LedgerError("The ledger's URL is not valid.", fix="postgresql+psycopg://HOST/DATABASE") from None
        self._is_made_new = create
        super().__init__(engine, head=head, make=partial(_make, engine) if create else None, crash_points=crash_points)

    def _begin_write(self, connection: Connection) -> None:
        # The chain has one end, so writers are serialised anyway; they then read the newest state.
        connection.execute(sa.select(LEDGER.c.one).with_for_update())

    def _begin_snapshot(self, connection: Connection) -> None:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def _rebuild(self) -> bool:
        connection = self._get_connection()
        enabled = sa.text("SELECT tgname FROM pg_trigger WHERE tgenabled = 'O' AND NOT tgisinternal")
        if set(connection.execute(enabled).scalars()) >= _TRIGGERS:
            return False  # re-creating them requires the tables' owner, which a server need not be
        _create_guards(connection)
        for table in metadata.tables:
            connection.exec_driver_sql(f'ALTER TABLE "{table}" ENABLE TRIGGER USER')
        return True

    def _explain(self, failed: DBAPIError) -> tuple[str, FixLike, int]:
        what, fix = _FAILURES.get(_get_error_class(failed), ("cannot be used", run("doctor")))
        status = 503 if _get_error_class(failed) in _PASSING else 500
        if self._is_made_new and _get_error_class(failed) == "3D":
            fix = "create the database with createdb, then try again"
        return f"The ledger's database {what}.", fix, status

    def _may_stand(self, failed: DBAPIError) -> bool:
        # A connection that broke while the server committed does not reveal the outcome.
        return _get_error_class(failed) in ("", "08", "57")


def _get_error_class(failed: DBAPIError) -> str:
    """Return the class of the server's error code; empty if the connection itself failed."""
    state = str(getattr(failed.orig, "sqlstate", "") or "")[:2]
    if state:
        return state
    # A refused connection has no code; if the server uses another language, the message is "cannot be reached".
    words = str(failed.orig)
    return next((code for sign, code in _REFUSALS if sign in words), "")


_REFUSALS = (("does not exist", "3D"), ("authentication failed", "28"), ("no password supplied", "28"))


_RESTORE = "restore the newest copy as described in docs/how-to/restore-a-backup.md"
"""The fix for a missing or damaged ledger: restore a copy, since a new ledger would lose all recorded charges."""
_PASSING = ("", "08", "53", "57")
"""The classes that end without a change of the workspace."""
_FAILURES = {
    "": ("cannot be reached", "start the server, and check [ledger] url in siloquent.toml"),
    "08": ("cannot be reached", "start the server, and check [ledger] url in siloquent.toml"),
    "28": ("refuses this user", "check the user and PGPASSWORD or ~/.pgpass"),
    "3D": ("does not exist", f"correct [ledger] url, or {_RESTORE}"),
    "42": ("contains no ledger that this user may read", f"grant this user access to its tables, or {_RESTORE}"),
    "53": ("has no disk space left or too many connections", "free space or connections on the server, then try again"),
    "57": ("is shutting down", "try again when the server is back"),
}


def _make(engine: sa.Engine) -> None:
    """Create the tables, unless they exist."""
    with engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
        if sa.inspect(connection).has_table(LEDGER.name):
            return
        metadata.create_all(connection)
        _create_guards(connection)
        name = secrets.token_hex(16)  # allowed: a name
        connection.execute(sa.insert(LEDGER), {"one": 1, "id": name, "format": FORMAT})
    engine.dispose()


def _create_guards(connection: Connection) -> None:
    """Create triggers under which rows are only appended to the chain, and only the numbers of accounts change."""
    for statement in _GUARDS:
        connection.exec_driver_sql(statement)
    for table in KEPT_FOR_EVER:
        connection.exec_driver_sql(
            f'CREATE OR REPLACE TRIGGER "{table.name}_is_never_changed" BEFORE UPDATE OR DELETE OR TRUNCATE '
            f'ON "{table.name}" FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_never_changed()'
        )


_TRIGGERS = {"account_keeps_its_settings", "account_is_never_removed", "entry_is_the_next"} | {
    f"{table.name}_is_never_changed" for table in KEPT_FOR_EVER
}
_GUARDS = (
    "CREATE OR REPLACE FUNCTION ledger_is_never_changed() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'a ledger is never changed'; END $$",
    "CREATE OR REPLACE FUNCTION account_keeps_its_settings() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF (NEW.name, NEW.parent, NEW.accountant, NEW.unit, NEW.adjacency, NEW.disclosures) IS DISTINCT FROM "
    "(OLD.name, OLD.parent, OLD.accountant, OLD.unit, OLD.adjacency, OLD.disclosures) "
    "OR (OLD.successor IS NOT NULL AND NEW.successor IS DISTINCT FROM OLD.successor) "
    "THEN RAISE EXCEPTION 'a ledger is never changed'; END IF; RETURN NEW; END $$",
    "CREATE OR REPLACE FUNCTION entry_is_the_next() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entry) "
    "THEN RAISE EXCEPTION 'a ledger is never changed'; END IF; RETURN NEW; END $$",
    "CREATE OR REPLACE TRIGGER account_keeps_its_settings BEFORE UPDATE ON account "
    "FOR EACH ROW EXECUTE FUNCTION account_keeps_its_settings()",
    "CREATE OR REPLACE TRIGGER account_is_never_removed BEFORE DELETE OR TRUNCATE ON account "
    "FOR EACH STATEMENT EXECUTE FUNCTION ledger_is_never_changed()",
    "CREATE OR REPLACE TRIGGER entry_is_the_next BEFORE INSERT ON entry "
    "FOR EACH ROW EXECUTE FUNCTION entry_is_the_next()",
)
