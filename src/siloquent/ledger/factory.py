"""Opening of the ledger that a workspace file names."""

from __future__ import annotations

from pathlib import Path

from siloquent.errors import LedgerError
from siloquent.fixes import run
from siloquent.ledger.base import Ledger, LedgerVerdict
from siloquent.ledger.checkpoint import Checkpoint
from siloquent.ledger.head import HeadFile


def open_ledger(where: str | Path, *, head: Path | None = None, create: bool = False) -> Ledger:
    """Open the ledger in a SQLite file or a PostgreSQL database.

    Args:
        where: A path, or ``postgresql+psycopg://...``.
        head: Its head file; None: a restored backup is not detected.
        create: Create it if it does not exist.
    Raises:
        LedgerError: it cannot be used; LedgerRolledBack: it is older than ``head``.
        MissingExtra: PostgreSQL without psycopg.
    """
    # SQLAlchemy takes 0.1 s to import, so it is loaded only when a ledger is opened.
    text = str(where)
    if text.startswith(("postgresql://", "postgresql+psycopg://")):
        from siloquent.ledger.backends.postgres import PostgresLedger

        url = text.replace("postgresql://", "postgresql+psycopg://", 1)
        return PostgresLedger(url, head=head, create=create)
    if "://" in text:
        raise LedgerError(
            f"A ledger must be a file or a PostgreSQL database, not {text.partition(':')[0]!r}.",
            fix='[ledger] url = "ledger.sqlite"',
        )
    from siloquent.ledger.backends.sqlite import SQLiteLedger

    return SQLiteLedger(Path(text), head=head, create=create)


def adopt_ledger(where: str | Path, *, head: Path, checkpoint: Checkpoint | None = None) -> LedgerVerdict:
    """Write the missing ``head`` file of a ledger that its owner declares the newest copy.

    Returns:
        The verdict; the file is written only if verification finds no fault.
    Raises:
        LedgerError: the ledger cannot be used, or its head file already exists.
    """
    note = HeadFile(head)
    if note.read() is not None:
        raise LedgerError(f"{head.name} already exists: there is nothing to adopt.", fix=run("ledger verify"))
    ledger = open_ledger(where)
    try:
        verdict = ledger.verify(checkpoint)
        if verdict.ok:
            note.note(ledger.read_head())
        return verdict
    finally:
        ledger.close()
