"""A ledger in a database: transactions, one connection a thread and none across a fork, failures in plain words."""

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
from siloquent.ledger.books import Books
from siloquent.ledger.forks import Moments, survives_forks
from siloquent.ledger.head import HeadFile
from siloquent.ledger.keeper import CrashPoints, Keeper
from siloquent.ledger.sql import FORMAT, LEDGER, SqlBooks


class DatabaseLedger(Keeper):
    """What SQLite and PostgreSQL ledgers share; a subclass makes the engine, and says how transactions begin."""

    head_required = False
    """Whether entries without a head file beside them are refused."""

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
        self.moments = Moments()
        survives_forks(self)
        with self.moments.one(), self._plain_words():
            if make is not None:
                make()
            with self._connected().begin():
                self._id = self._recognised()
        with self._read() as books:
            if self._head is not None:
                self._head.check(books)
                self._head.note(books.head())

    @property
    def id(self) -> str:
        return self._id

    def _turn(self) -> AbstractContextManager[None]:
        """Wait for one's turn to write, where the database itself would only poll."""
        return nullcontext()

    @abstractmethod
    def _begin_write(self, connection: Connection) -> None:
        """Make this transaction the only one that writes."""

    @abstractmethod
    def _begin_snapshot(self, connection: Connection) -> None:
        """Make what this transaction reads stand still."""

    @abstractmethod
    def _explain(self, failed: DBAPIError) -> tuple[str, str]:
        """The database's failure in words that a person can act on: what is wrong, and the fix."""

    @abstractmethod
    def _may_stand(self, failed: DBAPIError) -> bool:
        """Whether a commit that ended in ``failed`` may be durable all the same."""

    def _recognised(self) -> str:
        row = self._connected().execute(sa.select(LEDGER)).first()
        if row is None or row.format != FORMAT:
            raise LedgerError(
                f"The ledger has format {row.format if row else 'none'}; this version reads {FORMAT}.",
                fix="pip install --upgrade siloquent",
            )
        return str(row.id)

    def _connected(self) -> Connection:
        """This thread's connection, a new one where it has none."""
        connection: Connection | None = getattr(self._threads, "connection", None)
        if connection is None or connection.closed or connection.invalidated:
            connection = self._engine.connect()
            self._threads.connection = connection
            self._connections.add(connection)
        return connection

    def _let_go(self) -> None:
        """Drop this thread's connection: after a failure only that is sure to end what it had begun."""
        connection: Connection | None = getattr(self._threads, "connection", None)
        self._threads.connection = None
        if connection is not None and not connection.closed:
            connection.invalidate()
            connection.close()

    @contextmanager
    def _plain_words(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as failed:
            self._let_go()
            what, fix = self._explain(failed)
            raise LedgerError(f"{what} Nothing was charged.", fix=fix) from None
        except SQLAlchemyError:
            self._let_go()
            raise LedgerError("The ledger's database does not answer.", fix="siloquent doctor") from None

    @contextmanager
    def _write(self, point: str) -> Iterator[Books]:
        with self.moments.one():
            with self._plain_words(), self._turn():
                connection = self._connected()
                with connection.begin() as transaction:
                    self._begin_write(connection)
                    books = SqlBooks(connection, self._id)
                    if self._head is not None:
                        self._head.check(books)
                    yield books
                    newest = books.head()
                    self._at(f"before-{point}-commit")
                    with self._doubt():
                        transaction.commit()
            self._at(f"after-{point}-commit")
            if self._head is not None:
                self._head.note(newest)

    @contextmanager
    def _doubt(self) -> Iterator[None]:
        """Where a failure leaves open whether the charge stands, say so: only the key can settle it."""
        try:
            yield
        except DBAPIError as failed:
            if not self._may_stand(failed):
                raise
            self._let_go()
            what, fix = self._explain(failed)
            raise LedgerError(
                f"{what} It failed while it kept the charge.",
                fix=f"{fix}; then repeat with the same key",
                spent="at most what was asked; a repeat with the same key costs no more",
            ) from None

    def _at(self, point: str) -> None:
        if self._crash_points is not None:
            self._crash_points(point)

    @contextmanager
    def _read(self) -> Iterator[Books]:
        with self.moments.one(), self._plain_words():
            connection = self._connected()
            with connection.begin():
                yield SqlBooks(connection, self._id)

    @contextmanager
    def _snapshot(self) -> Iterator[Books]:
        with self.moments.one(), self._plain_words():
            connection = self._connected()
            with connection.begin():
                self._begin_snapshot(connection)
                yield SqlBooks(connection, self._id)

    def close_connections(self) -> None:
        for connection in list(self._connections):
            connection.close()
        self._connections.clear()

    def close(self) -> None:
        with self.moments.none():
            self.close_connections()
            self._engine.dispose()
