"""Verification of releases: against their own hashes, the ledger's chain, and the measurement that the ledger keeps."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siloquent.foreign import DocumentTooLarge, load_json, read_bounded
from siloquent.ledger import Ledger
from siloquent.readable import Readable
from siloquent.releases.folder import MAX_PART, find_file_problems
from siloquent.releases.kept import FileTest, KeptMeasurement, walk_leaves
from siloquent.releases.manifest import MANIFEST, Manifest, ReleaseFile, read_manifest
from siloquent.releases.rules import RULES, parse_rules

if TYPE_CHECKING:
    import pyarrow as pa

Outcome = Literal["verified", "other_rules", "receipt_only", "invalid"]
_ID = re.compile(r"r-[0-9]+|m-[0-9a-f]{12}")
_QUERY = "request.query"
_WORDING = re.compile(
    r"guarantee\.sentence|accuracy\.promise|known(\..*)?|request\.(query|constraints(\..*)?)|files\..*"
)
"""The parts of a manifest whose text or layout a later version may change; everything else is what the ledger keeps."""
_GROWING = ("request.", "accuracy.", "guarantee.")
"""Objects of a manifest in which a version may have fields that another one does not write."""
_ABSENT = object()


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseVerdict(Readable):
    """The verification result of a release.

    ``problems`` in words, empty if there are none; ``notes``: further remarks for the reader. ``compared``: whether
    table and manifest were compared with the ledger's contents, and not only hashes and the receipt. ``package``: the
    version that made the release. ``uncompared``: the files that it made by other rules than this version's, which
    were not compared in full; measurement, receipt and amounts were.
    """

    release: str
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    compared: bool = False
    package: str = ""
    uncompared: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = [f"  {one}" for one in (*self.problems, *self.notes)]
        return "\n".join([f"{self.release}: {self.outcome.replace('_', ' ')}", *told, f"Checked: {self.checked}."])

    @property
    def ok(self) -> bool:
        """Whether no check failed; see ``outcome`` for the extent of the checks."""
        return not self.problems

    @property
    def outcome(self) -> Outcome:
        """The verdict in one word; "other_rules" is neither a full pass nor a failure."""
        if self.problems:
            return "invalid"
        if self.uncompared:
            return "other_rules"
        return "verified" if self.compared else "receipt_only"

    @property
    def checked(self) -> str:
        """The extent of the checks, in words."""
        if self.compared:
            return "files, receipt, and every number and promise against what the ledger keeps"
        if self.uncompared:
            number = "1 file was" if len(self.uncompared) == 1 else f"{len(self.uncompared)} files were"
            return (
                "file hashes, receipt, and what the ledger keeps of it; made by "
                f"{self.package or 'another version'} by other rules: {number} not compared "
                f"({', '.join(self.uncompared)})"
            )
        return "only file hashes and the receipt; its numbers and promises were not compared with the ledger"


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedFiles:
    """A release as its task renders it again from the ledger's contents.

    ``files`` are without hashes, which depend on the writing library's version. ``contents``: the contents of each
    file, a table or a test of its bytes. ``told``: the most further notes in the release, which the ledger lacks.
    ``meanings``: of files that are not tables: whether the numbers are the same, in whatever words. A page has no such
    test, since it shows the numbers of the other files. ``near``: of files with real numbers: whether they are the same
    up to the rounding of another processor or library.
    """

    manifest: Manifest
    files: tuple[ReleaseFile, ...]
    contents: Mapping[str, pa.Table | FileTest]
    told: int = 0
    meanings: Mapping[str, FileTest] = field(default_factory=dict)
    near: Mapping[str, FileTest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The comparison of a release with ``ExpectedFiles``.

    ``wording``: the manifest's parts that differ in words. ``near``: the files that are the same up to rounding.
    """

    problems: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()
    wording: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


