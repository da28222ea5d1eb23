"""Release folders: written atomically, read without running any content, verified against hashes and ledger."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import ReleaseError, UnknownName
from siloquent.foreign import DocumentTooLarge, load_json, read_bounded
from siloquent.ledger import Ledger
from siloquent.releases.manifest import MANIFEST, Manifest, ReleaseFile, read_manifest

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "parquet", "arrow"]
MAX_PART = 2**28
"""The most bytes of one file of a release."""
FORMATS: tuple[Format, ...] = ("csv", "parquet", "arrow")
_ID = re.compile(r"r-[0-9]+|m-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """The verification result of a release.

    ``problems`` in words, empty if there are none; ``notes``: further remarks for the reader. ``compared``: whether
    table and manifest were compared with the ledger's contents, and not only hashes and the receipt.
    """

    release: str
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    compared: bool = False

    @property
    def ok(self) -> bool:
        """Whether no check failed; see ``compared`` for the extent of the checks."""
        return not self.problems

    @property
    def checked(self) -> str:
        """The extent of the checks, in words."""
        if self.compared:
            return "files, receipt, and every number and promise against what the ledger keeps"
        return "only file hashes and the receipt; its numbers and promises were not compared with the ledger"


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedFiles:
    """A release as its task renders it again from the ledger's contents.

    ``files`` are without hashes, which depend on the writing library's version. ``contents``: the contents of each
    file, a table or a test of its bytes. ``told``: the most further notes in the release, which the ledger lacks.
    """

    manifest: Manifest
    files: tuple[ReleaseFile, ...]
    contents: Mapping[str, pa.Table | Callable[[bytes], bool]]
    told: int = 0


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
            raise ReleaseError(f"Another release named {manifest.id} is in {releases}.", fix="siloquent release list")
        return target
    building = releases / ".building"
    try:
        releases.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=releases))
        write_table(building / name, table, _parse_format(name))
        entry = ReleaseFile(
            name, compute_sha256(building / name), table.num_rows, tuple(table.column_names), dict(grid)
        )
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


def _parse_format(name: str) -> Format:
    ending = name.rpartition(".")[2]
    if ending not in FORMATS:
        raise ReleaseError(f"Releases are written as {', '.join(FORMATS)}, not {ending!r}.", fix="--format csv")
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


def get_release_folder(releases: Path, release: str) -> Path:
    """Return the folder of ``release``.

    Raises:
        UnknownName: There is no release of that id.
    """
    folder = releases / release
    is_name = bool(release) and Path(release).name == release and release != ".." and "\0" not in release
    if not (is_name and len(release) < 200 and (folder / MANIFEST).is_file()):
        raise UnknownName("release", release, list_releases(releases), fix="siloquent release list")
    return folder


def read_release(folder: Path) -> pa.Table:
    """Read the first table of a release, without running any content.

    Raises:
        ReleaseError: There is no table, or its hash differs from the manifest's.
    """
    from siloquent.foreign.tables import read_parquet

    manifest = read_manifest(folder)
    problems = _find_file_problems(folder, manifest)
    if problems or not manifest.files:
        raise ReleaseError(" ".join(problems) or "The release holds no file.", fix=f"siloquent verify {manifest.id}")
    try:
        return read_parquet(folder / manifest.files[0].name)
    except ValueError:
        raise ReleaseError(
            f"{manifest.files[0].name} is not a table, or would fill far more memory than it weighs.",
            fix=f"siloquent verify {manifest.id}",
        ) from None


def verify_release(
    folder: Path, ledger: Ledger | None = None, *, schema: str | None = None, rendered: ExpectedFiles | None = None
) -> ReleaseVerdict:
    """Check a release's files against its manifest, its receipt against ``ledger``, and all of it with ``rendered``.

    A file's hash in the manifest can be changed together with the file: only ``rendered``, which a session's ``verify``
    computes from the ledger, detects that. Without it the verdict says that only hashes and receipt were checked.

    Args:
        schema: The digest of the table's declaration; a different one is noted, and is not an error of the release.
    Raises:
        ReleaseError: There is no manifest to check.
    """
    manifest = read_manifest(folder)
    problems = _find_name_problems(folder, manifest) + _find_file_problems(folder, manifest)
    if ledger is not None:
        problems += _find_receipt_problems(manifest.receipt, ledger)
    if rendered is not None and not problems:
        problems += _find_content_problems(folder, manifest, rendered)
    notes = []
    if schema is not None and manifest.schema != f"sha256:{schema}":
        notes.append("The table's declaration has changed since: this release is about the earlier one.")
    if rendered is not None and rendered.told:
        notes.append("Its last note says why no second step was taken; the ledger does not keep that.")
    return ReleaseVerdict(manifest.id, tuple(problems), tuple(notes), rendered is not None)


def _find_name_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Return an error if the folder's name is another release's id; any other name is allowed."""
    name = folder.resolve().name
    if name == manifest.id or not _ID.fullmatch(name):
        return []
    return [f"The folder is named {name!r}, and the release in it {manifest.id!r}."]


