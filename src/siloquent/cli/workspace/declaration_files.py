"""The files of a declaration in the making: the table file, and the answers that are kept until it is written."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import RequestError

if TYPE_CHECKING:
    from siloquent.schema.declaring import GivenAnswers, TableDraft
    from siloquent.schema.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DeclarationFiles:
    """The paths of a table file and of the answers so far."""

    workspace: Workspace
    table: str

    @property
    def file(self) -> Path:
        """The table file."""
        return self.workspace.schemas / f"{self.table}.toml"

    @property
    def kept(self) -> Path:
        """The answers so far."""
        return self.workspace.schemas / f"{self.table}.answers"

    def keep(self, draft: TableDraft) -> None:
        """Write the answers so far."""
        from siloquent.schema.declaring import write_answers

        _write(self.kept, write_answers(draft.source.address, draft.answers))

    def write(self, text: str) -> Path | None:
        """Write the table file and remove the kept answers; return the copy of the table file that was there."""
        old = _copy_beside(self.file)
        _write(self.file, text)
        self.kept.unlink(missing_ok=True)
        return old


def read_answers_file(file: Path) -> GivenAnswers:
    """Read answers from a file.

    Raises:
        RequestError: it cannot be read. SchemaError: it holds no answers.
    """
    from siloquent.foreign import DocumentTooLarge, read_text
    from siloquent.schema.declaring import read_answers
    from siloquent.schema.files.toml import MAX_BYTES

    try:
        return read_answers(read_text(file, MAX_BYTES))
    except (OSError, UnicodeDecodeError, DocumentTooLarge):
        raise RequestError(f"{file} cannot be read as a UTF-8 text of answers.", fix="--answers FILE") from None


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    building = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        building.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        os.replace(building, path)
    except OSError as failed:
        building.unlink(missing_ok=True)
        raise RequestError(
            f"{path} cannot be written: {failed.strerror}.", fix="make it writable, then try again"
        ) from None


def _copy_beside(file: Path) -> Path | None:
    """Copy a table file that will be replaced to a name that is free, and return it."""
    if not file.exists():
        return None
    number = 1
    while (old := file.with_name(f"{file.name}.{number}")).exists():
        number += 1
    shutil.copy2(file, old)
    return old
