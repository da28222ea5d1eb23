"""The privacy ledger: a record of all charges, so that none is made twice, lost or silently changed.

Reserve the worst case, measure, settle: nothing leaves the process before it is settled.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_methods, keep_old_names
from siloquent.ledger.backends.memory import MemoryLedger
from siloquent.ledger.base import Account, Entry, Head, Ledger, LedgerVerdict, Permit, Receipt, SettledAnswer
from siloquent.ledger.base_ledger import BaseLedger
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.ledger.factory import adopt_ledger, open_ledger

__all__ = [
    "Account",
    "Checkpoint",
    "Entry",
    "Head",
    "Ledger",
    "LedgerVerdict",
    "MemoryLedger",
    "Permit",
    "Receipt",
    "SettledAnswer",
    "adopt_ledger",
    "open_ledger",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {"Stored": "SettledAnswer", "Verdict": "LedgerVerdict"},
    )
    keep_old_methods(Account, {"left_exact": "compute_remaining"})
    keep_old_methods(
        BaseLedger,
        {
            "account": "get_account",
            "accounts": "list_accounts",
            "held": "find_charge",
            "permit": "get_permit",
            "stored": "iter_answers",
            "entries": "iter_entries",
            "head": "read_head",
            "checkpoint": "create_checkpoint",
        },
    )
