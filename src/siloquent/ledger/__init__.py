"""Floor 2: what was spent, kept so that nothing is ever spent twice, forgotten or changed in silence.

Reserve the worst case, measure, settle: nothing leaves the process before it is settled.
"""

from siloquent.ledger.base import Account, Entry, Head, Ledger, Permit, Receipt, Stored
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.ledger.memory import MemoryLedger
from siloquent.ledger.opening import adopt_ledger, open_ledger
from siloquent.ledger.verify import Verdict

__all__ = [
    "Account",
    "Checkpoint",
    "Entry",
    "Head",
    "Ledger",
    "MemoryLedger",
    "Permit",
    "Receipt",
    "Stored",
    "Verdict",
    "adopt_ledger",
    "open_ledger",
]
