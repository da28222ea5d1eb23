"""A check of this machine: versions, extras, Java, clock, random source, disk, file modes."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT
from siloquent.documents.server import build_doctor_document
from siloquent.fixes import FixLike, build_fix, run
from siloquent.version import VERSION

State = Literal["good", "missing", "bad"]
PACKAGES = ("opendp", "duckdb", "sqlglot", "pyarrow", "numpy", "scipy", "numba", "pydantic", "sqlalchemy", "narwhals")
EXTRAS = {"server": "fastapi", "postgres": "psycopg", "spark": "pyspark", "federation": "cryptography"}
MIN_DISK_BYTES = 100 * 2**20
# Network file systems do not lock as SQLite needs.
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs"}


@dataclass(frozen=True, slots=True)
class HealthFinding:
    """The result of one check; ``missing`` is an optional part, ``bad`` needs the fix."""

    what: str
    state: State
    found: str
    fix: str = ""


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "doctor", run_doctor, panel="Help")


def run_doctor(options: Options) -> int:
    """Check this installation and workspace; exit 1 if there is a problem."""
    findings = list(examine(options.find_folder()))
    document = build_doctor_document([asdict(finding) for finding in findings])
    status = 0 if document["ok"] else 1
    if options.as_json:
        options.screen.write_document(document)
        return status
    marks = {"good": "ok", "missing": "-", "bad": "FIX"}
    options.screen.write_table(
        [("", LEFT), ("what", LEFT), ("found", LEFT), ("fix", LEFT)],
        [(marks[f.state], f.what, clean_text(f.found), f.fix) for f in findings],
    )
    return status


def examine(folder: Path | None) -> Iterator[HealthFinding]:
    """Yield every finding in display order; ``folder`` is the workspace, if there is one."""
    yield HealthFinding("siloquent", "good", VERSION)
    yield HealthFinding("Python", "good" if sys.version_info >= (3, 11) else "bad", platform.python_version())
    for package in PACKAGES:
        yield _check_package(package)
    for extra, package in EXTRAS.items():
        yield _check_extra(extra, package)
    yield _check_java()
    yield _check_clock()
    yield _check_random()
    if folder is None:
        yield HealthFinding("workspace", "missing", "none here or above", "siloquent init DIR")
        return
    for look in (_check_disk, _check_file_system, _check_modes, _check_ledger):
        yield look(folder)
    yield from _check_domains(folder)
    for bundle in sorted({path.parent for path in (*folder.glob("*/bundle.toml"), *folder.glob("*/*/bundle.toml"))}):
        yield _check_certificate(bundle)


def _check_package(name: str) -> HealthFinding:
    from importlib import metadata

    try:
        return HealthFinding(name, "good", metadata.version(name))
    except metadata.PackageNotFoundError:
        return HealthFinding(name, "bad", "not installed", "pip install --upgrade siloquent")


def _check_extra(extra: str, package: str) -> HealthFinding:
    from importlib.metadata import version

    if find_spec(package) is None:
        return HealthFinding(f"extra {extra}", "missing", "not installed", f"pip install 'siloquent[{extra}]'")
    return HealthFinding(f"extra {extra}", "good", f"{package} {version(package)}")


def _check_java() -> HealthFinding:
    import subprocess

    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not program or not Path(program).exists():
        return HealthFinding(
            "Java", "missing", "not found; Spark needs 17 or newer", "apt-get install openjdk-17-jre-headless"
        )
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=20).stderr
    return HealthFinding("Java", "good", said.splitlines()[0] if said else program)


def _check_clock() -> HealthFinding:
    """Check the clock: entries carry its time for readers; their order never depends on it."""
    now = datetime.now(UTC)
    if now.year < 2024:
        return HealthFinding("clock", "bad", f"{now:%Y-%m-%d %H:%M} UTC", "set the clock")
    return HealthFinding("clock", "good", f"{now:%Y-%m-%d %H:%M} UTC")


def _check_random() -> HealthFinding:
    """Check the system's random source, the only source of noise."""
    try:
        os.getrandom(16, os.GRND_NONBLOCK)  # allowed: a look whether the source answers; the bytes are dropped
    except BlockingIOError:
        return HealthFinding("random source", "bad", "not seeded yet", "wait until the machine has collected entropy")
    except AttributeError:
        return HealthFinding("random source", "good", "the system's, by name of this platform")
    return HealthFinding("random source", "good", "getrandom answers")


