"""Marks of a source in the chain: whether rows are still those of an earlier answer, told to the ledger's folder alone.

Why, and what follows for privacy: docs/decisions/marks-of-sources.md.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets  # allowed: a key and names, never noise
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from siloquent.errors import LedgerError

KEY_BYTES = 32
NOT_SEEN = "-"
"""The mark of an answer that was computed while its source could not be opened: it fits no source."""
_FORM = "1"
_IN_MEMORY = secrets.token_bytes(KEY_BYTES)  # allowed: a key


def load_mark_key(file: Path) -> bytes:
    """The secret in ``file``, which is made, for its owner alone, if it is not there.

    Raises:
        LedgerError: It cannot be made or read.
    """
    try:
        if not file.exists():
            _make(file)
        key = file.read_bytes()
    except OSError as failed:
        raise LedgerError(
            f"{file.name} cannot be used: {failed.strerror}.", fix=f"make {file.parent} writable for its owner"
        ) from None
    if len(key) != KEY_BYTES:
        raise LedgerError(
            f"{file.name} is not a key of {KEY_BYTES} bytes.",
            fix=f"restore it, or remove it: earlier answers are then not drawn from ({file})",
        )
    return key


def get_memory_key(ledger: str) -> bytes:
    """The secret of a ledger that lives in this process alone."""
    return hmac.digest(_IN_MEMORY, ledger.encode(), "sha256")


def _make(file: Path) -> None:
    building = file.with_name(f"{file.name}.{secrets.token_hex(8)}")  # allowed: a name
    handle = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, secrets.token_bytes(KEY_BYTES))  # allowed: a key
        os.fsync(handle)
    finally:
        os.close(handle)
    with suppress(FileExistsError):  # another process was first: its key counts
        os.link(building, file)
    os.unlink(building)


class SourceMark:
    """The marks of one source under one account and secret.

    Args:
        key: The folder's secret.
        account: The table's account: equal files of two tables have nothing in common in the ledger.
        digest: Of the source, as the data room computes it.
    Privacy:
        A mark is an HMAC with a nonce of its own: without the secret, marks of one source and of two cannot be told
        apart, so a reader of the ledger learns nothing from them, not even whether rows changed.
    """

    def __init__(self, key: bytes, account: str, digest: bytes) -> None:
        self._key, self._account, self._digest = key, account, digest
        self.fits = lru_cache(10_000)(self._is_match)  # asked of each earlier answer at each question

    def draw_mark(self) -> str:
        """A new mark of the source, for an entry."""
        return self._mark(secrets.token_hex(8))  # allowed: a nonce

    def _mark(self, nonce: str) -> str:
        text = f"{_FORM}|{self._account}|{nonce}|".encode() + self._digest
        return f"{_FORM}:{nonce}:{hmac.digest(self._key, text, hashlib.sha256).hex()[:32]}"

    def _is_match(self, mark: str) -> bool:
        """Whether ``mark`` was made of this very source; entries from before there were marks ("") always fit."""
        parts = mark.split(":")
        return not mark or (len(parts) == 3 and hmac.compare_digest(self._mark(parts[1]), mark))
