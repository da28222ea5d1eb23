"""Checkpoints, to be kept elsewhere: only a copy out of reach of the ledger's host reveals truncation or rollback."""

from __future__ import annotations

import json
from dataclasses import dataclass

from siloquent.errors import LedgerError, RequestError
from siloquent.fixes import build_fix, run
from siloquent.foreign import load_json
from siloquent.privacy.accountants import Cost

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of ledger ``ledger`` at one moment, and the amount each account had spent by then."""

    ledger: str
    seq: int
    hash: str
    spent: dict[str, Cost]

    def to_json(self) -> str:
        """Return one line of JSON with sorted keys."""
        spent = {name: [cost.amount, cost.delta] for name, cost in self.spent.items()}
        facts = {"format": FORMAT, "ledger": self.ledger, "seq": self.seq, "hash": self.hash, "spent": spent}
        return json.dumps(facts, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Checkpoint:
        """Parse the checkpoint that ``text`` was written from.

        Raises:
            LedgerError: Not a checkpoint, or of another format.
        """
        fix = build_fix(run("ledger checkpoint", "-o", "FILE"), " writes a new one")
        try:
            facts = load_json(text)
            if facts["format"] != FORMAT:
                raise LedgerError(f"The checkpoint has format {facts['format']!r}, not {FORMAT}.", fix=fix)
            spent = {str(name): Cost(amount, delta) for name, (amount, delta) in facts["spent"].items()}
            return cls(str(facts["ledger"]), int(facts["seq"]), str(facts["hash"]), spent)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, RequestError) as broken:
            raise LedgerError("The text is not a ledger checkpoint.", fix=fix) from broken
