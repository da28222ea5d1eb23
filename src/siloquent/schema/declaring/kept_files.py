"""The files of a declaration in the making: the table file, and the answers that are kept until it is written."""

from __future__ import annotations

import os
import re
import secrets  # allowed: a file's name, no noise
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import RequestError
from siloquent.fixes import UseOption
from siloquent.foreign import DocumentTooLarge, read_text
from siloquent.schema.declaring.answers import GivenAnswers, KeptDeclaration, read_answers, read_kept, write_answers
from siloquent.schema.files.toml import MAX_BYTES

if TYPE_CHECKING:
    from siloquent.schema.declaring import TableDraft
    from siloquent.schema.workspace import Workspace

_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


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

    def keep(self, draft: TableDraft, *, header: bool = False) -> None:
        """Write the answers so far; ``header``: the owner has confirmed that the first line names the columns."""
        source = draft.source
        _write(self.kept, write_answers(KeptDeclaration(source.address, draft.answers, source.reading, header)))

    def load(self) -> KeptDeclaration:
        """Read the declaration in the making.

        Raises:
            RequestError: there is none, or its file cannot be read. SchemaError: it holds no answers.
        """
        return read_kept(_read_text(self.kept))

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
    return read_answers(_read_text(file))


def require_table_name(name: str, *, fix: str) -> None:
    """Refuse the name of a table that no table file can have.

    Raises:
        RequestError: it is not letters, digits and underscores.
    """
    if not _TABLE.fullmatch(name):
        raise RequestError("A table's name takes 1 to 63 letters, digits and '_', starting with a letter.", fix=fix)


def _read_text(file: Path) -> str:
    try:
        return read_text(file, MAX_BYTES)
    except (OSError, UnicodeDecodeError, DocumentTooLarge):
        raise RequestError(
            f"{file} cannot be read as a UTF-8 text of answers.", fix=UseOption("answers", "FILE")
        ) from None


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    building = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # allowed: a name
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
