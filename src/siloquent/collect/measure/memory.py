"""A file of the reports that devices have sent, written to disk before a report leaves. Plain Python: copy it.

    memory = FileMemory("sent.json")                                # of one device, for all collections and services
    report = client.report("orders", rows, Device(user, key, memory))

A draw that was sent and forgotten would be drawn again, and cost its user a second epsilon. So one lock spans reading
and writing, and file and folder are on disk before the lock is released.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

MAX_BYTES = 2**30
Sent = dict[str, dict[str, str]]
"""Reports in hexadecimal, by user and place."""


class FileMemory:
    """One device's memory. Any number of programs may use the file at once."""

    __slots__ = ("_path", "_user")

    def __init__(self, path: str | os.PathLike[str], user: str = "") -> None:
        self._path, self._user = path, user

    def get(self, place: str, /) -> bytes | None:
        """Return the report sent at ``place``, or None."""
        return UserMemory(_read(Path(self._path).resolve()), self._user).get(place)

    def setdefault(self, place: str, report: bytes, /) -> bytes:
        """Return the report sent at ``place``; if there is none, store ``report`` there."""
        with lock_memories(self._path) as sent:
            return UserMemory(sent, self._user).setdefault(place, report)


class UserMemory:
    """One user's memory among those that ``lock_memories`` holds."""

    __slots__ = ("_sent", "_user")

    def __init__(self, sent: Sent, user: str) -> None:
        self._sent, self._user = sent, user

    def get(self, place: str, /) -> bytes | None:
        """Return the report sent at ``place``, or None."""
        found = self._sent.get(self._user, {}).get(place)
        return None if found is None else bytes.fromhex(found)

    def setdefault(self, place: str, report: bytes, /) -> bytes:
        """Return the report sent at ``place``; if there is none, store ``report`` there."""
        return bytes.fromhex(self._sent.setdefault(self._user, {}).setdefault(place, report.hex()))


@contextmanager
def lock_memories(*paths: str | os.PathLike[str]) -> Iterator[Sent]:
    """Open the contents of the files at ``paths``, earlier files first, while other programs are locked out.

    When the block ends, reports added by it are in every file and on disk; if it raises, none are.

    Raises:
        ValueError: a file is not a memory. OSError: writing to the disk fails.
    """
    files = list(dict.fromkeys(Path(path).resolve() for path in paths))  # the target of a link, whatever its name
    with ExitStack() as locks:
        for file in sorted(files):  # in a fixed order, so that two programs do not deadlock
            locks.enter_context(_lock_file(file))
        known = [_read(file) for file in files]
        sent: Sent = {}
        for one in known:
            for user, own in one.items():
                sent[user] = own | sent.get(user, {})
        yield sent
        for file, before in zip(files, known, strict=True):
            if before != sent:
                _write(file, sent)


@contextmanager
def _lock_file(file: Path) -> Iterator[None]:
    """Lock a file beside ``file``, since ``file`` itself is replaced, and with it a lock on it."""
    lock = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read(file: Path) -> Sent:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    try:
        whole = data if len(data) <= MAX_BYTES else b""
        plain: dict[str, dict[str, str]] = json.loads(whole)  # allowed: what this device wrote, of bounded size
        return {user: {place: bytes.fromhex(text).hex() for place, text in own.items()} for user, own in plain.items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ValueError(f"{file} is not a file of sent reports") from None


def _write(file: Path, sent: Sent) -> None:
    building = file.with_name(f".{file.name}.new")
    building.unlink(missing_ok=True)  # left by a program that was killed: its mode may differ
    with open(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as opened:
        json.dump(sent, opened)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(building, file)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
