"""A worker's work in tests of process pools: it imports nothing that takes long."""

from __future__ import annotations


def raised(error: BaseException) -> None:
    """Raise ``error``."""
    raise error
