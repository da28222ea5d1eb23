"""A ledger without a file."""

from siloquent.ledger import MemoryLedger

__all__ = ["MemoryLedger"]
