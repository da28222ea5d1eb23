"""Marks of a source in the chain: evidence, readable only in the ledger's folder, of whether rows have changed.

Reasons and effect on privacy: docs/decisions/marks-of-sources.md.
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
"""The mark of an answer computed while its source could not be opened; it matches no source."""
_FORM = "1"
_IN_MEMORY = secrets.token_bytes(KEY_BYTES)  # allowed: a key


def load_mark_key(file: Path) -> bytes:
    """Load the secret from ``file``, creating it for its owner only if it does not exist.

    Raises:
        LedgerError: It cannot be created or read.
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
            fix=f"restore it, or remove it: earlier answers are then not reused ({file})",
        )
    return key


def get_memory_key(ledger: str) -> bytes:
    """Return the secret of a ledger that exists only in this process."""
    return hmac.digest(_IN_MEMORY, ledger.encode(), "sha256")


def _make(file: Path) -> None:
    building = file.with_name(f"{file.name}.{secrets.token_hex(8)}")  # allowed: a name
    handle = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, secrets.token_bytes(KEY_BYTES))  # allowed: a key
        os.fsync(handle)
    finally:
        os.close(handle)
    with suppress(FileExistsError):  # another process was first, so its key is used
        os.link(building, file)
    os.unlink(building)


class SourceMark:
    """The marks of one source under one account and secret.

    Args:
        key: The folder's secret.
        account: The table's account, so that equal files of two tables have unrelated marks.
        digest: The source's digest, computed by the data layer.
    Privacy:
        A mark is an HMAC with its own nonce: without the secret, marks of the same source are indistinguishable from
        marks of different sources, so a reader of the ledger learns nothing from them, not even whether rows changed.
    """

    def __init__(self, key: bytes, account: str, digest: bytes) -> None:
        self._key, self._account, self._digest = key, account, digest
        self.fits = lru_cache(10_000)(self._is_match)  # cached: checked for each earlier answer at each query

    def draw_mark(self) -> str:
        """Draw a new mark of the source, for an entry."""
        return self._mark(secrets.token_hex(8))  # allowed: a nonce

    def _mark(self, nonce: str) -> str:
        text = f"{_FORM}|{self._account}|{nonce}|".encode() + self._digest
        return f"{_FORM}:{nonce}:{hmac.digest(self._key, text, hashlib.sha256).hex()[:32]}"

    def _is_match(self, mark: str) -> bool:
        """Return whether ``mark`` is of this source; entries from before marks existed ("") always match."""
        parts = mark.split(":")
        return not mark or (len(parts) == 3 and hmac.compare_digest(self._mark(parts[1]), mark))
