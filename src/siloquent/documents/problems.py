"""Errors as one document for the command line and the server; details go only to the owner's log."""

from __future__ import annotations

import io
import logging
import math
import os
import traceback
import uuid
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from siloquent.errors import MAX_NAMES, SiloquentError
from siloquent.fixes import NO_FIX, PYTHON, Fix, FixLanguage, FixLike, build_fix, run

TYPES = "https://siloquent.invalid/problems/"
OWNER_LOG = "owner.log"
MAX_LOG_BYTES = 10 * 2**20
INTERRUPTED = 130


# The fix for errors without one of their own: every refusal ends with a concrete next step.
FIXES: Mapping[str, FixLike] = {
    "schema_invalid": build_fix("correct the named file, then: ", run("check")),
    "link_invalid": build_fix("correct unit in the named file, then: ", run("check")),
    "workspace": build_fix(run("init", "DIR"), ", or name the folder of one"),
    "unknown_name": run("tables"),
    "request_invalid": run("tables"),
    "unanswered": build_fix(run("tables"), ", to check whether the server responds"),
    "kernel_invalid": run("sketch plan", "--help"),
    "installation": run("doctor"),
    "syntax": run("tables"),
    "constraint": build_fix("hard = false in the constraint, then: ", run("synth plan", "TABLE")),
    "too_few_reports": build_fix(run("collect show", "COLLECTION"), ", and wait for more"),
    "accuracy_unreachable": "ask with a larger ERROR",
    "budget_exceeded": build_fix(run("ledger show"), ", then ask with a larger ERROR"),
    "ledger": run("doctor"),
    "ledger_rolled_back": build_fix("restore the newest ledger.sqlite, then: ", run("ledger verify")),
    "chain_broken": build_fix("stop querying, keep all files, then: ", run("ledger verify", "--checkpoint", "FILE")),
    "release_invalid": run("release list"),
    "not_allowed": "ask the table's owner",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, readable on standard error and machine-readable on standard output.

    ``about``: the error's own attributes, by name, so that programs need not parse ``detail``. ``fix``: the ``remedy``
    in the words of the interface.
    """

    code: str
    title: str
    detail: str
    exit_status: int
    fix: str = ""
    spent: str = "nothing"
    http_status: int = 400
    instance: str = ""
    notes: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    remedy: Fix = NO_FIX

    def translate(self, language: FixLanguage) -> Problem:
        """Return the problem with its fix in the language of an interface."""
        return replace(self, fix=self.remedy.render(language)) if self.remedy else self

    def to_json(self) -> dict[str, Any]:
        """Return the document of kind ``siloquent/problem/1``."""
        return {
            "schema": "siloquent/problem/1",
            "type": TYPES + self.code,
            "code": self.code,
            "title": self.title,
            "status": self.http_status,
            "exit": self.exit_status,
            "detail": self.detail,
            "spent": self.spent,
            "fix": self.fix,
            "instance": self.instance or f"urn:uuid:{uuid.uuid4()}",
            "notes": list(self.notes),
            "about": dict(self.about),
            "remedy": (self.remedy or build_fix(self.fix)).to_json(),
        }


def build_problem(error: BaseException) -> Problem:
    """Build the problem of ``error``, its fix in Python's words; internal bugs get a report's id and no detail."""
    notes = tuple(getattr(error, "__notes__", ()))
    if isinstance(error, SiloquentError):
        remedy = error.remedy or build_fix(FIXES.get(error.code, ""))
        return Problem(
            error.code,
            error.title,
            error.detail,
            error.exit_status,
            remedy.render(PYTHON),
            error.spent,
            error.http_status,
            notes=notes,
            about=_list_attributes(error),
            remedy=remedy,
        )
    if isinstance(error, KeyboardInterrupt):
        spent, fix = getattr(error, "spent", "nothing"), getattr(error, "fix", "")
        return Problem("interrupted", "Interrupted", "The command was interrupted.", INTERRUPTED, fix, spent, 499)
    report = uuid.uuid4()
    return Problem(
        code=SiloquentError.code,
        title="Internal error",
        detail=f"An unexpected internal error occurred. Report id: {report}.",
        exit_status=SiloquentError.exit_status,
        fix="report the id and the command; the workspace's owner finds the details in its owner.log",
        spent="a reserved charge remains; repeating with the same --key costs no more",
        http_status=SiloquentError.http_status,
        instance=f"urn:uuid:{report}",
        notes=notes,
    )


def _list_attributes(error: SiloquentError) -> dict[str, Any]:
    """Return the attributes useful to a program; of lists of known names, only the entries that the message shows."""
    found: dict[str, Any] = {name: getattr(error, name, None) for name in error.FIELDS}
    if "known" in found:
        found["known"] = list(found["known"])[:MAX_NAMES]
    alpha = found.get("best_alpha")
    if alpha is not None:  # numpy numbers and infinity are not valid JSON
        found["best_alpha"] = float(alpha) if math.isfinite(alpha) else None
    return found


class OwnerLog(logging.FileHandler):
    """The workspace's own log, readable only by its owner; opened at the first write."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / OWNER_LOG, delay=True, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))

    def _open(self) -> io.TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        return io.TextIOWrapper(os.fdopen(os.open(self.baseFilename, flags, 0o600), "ab"), encoding="utf-8")

    def emit(self, record: logging.LogRecord) -> None:
        """Write ``record`` if possible; a log that is too large is rotated, replacing the previous one."""
        with suppress(OSError):
            if os.stat(self.baseFilename).st_size > MAX_LOG_BYTES:
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
        with suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Do nothing: a full disk must not hide the report, and logging would print the record on the terminal."""


def log_details(folder: Path | None, problem: Problem, error: BaseException) -> None:
    """Write the details to the owner's log; skipped without a workspace or on a full disk."""
    if folder is None:
        return
    details = "".join(traceback.format_exception(error))
    with closing(OwnerLog(folder)) as log:
        log.emit(logging.LogRecord("siloquent", logging.ERROR, "", 0, "%s\n%s", (problem.instance, details), None))
