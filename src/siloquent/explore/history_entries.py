"""The history of a table: queries, analysts and prices, read from the ledger at no cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from siloquent.errors import LedgerError
from siloquent.explore.spec.answers.answer import Label, find_weakest
from siloquent.explore.spec.stored_measurement import decode_measurements, read_request, read_table
from siloquent.privacy import format_digits, get_accountant

if TYPE_CHECKING:
    from siloquent.ledger import SettledAnswer
    from siloquent.session import WorkspaceSession


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One settled step of a query: ``paid`` in the account's epsilon or rho (``symbol``); 0 if it was free.

    ``request`` is empty for answers stored before queries were.
    """

    seq: int
    account: str
    request: str
    symbol: str
    paid: Fraction
    label: Label
    sources: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the entry as part of a document of kind ``siloquent/history/1``."""
        return {
            "seq": self.seq,
            "account": self.account,
            "request": self.request,
            "cost": {self.symbol: format_digits(self.paid, 6)},
            "label": self.label,
            "sources": list(self.sources),
        }


Describe = Callable[[bytes], str | None]
"""Returns the request of another task's stored release as text; None if it is not that task's."""


def list_history(
    session: WorkspaceSession, table: str, *, describe: Describe = lambda _: None
) -> tuple[HistoryEntry, ...]:
    """List the queries on ``table`` in this epoch, oldest first, as far as this session may see them.

    Args:
        describe: Describes releases of another task, which are listed as well.


    An analyst sees all queries if answers are shared, since any of them may be used, and only their own if
    ``sharing = "own"``. Without an analyst, all are seen.

    Raises:
        UnknownName, NotAllowed: the table is not declared, or this analyst has no share of it.
    """
    schema, account = session.schema(table), session.get_account(table)
    own = schema.budget.sharing == "own" and session.analyst is not None
    if not any(one.name == schema.account for one in session.ledger.list_accounts()):
        return ()  # opened by its first charge
    return tuple(
        one
        for stored in session.ledger.iter_answers(schema.account)
        if (not own or stored.account == account.name)
        and (not schema.entry_name or read_table(stored.payload) in ("", schema.entry_name))
        for one in _iter_entries(stored, schema.budget.accountant, describe)
    )


def _iter_entries(stored: SettledAnswer, name: Any, describe: Describe) -> Iterator[HistoryEntry]:
    book = get_accountant(name)
    entry = HistoryEntry(
        seq=stored.receipt.seq,
        account=stored.account,
        request="",
        symbol=book.symbol,
        paid=Fraction(stored.spent_after.amount - stored.spent_before.amount, book.scale),
        label="fresh",
        sources=(),
    )
    try:
        parts = decode_measurements(stored.payload)
    except LedgerError:  # another task's
        if request := describe(stored.payload):
            yield replace(entry, request=request)
        return
    yield replace(
        entry,
        request=read_request(stored.payload),
        label=find_weakest(part.label for part in parts),
        sources=tuple(sorted({seq for part in parts for seq in part.sources})),
    )
