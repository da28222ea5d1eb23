"""A ledger in a database: transactions, one connection per thread and none across a fork, and readable errors."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from siloquent.errors import LedgerError
from siloquent.fixes import FixLike, run
from siloquent.ledger.backends.forks import TransactionGate, register_forks
from siloquent.ledger.backends.sql import FORMAT, LEDGER, SqlStorage
from siloquent.ledger.backends.storage import LedgerStorage
from siloquent.ledger.base_ledger import BaseLedger, CrashPoints
from siloquent.ledger.head import HeadFile


class DatabaseLedger(BaseLedger):
    """The common part of SQLite and PostgreSQL ledgers; subclasses create the engine and begin transactions."""

    head_required = False
    """Whether a ledger with entries but without its head file is refused."""

    def __init__(
        self,
        engine: Engine,
        *,
        head: Path | None,
        make: Callable[[], None] | None = None,
        crash_points: CrashPoints | None = None,
    ) -> None:
        self._engine, self._crash_points = engine, crash_points
        self._head = None if head is None else HeadFile(head, required=self.head_required)
        self._threads, self._connections = threading.local(), weakref.WeakSet[Connection]()
        self.moments = TransactionGate()
        register_forks(self)
        with self.moments.enter_transaction(), self._translate_errors():
            if make is not None:
                make()
            with self._get_connection().begin():
                self._id = self._read_ledger_id()
        with self._read() as books:
            if self._head is not None:
                self._head.check(books)
                self._head.note(books.get_head())

    @property
    def id(self) -> str:
        return self._id

    def _wait_for_turn(self) -> AbstractContextManager[None]:
        """Wait for this writer's turn, instead of the database's polling."""
        return nullcontext()

    @abstractmethod
    def _begin_write(self, connection: Connection) -> None:
        """Make this transaction the only writer."""

    @abstractmethod
    def _begin_snapshot(self, connection: Connection) -> None:
        """Give this transaction a constant view of the database."""

    @abstractmethod
    def _explain(self, failed: DBAPIError) -> tuple[str, FixLike, int]:
        """Describe a database failure for the user: the problem, the fix, and a server's status."""

    @abstractmethod
    def _may_stand(self, failed: DBAPIError) -> bool:
        """Return whether a commit that failed with ``failed`` may nevertheless be durable."""

    def _read_ledger_id(self) -> str:
        row = self._get_connection().execute(sa.select(LEDGER)).first()
        if row is None or row.format != FORMAT:
            raise LedgerError(
                f"The ledger has format {row.format if row else 'none'}; this version reads {FORMAT}.",
                fix="pip install --upgrade siloquent",
            )
        return str(row.id)

    def _get_connection(self) -> Connection:
        """Return this thread's connection, opening one if it has none."""
        connection: Connection | None = getattr(self._threads, "connection", None)
        if connection is None or connection.closed or connection.invalidated:
            connection = self._engine.connect()
            self._threads.connection = connection
            self._connections.add(connection)
        return connection

    def _drop_connection(self) -> None:
        """Drop this thread's connection: after a failure, only that reliably ends the transaction it had begun."""
        connection: Connection | None = getattr(self._threads, "connection", None)
        self._threads.connection = None
        if connection is not None and not connection.closed:
            connection.invalidate()
            connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as failed:
            self._drop_connection()
            what, fix, status = self._explain(failed)
            raise LedgerError(f"{what} Nothing was charged.", fix=fix, http_status=status) from None
        except SQLAlchemyError:
            self._drop_connection()
            raise LedgerError("The ledger's database does not respond.", fix=run("doctor")) from None

    @contextmanager
    def _write(self, point: str) -> Iterator[LedgerStorage]:
        with self.moments.enter_transaction():
            with self._translate_errors(), self._wait_for_turn():
                connection = self._get_connection()
                with connection.begin() as transaction:
                    self._begin_write(connection)
                    books = SqlStorage(connection, self._id)
                    if self._head is not None:
                        self._head.check(books)
                    yield books
                    newest = books.get_head()
                    self._pass_point(f"before-{point}-commit")
                    with self._report_doubt():
                        transaction.commit()
            self._pass_point(f"after-{point}-commit")
            if self._head is not None:
                self._head.note(newest)

    @contextmanager
    def _report_doubt(self) -> Iterator[None]:
        """Report a failure after which the charge may or may not stand; only a retry with the key can tell."""
        try:
            yield
        except DBAPIError as failed:
            if not self._may_stand(failed):
                raise
            self._drop_connection()
            what, fix, status = self._explain(failed)
            raise LedgerError(
                f"{what} It failed while recording the charge.",
                http_status=status,
                fix=f"{fix}; then repeat with the same key",
                spent="at most what was asked; a repeat with the same key costs no more",
            ) from None

    def _pass_point(self, point: str) -> None:
        if self._crash_points is not None:
            self._crash_points(point)

    @contextmanager
    def _read(self) -> Iterator[LedgerStorage]:
        with self.moments.enter_transaction(), self._translate_errors():
            connection = self._get_connection()
            with connection.begin():
                yield SqlStorage(connection, self._id)

    @contextmanager
    def _open_snapshot(self) -> Iterator[LedgerStorage]:
        with self.moments.enter_transaction(), self._translate_errors():
            connection = self._get_connection()
            with connection.begin():
                self._begin_snapshot(connection)
                yield SqlStorage(connection, self._id)

    def close_connections(self) -> None:
        for connection in list(self._connections):
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        with self.moments.exclude_transactions():
            self.close_connections()
            self._engine.dispose()
