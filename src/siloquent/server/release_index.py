"""Releases as a server lists them: manifests never change and are kept as text; rights are read for each request."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siloquent.documents.releases import build_release_document
from siloquent.errors import ReleaseError
from siloquent.releases.folder import is_release_name, list_folders
from siloquent.releases.manifest import MANIFEST, read_manifest
from siloquent.schema.table import list_tables_of
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import build_not_found
from siloquent.server.store import Store

MAX_KEPT_BYTES = 32 * 2**20
_SETTLED_SECONDS = 2.0
"""How long a folder must be unchanged before its listing is kept: file systems count time in steps."""
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class VisibleRelease:
    """A release that a person may see: its task, its table, and its document as JSON."""

    task: str
    table: str
    text: str

    def load(self) -> dict[str, Any]:
        """Return the document, of kind ``siloquent/release/1``."""
        found: dict[str, Any] = json.loads(self.text)  # allowed: our own text
        return found


@dataclass(frozen=True, slots=True)
class _Manifest:
    """A manifest's document without what the store knows, and without its last brace.

    ``payer``: the analyst whose share of a budget paid, "" if none did. ``stamp``: which file it was read from.
    """

    stamp: _Stamp
    task: str
    table: str
    payer: str
    text: str


class ReleaseIndex:
    """The releases of one workspace, for requests on any thread. A manifest's file is read once while it is unchanged.

    Owners and auditors see every release of their tables; analysts see their own and those that the owner shared.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder / "releases"
        self._store, self._lock = store, threading.Lock()
        self._kept: OrderedDict[str, _Manifest] = OrderedDict()
        self._bytes = 0
        self._listed: tuple[int, list[str]] = (-1, [])

    def find(self, release: str, person: Principal) -> VisibleRelease:
        """Return a release, if ``person`` may see it.

        Raises:
            Refused: 404, it is unknown or not visible to this person.
        """
        found = self._load(release) if is_release_name(release) else None
        if found is None:
            raise build_not_found()
        row = self._store.fetch_one("SELECT name, shared, deleted FROM release WHERE id = ?", release)
        if not _may_see(found, row, person):
            raise build_not_found()
        return _complete(found, row)

    def find_payer(self, release: str) -> str:
        """Return the analyst whose share of a budget paid for a release; "" if none did."""
        found = self._load(release)
        return "" if found is None else found.payer

    def list_visible(
        self, person: Principal, *, limit: int, after: str | None = None, task: str = "", table: str = ""
    ) -> list[VisibleRelease]:
        """Return up to ``limit`` releases visible to ``person``, newest first, of ``task`` and ``table`` if given.

        Raises:
            Refused: 404, the person sees no release ``after``.
        """
        names, hidden = self._list_names(), self._list_hidden(person)
        if after is not None:
            self.find(after, person)  # a release of another is as unknown as one that does not exist
        if after is not None and after not in names:
            raise build_not_found()  # a list that started over would never end for a client that reads page by page
        names = [name for name in names[names.index(after) + 1 if after else 0 :] if name not in hidden]
        found: list[VisibleRelease] = []
        for start in range(0, len(names), limit):
            part = names[start : start + limit]
            rows = {row["id"]: row for row in self._store.fetch_all(_ROWS, json.dumps(part))}
            for name in part:
                one = self._load(name)
                if (
                    one is None
                    or task not in ("", one.task)
                    or table not in ("", one.table, *list_tables_of(one.table))
                ):
                    continue
                if _may_see(one, rows.get(name), person):
                    found.append(_complete(one, rows.get(name)))
                if len(found) == limit:
                    return found
        return found

    def _list_hidden(self, person: Principal) -> set[str]:
        """Return the releases whose manifests need no reading, since they belong to others and are not shared."""
        if person.role != "analyst":
            return set()
        return set(self._store.fetch_column("SELECT id FROM release WHERE shared = 0 AND name != ?", person.name))

    def _list_names(self) -> list[str]:
        """Return the folders of releases, newest first; some may hold no manifest."""
        try:
            changed = os.stat(self.folder).st_mtime_ns
        except FileNotFoundError:
            return []
        known, names = self._listed
        if known == changed:
            return names
        names = list_folders(self.folder)[::-1]
        if time.time() - changed / 1e9 > _SETTLED_SECONDS:
            self._listed = changed, names
        return names

    def _load(self, release: str) -> _Manifest | None:
        """Return the manifest of a release; None if there is none that can be read."""
        path = f"{self.folder}/{release}/{MANIFEST}"
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        with self._lock:
            kept = self._kept.get(release)
            if kept is not None and kept.stamp == stamp:
                self._kept.move_to_end(release)
                return kept
        try:
            read = _read(self.folder / release, stamp)
        except (ReleaseError, OSError):  # whose text would name a folder of the server
            return None
        self._keep(release, read)
        return read

    def _keep(self, release: str, read: _Manifest) -> None:
        with self._lock:
            old = self._kept.pop(release, None)
            self._kept[release] = read
            self._bytes += len(read.text) - (len(old.text) if old else 0)
            while self._bytes > MAX_KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1].text)


_ROWS = "SELECT id, name, shared, deleted FROM release WHERE id IN (SELECT value FROM json_each(?))"


def _read(folder: Path, stamp: _Stamp) -> _Manifest:
    """Read a manifest.

    Raises:
        ReleaseError: there is none of a known format, or one with a number that JSON does not have.
    """
    manifest = read_manifest(folder)
    payer = str(manifest.guarantee.get("account", "")).partition("/")[2]
    try:
        text = json.dumps(
            build_release_document(manifest), ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict
        )
        text.encode()
    except ValueError:
        raise ReleaseError(f"The {MANIFEST} in {folder} has strange fields.") from None
    return _Manifest(stamp, manifest.task, manifest.table, payer, text[:-1])


def _may_see(found: _Manifest, row: Mapping[str, Any] | None, person: Principal) -> bool:
    own = (found.payer if row is None else row["name"]) == person.name
    sees_every = person.role in ("owner", "auditor")
    return person.may_see(found.table) and (sees_every or own or bool(row and row["shared"]))


def _complete(found: _Manifest, row: Mapping[str, Any] | None) -> VisibleRelease:
    shared, deleted = (bool(row and row[name]) for name in ("shared", "deleted"))
    known = f',"shared":{str(shared).lower()},"deleted":{str(deleted).lower()}}}'
    return VisibleRelease(found.task, found.table, found.text + known)
