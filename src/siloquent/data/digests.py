"""Digests of sources: equal ones hold the same rows. They never leave the session, which keys what it keeps.

Files are read once for it, in the order of their bytes, and again only when inode, size or time of writing are others.
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

BLOCK_BYTES = 2**20
MAX_KEPT = 1_000
_State = tuple[int, int, int, int, int]
_kept: dict[tuple[str, _State], bytes] = {}
_lock = Lock()


def hash_files(*paths: str) -> bytes:
    """SHA-256 of the contents of files in turn; one that is not there counts as such."""
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
    # The time of the last change of any kind, too: the time of writing can be set back.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(path: str) -> bytes:
    found = hashlib.sha256()
    with open(path, "rb", buffering=0) as opened:
        while block := opened.read(BLOCK_BYTES):
            found.update(block)
    return found.digest()


def prepare_frame_digest(frame: pa.Table, columns: Sequence[str]) -> Callable[[], bytes]:
    """How the ``columns`` of ``frame`` are hashed, once, when it is asked for: their names, types and buffers."""

    @cache
    def digest() -> bytes:
        import pyarrow as pa

        wanted = {column.casefold() for column in columns}
        chosen = [name for name in frame.column_names if name.casefold() in wanted]
        plain = pa.table({name: frame.column(name) for name in sorted(chosen)})  # without metadata of the frame's maker
        hashed = _Hash()
        with pa.ipc.new_stream(pa.PythonFile(hashed, "w"), plain.schema) as stream:
            stream.write_table(plain, max_chunksize=BLOCK_BYTES)
        return hashed.found.digest()

    return digest


def prepare_name_digest(kind: str, where: str) -> Callable[[], bytes]:
    """The digest of a source that cannot tell whether it changed: of its address, so that ``version`` alone counts."""
    return lambda: hashlib.sha256(f"{kind}:{where}".encode()).digest()


class _Hash:
    """A file that keeps the SHA-256 of what is written, and nothing else."""

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