def verify_release(
    folder: Path,
    ledger: Ledger | None = None,
    *,
    schema: str | None = None,
    rendered: ExpectedFiles | None = None,
    kept: KeptMeasurement | None = None,
) -> ReleaseVerdict:
    """Check a release's files against its manifest, its receipt against ``ledger``, and all of it with ``rendered``.

    A file's hash in the manifest can be changed together with the file: only ``rendered`` and ``kept``, which a
    session's ``verify`` computes from the ledger, detect that. Without them the verdict says that only hashes and
    receipt were checked. ``kept`` is compared always; files that follow from it by rules with other numbers than this
    version's are named in ``uncompared`` if they differ.

    Args:
        schema: The digest of the table's declaration; a different one is noted, and is not an error of the release.
    Raises:
        ReleaseError: There is no manifest to check.
    """
    manifest = read_manifest(folder)
    problems = _find_name_problems(folder, manifest) + find_file_problems(folder, manifest)
    if ledger is not None:
        problems += _find_receipt_problems(manifest.receipt, ledger)
    if kept is not None and not problems:
        problems += _find_kept_problems(folder, manifest, kept)
    changed = schema is not None and manifest.schema != f"sha256:{schema}"
    found = _Comparison()
    if not problems and rendered is not None:
        found = _compare(folder, manifest, rendered, kept)
    elif not problems and kept is not None and schema is not None and not changed and _has_other_rules(manifest):
        names = (file.name for file in manifest.files if file.name not in kept.tests)
        found = _Comparison(uncompared=(*names, MANIFEST))
    notes = []
    if changed:
        notes.append("The table's declaration has changed since: this release is about the earlier one.")
    if rendered is not None and rendered.told:
        notes.append("Its last note says why no second step was taken; the ledger does not keep that.")
    if rendered is not None and found.wording:
        notes.append(f"Not compared in {MANIFEST}: {', '.join(found.wording)}.")
        notes.append(f"The guarantee by the ledger: {rendered.manifest.guarantee.get('sentence', '')}")
    if found.near:
        drawn = " What was drawn from them was not compared." if found.uncompared else ""
        made = ", ".join(found.near)
        notes.append(f"Another processor or library made {made}: its real numbers agree up to rounding.{drawn}")
    full = rendered is not None and not found.uncompared
    every = (*problems, *found.problems)
    return ReleaseVerdict(manifest.id, every, tuple(notes), full, manifest.package, () if every else found.uncompared)


def _has_other_rules(manifest: Manifest) -> bool:
    return parse_rules(manifest.task, manifest.rules) != RULES.get(manifest.task)


def _find_name_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Return an error if the folder's name is another release's id; any other name is allowed."""
    name = folder.resolve().name
    if name == manifest.id or not _ID.fullmatch(name):
        return []
    return [f"The folder is named {name!r}, and the release in it {manifest.id!r}."]


def _find_kept_problems(folder: Path, manifest: Manifest, kept: KeptMeasurement) -> list[str]:
    """Return what differs from the ledger's measurement, by whatever rules the rest was made."""
    if manifest.task != kept.task:
        return [f"task in {MANIFEST} does not match the ledger."]
    if kept.schema and manifest.schema != f"sha256:{kept.schema}":
        return [f"schema in {MANIFEST} does not match the ledger."]
    return [
        f"{name} does not hold what the ledger keeps."
        for name, test in kept.tests.items()
        if not _has_content(folder / name, test)
    ]


def _compare(folder: Path, manifest: Manifest, rendered: ExpectedFiles, kept: KeptMeasurement | None) -> _Comparison:
    """Compare manifest and files with ``rendered``: in full, or as far as rules with other numbers allow it."""
    task = rendered.manifest.task
    made = parse_rules(task, manifest.rules)
    now = RULES.get(task, made)
    places, wording = [], []
    for place, mine, theirs in _list_differences(manifest, rendered):
        if made != now and _may_differ(place, mine, theirs, kept):
            wording.append(place)
        else:
            places.append(f"{place} in {MANIFEST} does not match the ledger.")
    if places:
        return _Comparison(tuple(places))
    differing = [name for name, content in rendered.contents.items() if not _has_content(folder / name, content)]
    near = [name for name in differing if name in rendered.near and _has_content(folder / name, rendered.near[name])]
    rest = [name for name in differing if name not in near]
    exact = made == now and not near  # what is drawn from numbers that differ in their last digits may differ, too
    comparable = made.has_same_numbers_as(now)
    wrong = [
        name
        for name in rest
        if exact or (comparable and not _has_same_numbers(folder / name, rendered, drawn=bool(near)))
    ]
    others = [file.name for file in manifest.files if made != now and file.name not in rendered.contents]
    uncompared = (*(name for name in rest if name not in wrong), *others, *((MANIFEST,) if wording else ()))
    problems = tuple(f"{name} does not hold what the ledger keeps." for name in wrong)
    return _Comparison(problems, uncompared, tuple(wording), tuple(near))


