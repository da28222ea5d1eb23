"""Files as sources: only plain files, named without links, and unchanged from opening to the last read."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable
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


def find_source_file(text: str, folder: Path, *, table: str, is_listed: bool = False) -> SourceFile:
    """Return the plain file that ``text`` names, relative to ``folder``; ``is_listed``: its folder has that very name.

    Raises:
        SchemaError: it does not exist, is not a regular file, or is named by a link, ``..``, a pattern or an address.
    """

    def refused(what: str, fix: str = f'source = "csv:data/{table}.csv" in schemas/{table}.toml') -> SchemaError:
        return SchemaError(f"The source of {table!r} {what}: {text[:200]!r}.", fix=fix)

    if not text or "\0" in text or (not is_listed and _PATTERN.search(text)):
        raise refused("must be the name of one file, not a pattern or an address")
    if ".." in Path(text).parts:
        raise refused("may not contain '..'")
    path = Path(os.path.abspath(folder.resolve() / text))
    try:
        straight = path.resolve(strict=True)
        mark = _read_mark(str(path))
    except (OSError, RuntimeError):
        raise refused("does not exist", f"put the file at {text[:200]} in the workspace's folder") from None
    if straight != path:  # where it leads is for those on this machine only, and analysts read this, too
        raise refused("is reached by a symbolic link", "name the file itself, which lies in the workspace's folder")
    if not stat.S_ISREG(path.stat(follow_symlinks=False).st_mode):
        raise refused("is not a regular file")
    return SourceFile(str(path), mark)


SUFFIXES = {
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".csv.zip"),
    "parquet": (".parquet", ".pq"),
}
"""The endings of the files that are the parts of a folder."""
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class SourceParts:
    """The files of a source, in the order of their names; one file, or all that a folder or pattern names."""

    files: tuple[SourceFile, ...]
    listing: Callable[[], tuple[str, ...]] = tuple

    @property
    def size(self) -> int:
        """The size of all files together in bytes."""
        return sum(file.size for file in self.files)

    @property
    def paths(self) -> list[str]:
        """The files' paths."""
        return [file.path for file in self.files]

    def is_unchanged(self) -> bool:
        """Return whether the files are the same ones, each unchanged."""
        try:
            listed = self.listing()
        except OSError:
            return False
        same = not listed or list(listed) == [Path(path).name for path in self.paths]
        return same and all(file.is_unchanged() for file in self.files)


def find_source_parts(text: str, folder: Path, *, kind: str, table: str) -> SourceParts:
    """Return the file that ``text`` names, or the parts: all files of a folder, or those that match ``*`` and ``?``.

    Only the last part of a path may be a pattern. Names that begin with ``.`` or ``_`` are of no rows.

    Raises:
        SchemaError: as in ``find_source_file``; there are no parts; the folder also holds other files.
    """
    family = kind.partition("-")[0]
    place, _, pattern = text.rpartition("/")
    is_pattern = bool(re.search("[*?]", pattern))
    inside = Path(os.path.abspath(folder.resolve() / (place if is_pattern else text or "\0")))
    if family not in SUFFIXES or "\0" in text or not (is_pattern or inside.is_dir()):
        return SourceParts((find_source_file(text, folder, table=table),))

    def refused(what: str, fix: str) -> SchemaError:
        return SchemaError(f"The source of {table!r} {what}: {text[:200]!r}.", fix=fix)

    if ".." in Path(text).parts or _PATTERN.search(place):
        raise refused("may have a pattern only in its last part, and no '..'", f'source = "{kind}:data/{table}/*.csv"')
    if not inside.is_dir():
        raise refused("does not exist", f"put the files into {inside}")
    if inside.resolve() != inside:
        raise refused("is reached by a symbolic link", f"name the folder itself: {inside.resolve()}")

    def listing() -> tuple[str, ...]:
        with os.scandir(inside) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith((".", "_")))
        return tuple(name for name in names if not is_pattern or fnmatch.fnmatchcase(name, pattern))

    names = listing()
    if not names:
        raise refused("does not name any files", f"put the parts into {inside}")
    if len(names) > MAX_PARTS:
        raise refused(f"names more than {MAX_PARTS:,} files", "write fewer, larger parts")
    others = [] if is_pattern else [name for name in names if not name.lower().endswith(SUFFIXES[family])]
    if others:
        raise refused(
            f"is a folder that holds more than {family} files", f'source = "{kind}:{text.rstrip("/")}/*.{family}"'
        )
    files = tuple(find_source_file(str(inside / name), folder, table=table, is_listed=True) for name in names)
    return SourceParts(files, listing)


def read_first_bytes(file: SourceFile, count: int) -> bytes:
    """Return the file's first ``count`` bytes, fewer if it is shorter."""
    with open(file.path, "rb") as opened:
        return opened.read(count)


def _read_mark(path: str) -> tuple[int, int, int, int]:
    found = os.stat(path, follow_symlinks=False)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
