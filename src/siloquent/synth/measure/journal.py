"""Finished steps on disk, each written once: a run that was killed goes on, and nothing is released twice."""

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
    """The steps of one run, in a folder of its own; without a folder they are kept for as long as the process lives.

    Of two processes that make the same step, the first file wins and the other drops its draw: only what the journal
    holds goes on to the next step, so one run releases one set of numbers.
    """

    def __init__(self, folder: Path | None = None, progress: Callable[[int], None] | None = None) -> None:
        self.folder, self.progress = folder, progress
        self.done = 0

    def run_step(self, make: Callable[[], Sequence[NoisyCounts]]) -> tuple[NoisyCounts, ...]:
        """The next step: as it was released, or made now and written durably before anybody sees it.

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
        descriptor, name = tempfile.mkstemp(prefix=".step-", dir=file.parent)  # readable by its owner alone
        own = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            with suppress(FileExistsError):
                os.link(own, file)  # whole or not at all, and never over another's
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
        except ReleaseError:  # a disk that lost what it had promised to keep
            raise DataError(charged=True) from None

    @staticmethod
    def _sync_folder(folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Forget the steps of a run that is settled: the ledger holds them now."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
