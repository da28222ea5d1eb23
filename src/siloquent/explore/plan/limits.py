"""Planning limits for new queries, which do not apply to queries that were answered before.

If a later version tightens a limit, an old answer must remain available to the holder of its key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from siloquent.privacy import FREE, Composed, Event

_lifted: ContextVar[bool] = ContextVar("lifted", default=False)
_paid: ContextVar[Event] = ContextVar("paid", default=FREE)


@contextmanager
def lifted(when: bool = True, *, paid: Event = FREE) -> Iterator[None]:
    """Plan without limits in this block, if ``when``: for a query that was planned and reserved before.

    Args:
        paid: The reserved event, for ``was_paid``.
    """
    before, paid_before = _lifted.set(when or _lifted.get()), _paid.set(paid if when else _paid.get())
    try:
        yield
    finally:
        _lifted.reset(before)
        _paid.reset(paid_before)


def was_paid(event: Event) -> bool:
    """Return whether ``event`` is all or part of the event charged for the old answer planned here."""
    paid = _paid.get()
    return event == paid or (isinstance(paid, Composed) and event in paid.parts)


@contextmanager
def standing() -> Iterator[None]:
    """Plan with limits in this block, lifted or not, where they choose between two plans; old answers keep theirs."""
    before = _lifted.set(False)
    try:
        yield
    finally:
        _lifted.reset(before)


def are_lifted() -> bool:
    """Return whether limits are lifted here."""
    return _lifted.get()


def passes(size: int, most: int) -> bool:
    """Return whether ``size`` is refused because it exceeds ``most``."""
    return size > most and not _lifted.get()
