"""Replacement of a table's rows by others, after these were checked against the declaration."""

from __future__ import annotations

import errno
import os
import secrets  # allowed: a file's name, no noise
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from siloquent.data.check.report import CheckReport
from siloquent.data.check.table import check
from siloquent.data.sources.files import find_source_file
from siloquent.data.table import PermitChecker
from siloquent.data.table_factory import open_table
from siloquent.errors import DataError, RequestError, SchemaError, SiloquentError
from siloquent.fixes import RunCommand, build_fix, run
from siloquent.schema import TableSchema
from siloquent.schema.workspace import Workspace

FILES = ("csv", "csv-records", "xlsx", "parquet", "duckdb")
MAX_TOLD = 3
_NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """New rows of a table: their check, and what the ledger records of them.

    ``version``: of the rows: the declared one, plus one for each refresh. ``entry`` and ``at``: the ledger's entry and
    its time; 0 and empty while nothing is charged to the table, since then there is nothing to tell apart.
    """

    table: str
    check: CheckReport
    version: int
    entry: int = 0
    at: str = ""

    def __str__(self) -> str:
        since = f", since {self.at}" if self.at else ""
        return f"{self.table}: {self.check.rows:,} rows, version {self.version}{since}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {**self.check.to_json(), "version": self.version, "entry": self.entry, "at": self.at}


def check_frame(
    schema: TableSchema, frame: object, permits: PermitChecker, *, salt: str, despite_findings: bool
) -> CheckReport:
    """Check a frame that is to become the rows of ``schema``.

    Raises:
        SchemaError: it does not fit the declaration.
    """
    with closing(open_table(schema, None, permits, salt=salt, frame=frame)) as table:
        return require_fit(check(table), "The frame", "frame", despite_findings=despite_findings)


def replace_file(
    schema: TableSchema, workspace: Workspace, permits: PermitChecker, file: Path, *, salt: str, despite_findings: bool
) -> CheckReport:
    """Make a checked copy of ``file`` the source of ``schema``, atomically; the source stays as it is on any error.

    Args:
        despite_findings: Take rows with problems too; an empty file is refused nevertheless.
    Raises:
        SchemaError: the source is not a file here, or ``file`` does not fit the declaration.
        DataError: ``file`` cannot be read. RequestError: its copy cannot be written, as on a full disk.
    """
    kind, _, where = schema.source.partition(":")
    if kind not in FILES:
        raise SchemaError(
            f"The rows of {schema.name!r} are not in a file but at {schema.source or 'no source'!r}.",
            fix=build_fix("replace them there, then: ", run("refresh", schema.name)),
        )
    path, sign, inner = where.partition("#") if kind == "duckdb" else (where, "", "")
    target = Path(find_source_file(path, workspace.folder, table=schema.name).path)
    if target.with_name(f"{target.name}.wal").exists():
        raise SchemaError(f"{target.name} is open in another program.", fix=f"close it, so that {target.name}.wal ends")
    if not file.is_file():
        raise SchemaError(f"{file} is not a file.", fix=run("refresh", schema.name, "NEWFILE"))
    staged = target.with_name(f".{secrets.token_hex(4)}.{target.name}")  # allowed: a name
    try:
        _copy(file, staged, like=target)
        there = replace(schema, source=f"{kind}:{(Path(path).parent / staged.name).as_posix()}{sign}{inner}")
        with closing(open_table(there, workspace, permits, salt=salt)) as table:
            report = require_fit(check(table), file.name, str(file), despite_findings=despite_findings)
        os.replace(staged, target)
        _sync_folder(target.parent)
    except OSError as failed:
        raise _explain_failed_copy(failed, file, target) from failed
    finally:
        staged.unlink(missing_ok=True)
        staged.with_name(f"{staged.name}.wal").unlink(missing_ok=True)
    return report


def _explain_failed_copy(failed: OSError, file: Path, target: Path) -> SiloquentError:
    """Return the error for a failed copy: ``file`` cannot be read, or its copy cannot be written."""
    if failed.errno not in _NO_PLACE and failed.filename == str(file):
        return DataError()
    return RequestError(
        f"The new rows cannot be written beside {target.name}: {failed.strerror}; nothing was replaced.",
        fix=f"free disk space, or correct the permissions of {target.parent.name}/, then refresh again",
    )


def _copy(file: Path, staged: Path, *, like: Path) -> None:
    shutil.copyfile(file, staged)
    shutil.copymode(like, staged)
    handle = os.open(staged, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_fit(report: CheckReport, name: str, rows: str, *, despite_findings: bool) -> CheckReport:
    """Return ``report`` of the rows called ``name`` if they have no problem, or are to be taken despite it.

    Args:
        rows: The rows as the caller named them: a file's path, ``frame``, or empty for those in the source.
    Raises:
        SchemaError: they have problems, or there are none.
    """
    if not report.rows:
        raise SchemaError(f"{name} has no rows; nothing was replaced.", fix="name the file that holds the new rows")
    problems = [one for one in report.findings if one.is_problem]
    if not problems or despite_findings:
        return report
    told = "; ".join(f"{one.subject}: {one.sentence.rstrip('.')}" for one in problems[:MAX_TOLD])
    more = f"; and {len(problems) - MAX_TOLD} more" if len(problems) > MAX_TOLD else ""
    is_frame = name == "The frame"
    named = [rows if is_frame else repr(rows)] if rows else []
    again = RunCommand(
        "refresh",
        (report.table, *([rows] if rows else []), "--despite-findings"),
        python=f"session.refresh({', '.join([repr(report.table), *named, 'despite_findings=True'])})",
    )
    raise SchemaError(
        f"{name} does not fit the declaration of {report.table!r}; nothing was replaced. {told}{more}.",
        fix=build_fix(f"correct {'it' if is_frame else 'the file'}, or take it as it is: ", again),
    )
