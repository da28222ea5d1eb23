"""Release folders: written whole or not at all, read without running anything, verified against hashes and ledger."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import ReleaseError, UnknownName
from siloquent.ledger import Ledger
from siloquent.releases.manifest import MANIFEST, Manifest, ReleaseFile, read_manifest

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "arrow")


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """Whether a release is what it says; ``problems`` in words, empty when it is."""

    release: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def write_release(
    releases: Path, manifest: Manifest, table: pa.Table, *, grid: Mapping[str, str], name: str = "answer.parquet"
) -> Path:
    """Write ``table`` and ``manifest`` as ``releases/<id>/``, atomically; an equal release that is there already stays.

    Args:
        manifest: Without files; they are filled in here.
        grid: The step of each number column.
    Returns:
        The release's folder.
    Raises:
        ReleaseError: another release of that id is there, or the disk refuses.
    """
    target = releases / manifest.id
    if target.is_dir():
        if read_manifest(target).receipt != manifest.receipt:
            raise ReleaseError(f"Another release named {manifest.id} is in {releases}.", fix="siloquent release list")
        return target
    building = releases / ".building"
    try:
        releases.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=releases))
        write_table(building / name, table, _format_of(name))
        entry = ReleaseFile(name, sha256_of(building / name), table.num_rows, tuple(table.column_names), dict(grid))
        (building / MANIFEST).write_text(replace(manifest, files=(entry,)).to_json(), encoding="utf-8")
        os.replace(building, target)
    except OSError as failed:
        shutil.rmtree(building, ignore_errors=True)
        if target.is_dir():
            return target
        raise ReleaseError(
            f"The release {manifest.id} could not be written: {failed.strerror}.",
            fix="make room, then ask again with the same key: it costs nothing",
        ) from None
    return target


def _format_of(name: str) -> Format:
    ending = name.rpartition(".")[2]
    if ending not in FORMATS:
        raise ReleaseError(f"Releases are written as {', '.join(FORMATS)}, not {ending!r}.", fix="--format csv")
    return ending


def write_table(path: Path, table: pa.Table, form: str) -> None:
    """Write ``table`` in one of ``FORMATS``.

    Raises:
        ReleaseError: another format.
    """
    if form == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(quoted_for_spreadsheets(table), path)
    elif form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    elif form == "arrow":
        import pyarrow as pa

        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        _format_of(f".{form}")


def quoted_for_spreadsheets(table: pa.Table) -> pa.Table:
    """``table`` with an apostrophe before text that a spreadsheet would run as a formula (= + - @, tab, return)."""
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            texts = [f"'{text}" if text and text[0] in "=+-@\t\r" else text for text in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(texts, type=column.type)]))
        else:
            columns.append(column)
    return pa.table(columns, names=table.column_names)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_releases(releases: Path) -> list[str]:
    """The ids of the releases in a folder, in order."""
    return sorted(path.name for path in releases.glob("*") if (path / MANIFEST).is_file())


def release_folder(releases: Path, release: str) -> Path:
    """The folder of ``release``.

    Raises:
        UnknownName: there is none of that id.
    """
    known = list_releases(releases) if releases.is_dir() else []
    if release not in known:
        raise UnknownName("release", release, known, fix="siloquent release list")
    return releases / release


def read_release(folder: Path) -> pa.Table:
    """The first table of a release, read without running anything it holds.

    Raises:
        ReleaseError: no table, or one that is not what the manifest's hash says.
    """
    import pyarrow.parquet

    manifest = read_manifest(folder)
    problems = _file_problems(folder, manifest)
    if problems or not manifest.files:
        raise ReleaseError(" ".join(problems) or "The release holds no file.", fix=f"siloquent verify {manifest.id}")
    return pyarrow.parquet.read_table(folder / manifest.files[0].name)


def verify_release(folder: Path, ledger: Ledger | None = None, *, schema: str | None = None) -> ReleaseVerdict:
    """Check a release's files against its manifest, its receipt against ``ledger``, its schema digest if given.

    Raises:
        ReleaseError: there is no manifest to check.
    """
    manifest = read_manifest(folder)
    problems = _file_problems(folder, manifest)
    if ledger is not None:
        problems += _receipt_problems(manifest.receipt, ledger)
    if schema is not None and manifest.schema != f"sha256:{schema}":
        problems.append("The table's declaration has changed since.")
    return ReleaseVerdict(manifest.id, tuple(problems))


def _file_problems(folder: Path, manifest: Manifest) -> list[str]:
    problems = []
    for entry in manifest.files:
        path = folder / entry.name
        if "/" in entry.name or "\\" in entry.name or entry.name.startswith(".") or path.is_symlink():
            problems.append(f"{entry.name!r} is not a plain file name.")
        elif not path.is_file():
            problems.append(f"{entry.name} is missing.")
        elif sha256_of(path) != entry.sha256:
            problems.append(f"{entry.name} was changed after its release.")
    return problems


def _receipt_problems(receipt: Mapping[str, Any], ledger: Ledger) -> list[str]:
    if receipt.get("ledger") != ledger.id:
        return ["It has a receipt of another ledger."]
    seq = receipt.get("seq")
    if not isinstance(seq, int) or seq < 1:
        return ["Its receipt has no place in the ledger."]
    found = next(iter(ledger.entries(after=seq - 1)), None)
    if found is None or found.seq != seq or found.hash != receipt.get("hash"):
        return [f"The ledger's entry {seq} is not the one in its receipt."]
    return []
