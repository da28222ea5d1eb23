"""Bounds on what is planned of a new question, which a question that was answered before does not meet.

A bound that a later version draws tighter must not take an old answer away from the one who holds its key.
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
    """Plan without bounds in this block, if ``when``: for what was reserved, and so planned, before.

    Args:
        paid: What was reserved, for ``was_paid``.
    """
    before, paid_before = _lifted.set(when or _lifted.get()), _paid.set(paid if when else _paid.get())
    try:
        yield
    finally:
        _lifted.reset(before)
        _paid.reset(paid_before)


def was_paid(event: Event) -> bool:
    """Whether ``event`` is all or part of what the old answer that is planned here was charged for."""
    paid = _paid.get()
    return event == paid or (isinstance(paid, Composed) and event in paid.parts)


@contextmanager
def standing() -> Iterator[None]:
    """Plan with bounds in this block, lifted or not: where they choose between two plans, an old answer has its own."""
    before = _lifted.set(False)
    try:
        yield
    finally:
        _lifted.reset(before)


def are_lifted() -> bool:
    """Whether nothing is refused for its size here."""
    return _lifted.get()


def passes(size: int, most: int) -> bool:
    """Whether ``size`` is refused for being above ``most``."""
    return size > most and not _lifted.get()
