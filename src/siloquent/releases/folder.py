"""Release folders: written atomically, read without running any content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from siloquent.errors import ReleaseError, UnknownName
from siloquent.fixes import UseOption, run
from siloquent.releases.manifest import MANIFEST, Manifest, ReleaseFile, read_manifest
from siloquent.releases.rules import dump_rules

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "parquet", "arrow"]
MAX_PART = 2**28
"""The most bytes of one file of a release."""
FORMATS: tuple[Format, ...] = ("csv", "parquet", "arrow")


def write_release(
    releases: Path, manifest: Manifest, table: pa.Table, *, grid: Mapping[str, str], name: str = "answer.parquet"
) -> Path:
    """Write ``table`` and ``manifest`` as ``releases/<id>/``, atomically; an equal release that exists is kept.

    Args:
        manifest: A manifest without files, which are filled in here.
        grid: The step of each number column.
    Returns:
        The release's folder.
    Raises:
        ReleaseError: Another release of that id exists, or the disk refuses.
    """
    target = releases / manifest.id
    if target.is_dir():
        if read_manifest(target).receipt != manifest.receipt:
            raise ReleaseError(f"Another release named {manifest.id} is in {releases}.", fix=run("release list"))
        return target
    building = releases / ".building"
    try:
        releases.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=releases))
        write_table(building / name, table, _parse_format(name))
        digest, columns = compute_sha256(building / name), tuple(table.column_names)
        entry = ReleaseFile(name, digest, table.num_rows, columns, dict(grid), dump_rules(manifest.task))
        (building / MANIFEST).write_text(replace(manifest, files=(entry,)).to_json(), encoding="utf-8")
        os.replace(building, target)
    except OSError as failed:
        shutil.rmtree(building, ignore_errors=True)
        if target.is_dir():
            return target
        raise ReleaseError(
            f"Cannot write the release {manifest.id}: {failed.strerror}.",
            fix="free some disk space, then repeat the request with the same key at no cost",
        ) from None
    return target


def _parse_format(name: str) -> Format:
    ending = name.rpartition(".")[2]
    if ending not in FORMATS:
        raise ReleaseError(
            f"Releases are written as {', '.join(FORMATS)}, not {ending!r}.", fix=UseOption("format", "csv")
        )
    return ending


def write_table(path: Path, table: pa.Table, form: str) -> None:
    """Write ``table`` in one of ``FORMATS``.

    Raises:
        ReleaseError: The format is not supported.
    """
    if form == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(quote_for_spreadsheets(table), path)
    elif form == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    elif form == "arrow":
        import pyarrow as pa

        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        _parse_format(f".{form}")


def quote_for_spreadsheets(table: pa.Table) -> pa.Table:
    """Prefix text in ``table`` that a spreadsheet would run as a formula (= + - @, tab, return) with an apostrophe."""
    import pyarrow as pa

    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            texts = [f"'{text}" if text and text[0] in "=+-@\t\r" else text for text in column.to_pylist()]
            columns.append(pa.chunked_array([pa.array(texts, type=column.type)]))
        else:
            columns.append(column)
    return pa.table(columns, names=table.column_names)


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_releases(releases: Path) -> list[str]:
    """Return the ids of the releases in a folder: numbered ones last, in the order of their numbers."""
    return [name for name in list_folders(releases) if os.path.isfile(f"{releases}/{name}/{MANIFEST}")]


def list_folders(releases: Path) -> list[str]:
    """As ``list_releases``, but by name only, for callers that read the manifests anyway; some folders may lack one."""
    try:
        with os.scandir(releases) as entries:
            found = [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(found, key=_build_sort_key)


def _build_sort_key(release: str) -> tuple[bool, int, str]:
    number = release[2:] if release.startswith("r-") else ""
    return (True, int(number), "") if number.isdecimal() and len(number) < 19 else (False, 0, release)


def is_release_name(release: str) -> bool:
    """Return whether ``release`` can be the name of a release's folder: one part of a path, and not too long."""
    is_name = bool(release) and Path(release).name == release and release != ".." and "\0" not in release
    return is_name and len(release) < 200


def get_release_folder(releases: Path, release: str) -> Path:
    """Return the folder of ``release``.

    Raises:
        UnknownName: There is no release of that id.
    """
    folder = releases / release
    if not (is_release_name(release) and (folder / MANIFEST).is_file()):
        raise UnknownName("release", release, list_releases(releases), fix=run("release list"))
    return folder


def read_release(folder: Path) -> pa.Table:
    """Read the first table of a release, without running any content.

    Raises:
        ReleaseError: There is no table, or its hash differs from the manifest's.
    """
    from siloquent.foreign.tables import read_parquet

    manifest = read_manifest(folder)
    problems = find_file_problems(folder, manifest)
    if problems or not manifest.files:
        raise ReleaseError(" ".join(problems) or "The release contains no files.", fix=run("verify", manifest.id))
    try:
        return read_parquet(folder / manifest.files[0].name)
    except ValueError:
        raise ReleaseError(
            f"{manifest.files[0].name} is not a table, or would unpack to far more than its size.",
            fix=run("verify", manifest.id),
        ) from None


def find_file_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Return the errors of a release's files by themselves: names, presence and hashes."""
    problems = []
    for entry in manifest.files:
        path = folder / entry.name
        if "/" in entry.name or "\\" in entry.name or entry.name.startswith(".") or path.is_symlink():
            problems.append(f"{entry.name!r} is not a plain file name.")
        elif not path.is_file():
            problems.append(f"{entry.name} is missing.")
        elif compute_sha256(path) != entry.sha256:
            problems.append(f"{entry.name} was changed after its release.")
    return problems
