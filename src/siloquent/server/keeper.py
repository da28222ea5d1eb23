"""The background thread that deletes expired records and writes pending ones; no failure ends it."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path

from siloquent.releases.manifest import MANIFEST
from siloquent.server.access.denials import Denials
from siloquent.server.failures.files import FileFailure, explain_file_failure
from siloquent.server.settings import Settings
from siloquent.server.store import Store

TICK_SECONDS = 1.0
SWEEP_SECONDS = 3_600.0
ILL_SECONDS = 60.0
BUILDING_SECONDS = 3_600
"""The age after which an untouched half-written release is taken to be that of a killed process."""
DAY = 86_400
_log = logging.getLogger("siloquent.keeper")


class Keeper:
    """The thread: writes refusals every second, deletes expired records every hour."""

    def __init__(self, folder: Path, store: Store, denials: Denials, settings: Settings) -> None:
        self._folder, self._store, self._denials, self._settings = folder, store, denials, settings
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="siloquent-keeper", daemon=True)
        self._good_turn = self._swept = time.monotonic()
        self._swept -= SWEEP_SECONDS
        self.failed_turns = 0
        self.failure: FileFailure | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_well(self) -> bool:
        """Whether the thread is alive and could recently write to the store."""
        return self._thread.is_alive() and time.monotonic() - self._good_turn < ILL_SECONDS

    def close(self) -> None:
        """Stop the thread after writing what is pending."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(Exception):  # allowed: a store that cannot be written when all ends
            self._denials.flush()

    def _watch(self) -> None:
        while True:
            try:
                self._denials.flush()
                if time.monotonic() - self._swept >= SWEEP_SECONDS:
                    sweep(self._folder, self._store, self._settings)
                    self._swept = time.monotonic()
                self._good_turn, self.failure = time.monotonic(), None
            except Exception as failed:  # allowed: a locked or full store today must not end the keeping for ever
                self.failed_turns, self.failure = self.failed_turns + 1, explain_file_failure(failed)
                _log.warning("what is kept could not be written: %s", failed)
            if self._closing.wait(TICK_SECONDS):
                return


def sweep(folder: Path, store: Store, settings: Settings) -> None:
    """Delete what is older than ``settings`` allow; 0 days means keep for ever. The ledger deletes nothing."""
    now = int(time.time())
    for table, age, days in (
        ("reply", "created", settings.keep_replies_days),
        ("made", "created", settings.keep_replies_days),
        ("denial", "last", settings.keep_denials_days),
        ("act", "at", settings.keep_denials_days),
        ("job", "state IN ('done', 'failed', 'cancelled') AND changed", settings.keep_jobs_days),
    ):
        if days:
            store.write(f"DELETE FROM {table} WHERE {age} < ?", now - days * DAY)
    if settings.keep_uploads_days:
        for row in store.fetch_all("SELECT id FROM upload WHERE created < ?", now - settings.keep_uploads_days * DAY):
            if not is_named(folder, row["id"]):
                remove_upload(folder, store, row["id"])
    if settings.keep_releases_days:
        old = now - settings.keep_releases_days * DAY
        for row in store.fetch_all("SELECT id FROM release WHERE created < ? AND shared = 0 AND deleted = 0", old):
            remove_files(folder, store, row["id"])
    _remove_half_made(folder / "releases", now)
    _remove_half_sent(folder / "uploads", now)


def is_named(folder: Path, upload: str) -> bool:
    """Return whether a table's declaration names an upload as its source."""
    texts = (file.read_text("utf-8", "replace") for part in ("schemas", "public") for file in folder.glob(f"{part}/*"))
    return any(f"uploads/{upload}." in text for text in texts)


def remove_upload(folder: Path, store: Store, upload: str) -> None:
    """Delete an uploaded file and its record in the store."""
    for file in (folder / "uploads").glob(f"{upload}.*"):
        file.unlink(missing_ok=True)
    store.write("DELETE FROM upload WHERE id = ?", upload)


def remove_files(folder: Path, store: Store, release: str) -> None:
    """Delete a release's values; its manifest keeps the record of recipient and price."""
    for file in (folder / "releases" / release).glob("*"):
        if file.name != MANIFEST and file.is_file():
            file.unlink(missing_ok=True)
    store.write("UPDATE release SET deleted = 1 WHERE id = ?", release)


def _remove_half_made(releases: Path, now: int) -> None:
    for half in releases.glob(".building*"):
        with suppress(OSError):  # its maker is still running, or has just finished it
            newest = max([half.stat().st_mtime, *(one.stat().st_mtime for one in half.iterdir())])
            if now - newest > BUILDING_SECONDS:
                shutil.rmtree(half)


def _remove_half_sent(uploads: Path, now: int) -> None:
    """Remove what killed servers had of uploads: a sender that is still there has written to its file lately."""
    for half in uploads.glob(".u-*"):
        with suppress(OSError):
            if now - half.stat().st_mtime > BUILDING_SECONDS:
                half.unlink()
