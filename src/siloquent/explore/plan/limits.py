"""Bounds on what is planned of a new question, which a question that was answered before does not meet.

A bound that a later version draws tighter must not take an old answer away from the one who holds its key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_lifted: ContextVar[bool] = ContextVar("lifted", default=False)


@contextmanager
def lifted(when: bool = True) -> Iterator[None]:
    """Plan without bounds in this block, if ``when``: for what was reserved, and so planned, before."""
    before = _lifted.set(when or _lifted.get())
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
