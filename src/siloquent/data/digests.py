"""Digests of sources: equal digests mean equal rows. They never leave the session, which keys those that it stores.

Files are hashed once, in byte order, and again only if inode, size or modification time has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.schema.formats.reading import Reading

BLOCK_BYTES = 2**20
MAX_KEPT = 1_000
_State = tuple[int, int, int, int, int]
_kept: dict[tuple[str, _State], bytes] = {}
_lock = Lock()


def hash_files(*paths: str) -> bytes:
    """Return SHA-256 of the contents of the files in turn; a missing file is hashed as missing."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(_hash_file(path))
    return whole.digest()


def _hash_file(path: str) -> bytes:
    try:
        state = _read_state(path)
    except FileNotFoundError:
        return b"none"
    with _lock:
        known = _kept.get((path, state))
    if known is None:
        known = _read(path)
        if _read_state(path) != state:
            raise OSError("the file changed while it was read")
        with _lock:
            if len(_kept) >= MAX_KEPT:
                _kept.clear()
            _kept[path, state] = known
    return known


def _read_state(path: str) -> _State:
    found = os.stat(path, follow_symlinks=False)
    # The change time is included too: the modification time can be set back.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: str) -> bytes:
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as opened:
        while block := opened.read(BLOCK_BYTES):
            found.update(block)
    return found.digest()


def prepare_file_digest(paths: Sequence[str], reading: Reading) -> Callable[[], bytes]:
    """Return a function that hashes the contents of files, and how they are read."""
    return lambda: _add_reading(hash_files(*paths), reading)


def _add_reading(digest: bytes, reading: Reading) -> bytes:
    """Return a digest of rows and of how they are read: read in another way, they are other rows."""
    return digest if reading.is_plain else hashlib.sha256(digest + reading.digest()).digest()


def prepare_frame_digest(frame: pa.Table, columns: Sequence[str], reading: Reading) -> Callable[[], bytes]:
    """Return a function that hashes the ``columns`` of ``frame`` once, on demand: names, types and buffers."""

    @cache
    def digest() -> bytes:
        import pyarrow as pa

        wanted = {column.casefold() for column in columns}
        chosen = [name for name in frame.column_names if name.casefold() in wanted]
        plain = pa.table({name: frame.column(name) for name in sorted(chosen)})  # without the frame's metadata
        hashed = _Hash()
        with pa.ipc.new_stream(pa.PythonFile(hashed, "w"), plain.schema) as stream:
            stream.write_table(plain, max_chunksize=BLOCK_BYTES)
        return _add_reading(hashed.found.digest(), reading)

    return digest


def prepare_name_digest(kind: str, where: str, reading: Reading | None = None) -> Callable[[], bytes]:
    """Return the digest of a source that cannot detect changes: of its address, so that only ``version`` counts."""
    found = hashlib.sha256(f"{kind}:{where}".encode()).digest()
    return lambda: found if reading is None else _add_reading(found, reading)


class _Hash:
    """A file object that keeps only the SHA-256 of what is written."""

    closed = False

    def __init__(self) -> None:
        self.found = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.found.update(data)
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
