"""From the text in a workspace file to a ledger."""

from __future__ import annotations

from pathlib import Path

from siloquent.errors import LedgerError
from siloquent.ledger.base import Ledger, LedgerVerdict
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.ledger.head import HeadFile


def open_ledger(where: str | Path, *, head: Path | None = None, create: bool = False) -> Ledger:
    """The ledger in a SQLite file or a PostgreSQL database.

    Args:
        where: A path, or ``postgresql+psycopg://..``.
        head: The head file beside it; None: a restored backup goes unnoticed.
        create: Make it if it is not there.
    Raises:
        LedgerError: it cannot be used; LedgerRolledBack: it is older than ``head``.
        MissingExtra: PostgreSQL without psycopg.
    """
    # SQLAlchemy takes a tenth of a second to import: only who opens a ledger pays for it.
    text = str(where)
    if text.startswith(("postgresql://", "postgresql+psycopg://")):
        from siloquent.ledger.postgres import PostgresLedger

        url = text.replace("postgresql://", "postgresql+psycopg://", 1)
        return PostgresLedger(url, head=head, create=create)
    if "://" in text:
        raise LedgerError(
            f"A ledger is a file or a PostgreSQL database, not {text.partition(':')[0]!r}.",
            fix='[ledger] url = "ledger.sqlite"',
        )
    from siloquent.ledger.sqlite import SQLiteLedger

    return SQLiteLedger(Path(text), head=head, create=create)


def adopt_ledger(where: str | Path, *, head: Path, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
    """Write the missing ``head`` file of a ledger whose owner says that it is the newest copy.

    Returns:
        What verification found; the file is written only if all is right.
    Raises:
        LedgerError: the ledger cannot be used, or its head file is there.
    """
    note = HeadFile(head)
    if note.read() is not None:
        raise LedgerError(f"{head.name} is there: nothing is to be adopted.", fix="siloquent ledger verify")
    ledger = open_ledger(where)
    try:
        verdict = ledger.verify(checkpoint)
        if verdict.ok:
            note.note(ledger.read_head())
        return verdict
    finally:
        ledger.close()
