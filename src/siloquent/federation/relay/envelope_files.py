"""The relay's large envelopes: one file each, named by its digest, durable before a row of the store names it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

INLINE_BYTES = 2**20  # larger envelopes are separate files
ORPHAN_S = 3_600  # a file without a row belongs to a put in progress; after this time it is an orphan


class EnvelopeFiles:
    """The files in ``folder``; without one, as for a store in memory, every envelope stays in its row."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def has_room(self, size: int) -> bool:
        """Return whether the disk has ``size`` bytes free."""
        return self._folder is None or shutil.disk_usage(self._folder).free >= size

    def write(self, digest: str, wire: bytes) -> bytes | None:
        """Return the bytes for the row; None once a large envelope is stored on disk under its digest."""
        if self._folder is None or len(wire) <= INLINE_BYTES:
            return wire
        path = self._folder / digest
        if path.exists():
            os.utime(path)  # left by a killed put: it is no orphan any more
            return None
        beside = self._folder / f"{digest}.{threading.get_ident()}"
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(wire)
            out.flush()
            os.fsync(out.fileno())
        beside.rename(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name, too, must be durable before the row refers to it
        finally:
            os.close(folder)
        return None

    def read(self, digest: str) -> bytes:
        """Return a large envelope."""
        assert self._folder is not None
        return (self._folder / digest).read_bytes()

    def drop(self, digests: Iterable[str]) -> None:
        """Remove files that no row needs any more."""
        for digest in digests:
            if self._folder is not None:
                (self._folder / digest).unlink(missing_ok=True)

    def drop_orphans(self, now: int, named: Collection[str]) -> None:
        """Remove the files, except those ``named`` by rows, that killed puts and earlier versions left."""
        if self._folder is None:
            return
        for file in self._folder.iterdir():
            with suppress(FileNotFoundError):  # acknowledged in the meantime
                if file.name not in named and now - file.stat().st_mtime > ORPHAN_S:
                    file.unlink()
