"""Spending by account and task: totals of the ledger's charges, updated entry by entry."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.errors import ReleaseError
from siloquent.server.store import Store

if TYPE_CHECKING:
    from siloquent.api import Session

UNSAVED = "no release"  # charged without a release: an answer that failed or was not kept


@dataclass(slots=True)
class _Charge:
    """One reservation, lowered to its settled amount; ``seq`` is then the receipt's."""

    account: str
    amount: int
    seq: int = 0


class Spending:
    """Charges by table, analyst and task, as recorded by the ledger and the releases beside it."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder, self._store, self._lock = folder, store, threading.Lock()
        self._seq = 0
        self._charges: dict[int, _Charge] = {}
        self._tasks: dict[str, tuple[int, str]] = {}

    def list_lines(self, session: Session) -> list[dict[str, Any]]:
        """Return a line for each table, analyst and task, in that order; amounts are exact decimal text."""
        from siloquent.documents.ledger import format_exact_amount
        from siloquent.privacy import get_accountant

        with self._lock:
            self._read_on(session)
            released = {seq: (name, task) for name, (seq, task) in self._tasks.items() if seq}
            sums: dict[tuple[str, str, str], list[int]] = {}
            names = {row["id"]: row["name"] for row in self._store.fetch_all("SELECT id, name FROM release")}
            for charge in self._charges.values():
                release, task = released.get(charge.seq, ("", UNSAVED))
                account, _, analyst = charge.account.partition("/")
                total = sums.setdefault((account, analyst or names.get(release, ""), task), [0, 0])
                total[0], total[1] = total[0] + charge.amount, total[1] + 1
        accounts = {one.name: one for one in session.ledger.list_accounts()}
        return [
            {
                "account": account,
                "analyst": analyst,
                "task": task,
                "symbol": get_accountant(accounts[account].accountant).symbol,
                "spent": format_exact_amount(accounts[account], amount),
                "charges": charges,
            }
            for (account, analyst, task), (amount, charges) in sorted(sums.items())
        ]

    def _read_on(self, session: Session) -> None:
        from siloquent.releases import list_releases, read_manifest

        for entry in session.ledger.iter_entries(after=self._seq):
            self._seq = entry.seq
            if entry.kind == "reserve":
                self._charges[entry.seq] = _Charge(str(entry.body["account"]), int(entry.body["cost"][0]))
            elif entry.kind == "settle":
                charge = self._charges[int(entry.body["permit"])]
                charge.amount, charge.seq = int(entry.body["cost"][0]), entry.seq
        for name in list_releases(self._folder / "releases"):
            if name not in self._tasks:
                with suppress(ReleaseError):  # half-written or foreign: its charge is listed under its account only
                    manifest = read_manifest(self._folder / "releases" / name)
                    receipt = manifest.receipt
                    # A release of another ledger, perhaps from another silo, says nothing about a charge in this one.
                    seq = receipt.get("seq") if receipt.get("ledger") == session.ledger.id else 0
                    self._tasks[name] = seq if isinstance(seq, int) else 0, manifest.task
