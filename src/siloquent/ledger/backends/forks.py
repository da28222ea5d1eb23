"""Fork safety: a process copied during a charge must not share locks or connections with its copy.

A copied file lock is held twice, so the copy waits for itself; a copied SQLite connection assumes that it holds
locks which only its parent has. Before each fork, every ledger of the process therefore finishes its transactions and
closes its connections; parent and child open their own when they next need one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol


class TransactionGate:
    """The transactions of one ledger in this process: a fork waits for them, and none begins meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._closed_by: int | None = None

    @contextmanager
    def enter_transaction(self) -> Iterator[None]:
        """Hold off forks during the block."""
        me = threading.get_ident()
        with self._changed:
            # A thread that is already inside must proceed, or the fork would wait forever.
            self._changed.wait_for(lambda: self._closed_by in (None, me) or self._inside[me] > 0)
            self._inside[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[me] -= 1
                self._inside += Counter()  # removes zero counts: threads come and go
                self._changed.notify_all()

    @contextmanager
    def exclude_transactions(self) -> Iterator[None]:
        """Run the block while no other thread is in a transaction and none can begin one."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._closed_by is None)
            self._closed_by = me
            self._changed.wait_for(lambda: not any(count for who, count in self._inside.items() if who != me))
            try:
                yield  # with the lock held: in a copy of the process, its only thread must hold it
            finally:
                self._closed_by = None
                self._changed.notify_all()


class Forkable(Protocol):
    """An object that is notified of forks."""

    moments: TransactionGate

    def close_connections(self) -> None:
        """Close every connection of the process; the next use opens a new one."""
        ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()
_forking = threading.RLock()
_quiet = ExitStack()


def register_forks(ledger: Forkable) -> None:
    """Notify ``ledger`` of every fork from now on, as long as it exists."""
    _known.add(ledger)


def _prepare_fork() -> None:
    _forking.acquire()  # two threads may fork at once
    for ledger in list(_known):
        _quiet.enter_context(ledger.moments.exclude_transactions())
        ledger.close_connections()


def _finish_fork() -> None:
    _quiet.close()
    _forking.release()


os.register_at_fork(before=_prepare_fork, after_in_parent=_finish_fork, after_in_child=_finish_fork)