def _list_differences(manifest: Manifest, rendered: ExpectedFiles) -> list[tuple[str, Any, Any]]:
    """Return the manifest's leaves that differ: place, value, and the value expected; ``_ABSENT`` if it is missing."""
    bare = tuple(replace(file, sha256="", rules={}) for file in manifest.files)
    here = replace(manifest, files=bare)
    if rendered.told and len(here.known) == len(rendered.manifest.known) + rendered.told:
        here = replace(here, known=here.known[: -rendered.told])
    # Package and rules only say who made it: contents are compared, whatever they say.
    should = replace(rendered.manifest, files=rendered.files, package=manifest.package)
    mine, theirs = (dict(walk_leaves(load_json(one.to_json()))) for one in (here, should))
    places = sorted(mine.keys() | theirs.keys())
    pairs = [(place, mine.get(place, _ABSENT), theirs.get(place, _ABSENT)) for place in places]
    return [(place, one, other) for place, one, other in pairs if one != other]


def _may_differ(place: str, mine: Any, theirs: Any, kept: KeptMeasurement | None) -> bool:
    """Return whether a leaf of the manifest may differ in a release that was made by other rules."""
    if place == _QUERY and kept is not None and kept.request:
        return bool(mine == kept.request)
    if _WORDING.fullmatch(place):
        return True
    return place.startswith(_GROWING) and (mine is _ABSENT or theirs is _ABSENT)


def _has_same_numbers(path: Path, rendered: ExpectedFiles, *, drawn: bool) -> bool:
    """Return whether a file of other words holds the numbers that equal rules give again.

    ``drawn``: tables may be drawn from real numbers that differ in their last digits.
    """
    if path.name in rendered.meanings:
        return _has_content(path, rendered.meanings[path.name])
    content = rendered.contents[path.name]
    return callable(content) or drawn or _has_table(path, content, rename=True)


def _has_content(path: Path, content: pa.Table | FileTest) -> bool:
    if callable(content):
        with suppress(DocumentTooLarge, OSError):
            return content(read_bounded(path, MAX_PART))
        return False
    return _has_table(path, content, rename=False)


def _has_table(path: Path, table: pa.Table, *, rename: bool) -> bool:
    """Return whether the file holds ``table``; with ``rename``, its cells in columns of whatever names."""
    import pyarrow as pa
    import pyarrow.parquet

    from siloquent.foreign.tables import read_parquet

    with tempfile.TemporaryDirectory() as beside:
        written = Path(beside) / "written.parquet"
        pyarrow.parquet.write_table(table, written)
        try:
            found, expected = read_parquet(path), read_parquet(written)
            if rename and found.num_columns == expected.num_columns:
                found = found.rename_columns(expected.column_names).cast(expected.schema)
            return bool(found.equals(expected))
        except (ValueError, OSError, pa.ArrowException):
            return False


def _find_receipt_problems(receipt: Mapping[str, Any], ledger: Ledger) -> list[str]:
    """Return the errors of a receipt; of a sum of several releases this ledger confirms only its own."""
    every = receipt.get("all", [receipt])
    if not isinstance(every, list) or not all(isinstance(one, Mapping) for one in every):
        return ["Its receipt cannot be read."]
    if any(receipt.get(name) != one.get(name) for one in every[:1] for name in ("ledger", "seq", "hash")):
        return ["Its receipt is not the first of those that it holds."]
    if receipt.get("parts", 1) != len(every):
        return ["Its receipt does not hold as many parts as it says."]
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