def _find_content_problems(folder: Path, manifest: Manifest, rendered: ExpectedFiles) -> list[str]:
    """Return the manifest's leaves and the files that differ from the ledger's measurement."""
    bare = tuple(replace(file, sha256="") for file in manifest.files)
    here = replace(manifest, files=bare)
    if rendered.told and len(here.known) == len(rendered.manifest.known) + rendered.told:
        here = replace(here, known=here.known[: -rendered.told])
    # The version of the package that wrote a release is not checked, since a later one gives the same numbers.
    should = replace(rendered.manifest, files=rendered.files, package=manifest.package)
    mine, theirs = (dict(_walk_leaves(load_json(one.to_json()))) for one in (here, should))
    wrong = [place for place in sorted(mine.keys() | theirs.keys()) if mine.get(place) != theirs.get(place)]
    problems = [f"{place} in {MANIFEST} is not what the ledger keeps." for place in wrong]
    if wrong:
        return problems
    return [
        f"{name} does not hold what the ledger keeps."
        for name, content in rendered.contents.items()
        if not _has_content(folder / name, content)
    ]


def _walk_leaves(plain: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the values of a document with their paths, ``guarantee.rho``; empty lists and objects are values."""
    inner = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    if not inner:
        yield place, plain
    for key, value in inner:
        yield from _walk_leaves(value, f"{place}.{key}" if place else str(key))


def _has_content(path: Path, content: pa.Table | Callable[[bytes], bool]) -> bool:
    import pyarrow as pa
    import pyarrow.parquet

    from siloquent.foreign.tables import read_parquet

    if not isinstance(content, pa.Table):
        with suppress(DocumentTooLarge):
            return content(read_bounded(path, MAX_PART))
        return False
    with tempfile.TemporaryDirectory() as beside:
        written = Path(beside) / "written.parquet"
        pyarrow.parquet.write_table(content, written)
        try:
            return bool(read_parquet(path).equals(read_parquet(written)))
        except (ValueError, OSError):
            return False


def _find_file_problems(folder: Path, manifest: Manifest) -> list[str]:
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


def _find_receipt_problems(receipt: Mapping[str, Any], ledger: Ledger) -> list[str]:
    """Return the errors of a receipt; of a sum of several releases this ledger confirms only its own."""
    every = receipt.get("all", [receipt])
    if not isinstance(every, list) or not all(isinstance(one, Mapping) for one in every):
        return ["Its receipt cannot be read."]
    if any(receipt.get(name) != one.get(name) for one in every[:1] for name in ("ledger", "seq", "hash")):
        return ["Its receipt is not the first of those that it holds."]
    own = [one for one in every if one.get("ledger") == ledger.id]
    if not own:
        return ["It has a receipt of another ledger."]
    return [problem for one in own for problem in _find_entry_problems(one, ledger)]


def _find_entry_problems(receipt: Mapping[str, Any], ledger: Ledger) -> list[str]:
    seq = receipt.get("seq")
    if not isinstance(seq, int) or seq < 1:
        return ["Its receipt has no place in the ledger."]
    found = next(iter(ledger.iter_entries(after=seq - 1)), None)
    if found is None or found.seq != seq or found.hash != receipt.get("hash"):
        return [f"The ledger's entry {seq} is not the one in its receipt."]
    if found.kind != "settle":
        return [f"The ledger's entry {seq} is not an answer."]
    return []
