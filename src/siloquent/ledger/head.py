"""The head file: a record next to the database of the chain's newest entry, so that a restored backup is detected."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from siloquent.errors import LedgerError, LedgerRolledBack
from siloquent.fixes import build_fix, run
from siloquent.ledger.backends.storage import LedgerStorage
from siloquent.ledger.base import Head

_LINE = re.compile(r"([0-9]{1,18}) ([0-9a-f]{64})\n")
LOCK_SECONDS = 30.0
NEWEST = "this is the newest copy"
"""The owner's statement about a ledger whose head file is missing."""
_PAUSE_SECONDS = 0.0005  # far shorter than a commit; the kernel's own queue has no timeout


@contextmanager
def hold_exclusive_lock(lock: Path, *, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the lock file ``lock`` exclusively on this machine; the kernel releases it when the process dies.

    Raises:
        TimeoutError: another process, perhaps a stopped one, holds it for longer than ``seconds``.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process has held its lock for too long")
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class HeadFile:
    """A file with ``SEQ HASH`` on one line, overwritten after each commit and never moved backwards.

    The database may be ahead of it (if a process died between commit and update).

    Args:
        required: Refuse storage that has entries but no head file, such as a backup restored without it. Not for
            several machines sharing one database: a new machine has no head file yet.
    """

    def __init__(self, path: Path, *, required: bool = False) -> None:
        self.path, self.required = path, required
        self._lock = path.with_name(f"{path.name}.lock")

    def read(self) -> Head | None:
        """Return the contents of the file, or None if it does not exist.

        Raises:
            LedgerError: it is not a head file, or it cannot be locked.
        """
        try:
            with hold_exclusive_lock(self._lock):
                return self._read()
        except OSError as failed:
            raise LedgerError(
                f"{self._lock.name} cannot be opened: {failed.strerror}.", fix="correct the permissions of its folder"
            ) from None

    def _read(self) -> Head | None:
        try:
            found = _LINE.fullmatch(self.path.read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            found = None
        if found is None:
            raise LedgerError(
                f"{self.path.name} is not a ledger's head file.",
                fix=build_fix("restore it from a backup, then: ", run("ledger verify")),
            )
        return Head(int(found[1]), found[2])

    def check(self, books: LedgerStorage) -> None:
        """Refuse storage that is older than the head file, or has another history.

        Raises:
            LedgerRolledBack: the recorded entry is not in the storage, or a required head file is missing.
        """
        noted = self.read()
        if noted is None and self.required and books.get_head().seq:
            raise LedgerRolledBack(
                f"The ledger has {books.get_head().seq:,} entries and {self.path.name} is missing: "
                "this may be an older copy, which lacks recent charges.",
                fix=build_fix(
                    f"restore {self.path.name} next to it; if this is the newest copy, with your checkpoint's file if "
                    "you keep one: ",
                    run("ledger adopt", "--statement", NEWEST),
                ),
            )
        if noted is None or noted.seq == 0:
            return
        newest = books.find_newest_entry()
        entry = newest if newest is not None and newest.seq == noted.seq else books.find_entry(noted.seq)
        if entry is None or entry.hash != noted.hash:
            raise LedgerRolledBack(
                f"The ledger has no entry {noted.seq} with the hash that {self.path.name} records: "
                "it was replaced by an older copy, which lacks recent charges.",
                fix="restore the newest copy; if it is lost, the owner follows docs/how-to/restore-a-backup.md",
            )

    def note(self, head: Head) -> None:
        """Write ``head`` unless the file holds a later one.

        Raises:
            LedgerError: the folder cannot be written.
        """
        try:
            with hold_exclusive_lock(self._lock):
                noted = self._read()
                if noted is None:
                    self._make(head)
                elif noted.seq < head.seq:
                    self._overwrite(head)
        except OSError as failed:
            raise LedgerError(
                f"{self.path.name} cannot be written: {failed.strerror}. The charge itself is recorded.",
                fix="free disk space or correct the folder's permissions, then repeat with the same key",
                spent="what was reserved; a repeat with the same key costs no more",
            ) from None

    def _make(self, head: Head) -> None:
        building = self.path.with_name(f"{self.path.name}.new")
        handle = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, _format_line(head))
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(building, self.path)

    def _overwrite(self, head: Head) -> None:
        # In place: replacing the file took a fifth of a charge's time. A write within one sector is never torn, and
        # all readers hold the lock. Not synced: after a power cut an older head may return, and the database is ahead.
        handle = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(handle, _format_line(head), 0)
        finally:
            os.close(handle)


def _format_line(head: Head) -> bytes:
    """Format the line; all lines have the same length, so that a later one overwrites an earlier one."""
    return f"{head.seq:018d} {head.hash}\n".encode("ascii")
