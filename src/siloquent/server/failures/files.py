"""Failures of the server's own files: locked, out of space, read-only, unreadable or damaged, told apart."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

BUSY_SECONDS = 10
"""How long a statement waits for a lock; then Retry-After of a locked file."""
OPERATOR_SECONDS = 300
"""Retry-After where somebody has to repair something first: longer than clients wait by themselves."""


@dataclass(frozen=True, slots=True)
class FileFailure:
    """The failure of a file of the server, as a refusal states it. Where this is raised nothing was charged."""

    code: str
    title: str
    detail: str
    fix: str
    status: int = 503
    retry_seconds: int = OPERATOR_SECONDS


BUSY = FileFailure(
    "store_busy",
    "Busy",
    f"Another program has locked one of the server's files for {BUSY_SECONDS} seconds.",
    "send it again; if it stays so, the administrator finds the program that holds server.sqlite",
    retry_seconds=BUSY_SECONDS,
)
FULL = FileFailure(
    "disk_full",
    "Disk full",
    "The server's disk is full.",
    "the administrator makes room on the disk of the workspace, then send it again",
    status=507,
)
READ_ONLY = FileFailure(
    "store_readonly",
    "Read-only",
    "The server may not write its own files.",
    "the administrator corrects the permissions of the workspace and what its disk is mounted as, then send it again",
)
UNREADABLE = FileFailure(
    "store_unreadable",
    "Input/output error",
    "The server could not read or write one of its files.",
    "the administrator checks the disk (dmesg) and the limits of the service, then send it again",
)
DAMAGED = FileFailure(
    "store_damaged",
    "Damaged file",
    "One of the server's files is damaged.",
    "the administrator stops the server and puts server.sqlite back from a backup; no charge is in it",
)
FAILURES = (BUSY, FULL, READ_ONLY, UNREADABLE, DAMAGED)

_OF_SQLITE: Mapping[int, FileFailure] = MappingProxyType(
    {
        sqlite3.SQLITE_BUSY: BUSY,
        sqlite3.SQLITE_LOCKED: BUSY,
        sqlite3.SQLITE_PROTOCOL: BUSY,
        sqlite3.SQLITE_FULL: FULL,
        sqlite3.SQLITE_READONLY: READ_ONLY,
        sqlite3.SQLITE_PERM: READ_ONLY,
        sqlite3.SQLITE_CANTOPEN: READ_ONLY,
        sqlite3.SQLITE_IOERR: UNREADABLE,
        sqlite3.SQLITE_CORRUPT: DAMAGED,
        sqlite3.SQLITE_NOTADB: DAMAGED,
    }
)
_OF_SYSTEM: Mapping[int, FileFailure] = MappingProxyType(
    {
        errno.ENOSPC: FULL,
        errno.EDQUOT: FULL,
        errno.EROFS: READ_ONLY,
        errno.EACCES: READ_ONLY,
        errno.EPERM: READ_ONLY,
        errno.EIO: UNREADABLE,
        errno.EFBIG: UNREADABLE,
    }
)


def explain_file_failure(error: BaseException) -> FileFailure | None:
    """Return what ``error`` says of the server's files; None if it is another error, such as a bug of ours.

    >>> explain_file_failure(OSError(28, "No space left on device")).code
    'disk_full'
    """
    if isinstance(error, sqlite3.Error):
        # The lowest byte is the kind; the others say more than anybody needs.
        return _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return _OF_SYSTEM.get(error.errno or 0) if isinstance(error, OSError) else None
