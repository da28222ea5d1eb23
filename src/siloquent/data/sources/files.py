"""Files as sources: only plain files, named without links, and unchanged from opening to the last read."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from siloquent.errors import SchemaError

_PATTERN = re.compile(r"[*?\[\]{}]|://")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was when its table was opened."""

    path: str
    mark: tuple[int, int, int, int]

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self.mark[2]

    def is_unchanged(self) -> bool:
        """Return whether the file is still the same one, of the same size and modification time."""
        try:
            return _read_mark(self.path) == self.mark
        except OSError:
            return False


def find_source_file(text: str, folder: Path, *, table: str) -> SourceFile:
    """Return the plain file that ``text`` names, relative to ``folder``.

    Raises:
        SchemaError: it does not exist, is not a regular file, or is named by a link, ``..``, a pattern or an address.
    """

    def refused(what: str, fix: str = f'source = "csv:data/{table}.csv" in schemas/{table}.toml') -> SchemaError:
        return SchemaError(f"The source of {table!r} {what}: {text[:200]!r}.", fix=fix)

    if not text or "\0" in text or _PATTERN.search(text):
        raise refused("must be the name of one file, not a pattern or an address")
    if ".." in Path(text).parts:
        raise refused("may not contain '..'")
    path = Path(os.path.abspath(folder.resolve() / text))
    try:
        straight = path.resolve(strict=True)
        mark = _read_mark(str(path))
    except (OSError, RuntimeError):
        raise refused("does not exist", f"put the file at {path}") from None
    if straight != path:
        raise refused("is reached by a symbolic link", f"name the file itself: {straight}")
    if not stat.S_ISREG(path.stat(follow_symlinks=False).st_mode):
        raise refused("is not a regular file")
    return SourceFile(str(path), mark)


def read_first_bytes(file: SourceFile, count: int) -> bytes:
    """Return the file's first ``count`` bytes, fewer if it is shorter."""
    with open(file.path, "rb") as opened:
        return opened.read(count)


def _read_mark(path: str) -> tuple[int, int, int, int]:
    found = os.stat(path, follow_symlinks=False)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