def _check_disk(folder: Path) -> HealthFinding:
    free = shutil.disk_usage(folder).free
    is_enough = free >= MIN_DISK_BYTES
    return HealthFinding(
        "disk", "good" if is_enough else "bad", f"{free / 2**30:.1f} GiB free", "" if is_enough else "free disk space"
    )


def _check_file_system(folder: Path) -> HealthFinding:
    """Report the type of file system of the workspace, if the system tells it."""
    kind = _read_mount_kind(folder.resolve())
    if kind in REMOTE:
        return HealthFinding("ledger's disk", "bad", f"{kind}, over the network", "put the workspace on a local disk")
    return HealthFinding("ledger's disk", "good", kind or "not reported by this system")


def _read_mount_kind(folder: Path) -> str:
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = {fields[1]: fields[2] for fields in map(str.split, lines) if len(fields) > 2}
    for above in (folder, *folder.parents):
        if str(above) in mounts:
            return mounts[str(above)]
    return ""


def _check_modes(folder: Path) -> HealthFinding:
    """Check whether other users of this machine could read rows or the ledger."""
    names = ["ledger.sqlite", "owner.log", *(str(p.relative_to(folder)) for p in sorted(folder.glob("data/*")))]
    is_open: Callable[[Path], bool] = lambda path: path.is_file() and bool(path.stat().st_mode & 0o007)  # noqa: E731
    loose = [name for name in names if is_open(folder / name)]
    if loose and folder.stat().st_mode & 0o001:
        return HealthFinding("file modes", "missing", f"others may read {', '.join(loose)}", f"chmod o-rwx {folder}")
    return HealthFinding("file modes", "good", "no other user of this machine reads rows or ledger")


def _check_certificate(bundle: Path) -> HealthFinding:
    """Check the remaining validity of a federation role's certificate; it is bad from 3 days before its end."""
    from siloquent.errors import MissingExtra, SiloquentError
    from siloquent.federation.connection_check import check_certificate_days
    from siloquent.federation.identity.bundle import read_bundle

    what = f"bundle {bundle.name}"
    try:
        tried = check_certificate_days(read_bundle(bundle))
    except MissingExtra as missing:
        return HealthFinding(what, "missing", missing.detail, _say(missing.remedy))
    except SiloquentError as refused:
        return HealthFinding(what, "bad", refused.detail, _say(refused.remedy))
    return HealthFinding(what, "bad" if tried.state == "bad" else "good", tried.found, _say(tried.fix))


def _say(fix: FixLike) -> str:
    return build_fix(fix).render(Options().language)


def _check_ledger(folder: Path) -> HealthFinding:
    from siloquent.errors import SiloquentError
    from siloquent.schema.workspace import read_workspace
    from siloquent.session import open_workspace_ledger

    try:
        ledger = open_workspace_ledger(read_workspace(folder))
        verdict = ledger.verify()
        ledger.close()
    except SiloquentError as refused:
        return HealthFinding("ledger", "bad", refused.detail, _say(refused.remedy or run("ledger verify")))
    if not verdict.ok:
        return HealthFinding(
            "ledger", "bad", verdict.problem, "keep all files as they are, then: siloquent ledger verify"
        )
    return HealthFinding("ledger", "good", f"{verdict.entries:,} entries, none altered")


def _check_domains(folder: Path) -> Iterator[HealthFinding]:
    """Compare the files of released domains with the ledger, if there are any."""
    from siloquent.discover.kept import find_domain_faults
    from siloquent.errors import SiloquentError
    from siloquent.schema.domains import list_domain_files
    from siloquent.schema.workspace import read_workspace
    from siloquent.session import open_workspace_ledger

    files = list_domain_files(folder)
    if not files:
        return
    try:
        ledger = open_workspace_ledger(read_workspace(folder))
        faults = find_domain_faults(folder, ledger)
        ledger.close()
    except SiloquentError:  # told above
        return
    for fault in faults:
        yield HealthFinding("released domain", "bad", fault.sentence, _say(fault.fix))
    if not faults:
        yield HealthFinding("released domains", "good", f"{len(files):,} as released")
