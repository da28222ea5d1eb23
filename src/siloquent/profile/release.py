"""A report as a release: ``report.json``, its dependencies as a table, and a manifest; written and verified."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.maths.dependencies import compute_closures
from siloquent.profile.spec import Dependency, FDReport, parse_report
from siloquent.releases import Manifest, ReleaseFile, ReleaseVerdict, read_manifest, write_table
from siloquent.releases.folder import compute_sha256
from siloquent.releases.manifest import MANIFEST
from siloquent.releases.rules import dump_rules
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

FILE, LIST = "report.json", "dependencies.parquet"
MAX_BYTES = 2**26
TASK = "profile"


def save_report(report: FDReport, folder: Path, *, table: str) -> Path:
    """Write the report's release as ``folder``, atomically; an existing release of the same report is kept.

    Raises:
        ReleaseError: the folder holds something else, or writing fails.
    """
    if folder.exists():
        if (folder / FILE).is_file() and load_report(folder).to_json() == report.to_json():
            return folder
        raise ReleaseError(f"{folder} already exists and holds a different report.", fix="choose another folder")
    building: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        (building / FILE).write_text(report.to_json(), encoding="utf-8")
        listed = _build_table(report)
        write_table(building / LIST, listed, "parquet")
        columns, rules = tuple(listed.column_names), dump_rules(TASK)
        entries = (
            ReleaseFile(LIST, compute_sha256(building / LIST), listed.num_rows, columns, {}, rules),
            ReleaseFile(FILE, compute_sha256(building / FILE), listed.num_rows, ("ufd", "cfd"), {}, rules),
        )
        (building / MANIFEST).write_text(_build_manifest(report, table, entries).to_json(), encoding="utf-8")
        os.replace(building, folder)
    except OSError as failed:
        if building is not None:
            shutil.rmtree(building, ignore_errors=True)
        raise ReleaseError(
            f"Cannot write the report to {folder}: {failed.strerror}.", fix="free some disk space"
        ) from None
    return folder


def load_report(folder: Path) -> FDReport:
    """Read the report in a release's folder, or in a file.

    Raises:
        ReleaseError: it is not a report, or was changed after its release.
    """
    path = folder / FILE if folder.is_dir() else folder
    try:
        if path.is_symlink() or path.stat().st_size > MAX_BYTES:
            raise ReleaseError(f"{path} is not a report of dependencies.")
        text = path.read_text(encoding="utf-8")
        plain = load_json(text)
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(f"{path} is not a readable report.", fix=run("profile show", "REPORT")) from None
    if folder.is_dir():
        manifest = read_manifest(folder)
        entry = next((file for file in manifest.files if file.name == FILE), None)
        if manifest.task != TASK or entry is None or entry.sha256 != compute_sha256(path):
            raise ReleaseError(f"{FILE} was changed after its release.", fix=run("profile verify", "REPORT"))
    return parse_report(plain)


def check_report(report: FDReport) -> tuple[str, ...]:
    """Return the faults of a report by itself: contradictions, missing confirmations, failed canaries; in words."""
    wanted = f"sha256:{report.compute_digest()}"
    problems = [
        f"{party} has not confirmed this report."
        for party, _ in report.parties
        if report.signatures.get(party) != wanted
    ]
    names = [column.name for column in report.columns]
    problems += [
        f"{one} speaks of columns that it cannot."
        for one in (*report.ufd, *report.cfd)
        if one.rhs in one.lhs or not set(names).issuperset((*one.lhs, one.rhs))
    ]
    if problems:
        return tuple(problems)
    if len(names) <= 16:
        inside = compute_closures([_build_masks(one, names) for one in report.cfd], len(names))
        for one in report.ufd:
            lhs, right = _build_masks(one, names)
            if not inside[lhs] >> right & 1:
                problems.append(f"{one} holds over all rows, but not in every party: that cannot be.")
    for kind, found in (("all rows", report.ufd), ("every party", report.cfd)):
        problems += [f"{one} is not minimal among those of {kind}." for one in found if _is_covered(one, found)]
    if report.canaries[1]:
        problems.append("A worker failed a canary.")
    return tuple(problems)


def _build_masks(one: Dependency, names: list[str]) -> tuple[int, int]:
    return sum(1 << names.index(name) for name in one.lhs), names.index(one.rhs)


def _is_covered(one: Dependency, found: tuple[Dependency, ...]) -> bool:
    return any(other.rhs == one.rhs and set(other.lhs) < set(one.lhs) for other in found)


def verify_report_release(folder: Path) -> ReleaseVerdict:
    """Return the verdict on a report's release, for ``verify``: no ledger holds it, the parties have confirmed it."""
    manifest = read_manifest(folder)
    try:
        report = load_report(folder)
    except ReleaseError as wrong:
        return ReleaseVerdict(manifest.id, (wrong.detail,), package=manifest.package)
    note = f"A report of several silos: confirmed by {len(report.signatures)} parties; no ledger here holds it."
    return ReleaseVerdict(report.id, check_report(report), (note,), package=manifest.package)


def _build_table(report: FDReport) -> pa.Table:
    """Build a table of the dependencies; those over all rows first."""
    import pyarrow as pa

    listed = [(one, "over all rows") for one in report.ufd] + [(one, "in each silo") for one in report.only_inside]
    return pa.table(
        {
            "lhs": pa.array([", ".join(one.lhs) for one, _ in listed], pa.string()),
            "rhs": pa.array([one.rhs for one, _ in listed], pa.string()),
            "holds": pa.array([where for _, where in listed], pa.string()),
        }
    )


def _build_manifest(report: FDReport, table: str, entries: tuple[ReleaseFile, ...]) -> Manifest:
    names = [column.name for column in report.columns]
    return Manifest(
        id=report.id,
        task=TASK,
        package=f"siloquent {VERSION}",
        table=table,
        schema="",
        request={"query": f"profile {table}", "columns": names, "protocol": report.protocol},
        guarantee={"definition": "input-privacy", "sentence": report.describe_guarantee()},
        accuracy={"label": "exact", "complete_to_lhs": report.complete_to_lhs},
        receipt={"session": report.session},
        files=entries,
        known=("exact, and not differentially private",),
    )
