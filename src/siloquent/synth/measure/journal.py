"""Finished steps on disk, each written once: a killed run continues, and nothing is released twice."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from siloquent.errors import DataError, ReleaseError
from siloquent.privacy import FREE
from siloquent.synth.spec.measurements import Measurements, NoisyCounts, decode_run_measurements


class StepJournal:
    """The steps of one run, in a folder of its own; without a folder they are kept in memory only.

    If two processes make the same step, the first file wins and the other process drops its draw: only steps in the
    journal are used further, so one run releases one set of numbers.
    """

    def __init__(self, folder: Path | None = None, progress: Callable[[int], None] | None = None) -> None:
        self.folder, self.progress = folder, progress
        self.done = 0

    def run_step(self, make: Callable[[], Sequence[NoisyCounts]]) -> tuple[NoisyCounts, ...]:
        """Return the next step: as released before, or made now and written durably before it is returned.

        Raises:
            DataError: The disk refuses; the charge stands and the finished steps stay.
        """
        self.done += 1
        if self.folder is None:
            made = tuple(make())
        else:
            try:
                made = self._write_step(self.folder / f"step-{self.done:03d}.npz", make)
            except OSError:
                raise DataError(charged=True) from None
        if self.progress is not None:
            self.progress(self.done)
        return made

    def _write_step(self, file: Path, make: Callable[[], Sequence[NoisyCounts]]) -> tuple[NoisyCounts, ...]:
        known = self._read(file)
        if known is not None:
            return known
        data = Measurements("", "", FREE, tuple(make())).to_bytes()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=".step-", dir=file.parent)  # readable by its owner only
        own = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            with suppress(FileExistsError):
                os.link(own, file)  # atomic, and never overwrites another process's file
        finally:
            own.unlink(missing_ok=True)
        self._sync_folder(file.parent)
        found = self._read(file)
        assert found is not None
        return found

    def _read(self, file: Path) -> tuple[NoisyCounts, ...] | None:
        try:
            return decode_run_measurements(file.read_bytes()).steps
        except FileNotFoundError:
            return None
        except ReleaseError:  # the disk lost data that it had confirmed
            raise DataError(charged=True) from None

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Delete the steps of a settled run: the ledger holds them now."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
