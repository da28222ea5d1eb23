"""Documents about a server and its machine: persons, tokens, jobs, uploads, records; settings, backups, upgrades."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class TokenHolder(Protocol):
    """The name, role and tables of a token, and when it expires."""

    @property
    def name(self) -> str:
        """Whom the token was created for."""

    @property
    def role(self) -> str:
        """The role, which says what the token permits."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables it is valid for; none named: all."""

    @property
    def expires(self) -> int:
        """In seconds since 1970."""


def build_person_document(person: TokenHolder) -> dict[str, Any]:
    """Return the holder of a token as a document of kind ``siloquent/person/1``."""
    return {
        "schema": "siloquent/person/1",
        "name": person.name,
        "role": person.role,
        "tables": list(person.tables),
        "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(person.expires)),
    }


def build_token_document(line: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a new token with its text, which is not shown again, as a document of kind ``siloquent/token/1``."""
    return {"schema": "siloquent/token/1", **line, "token": text}


def build_token_list_document(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return tokens without their texts as a document of kind ``siloquent/token-list/1``."""
    return {"schema": "siloquent/token-list/1", "tokens": list(lines)}


def build_job_document(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as a document of kind ``siloquent/job/1``; ``release``: what a finished job made."""
    return {
        "schema": "siloquent/job/1",
        "id": job["id"],
        "name": job["name"],
        "task": job["task"],
        "spec": job["spec"],
        "state": job["state"],
        "done": job["done"],
        "steps": job["steps"],
        "result": job["result"],
        "release": (job["result"] or {}).get("release") if job["state"] == "done" else None,
        "account": job["account"] or None,
        "cost": job["cost"],
        "cancelled_by": job["cancelled_by"],
        "created": job["created"],
        "changed": job["changed"],
    }


def build_job_list_document(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return jobs' documents as one of kind ``siloquent/job-list/1``."""
    return {"schema": "siloquent/job-list/1", "jobs": list(jobs)}


def build_upload_document(number: str, form: str, source: str, size: int) -> dict[str, Any]:
    """Return an uploaded file as a document of kind ``siloquent/upload/1``; ``source``: its name in a table file."""
    return {"schema": "siloquent/upload/1", "id": number, "format": form, "source": source, "bytes": size}


def build_upload_list_document(uploads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return uploaded files as a document of kind ``siloquent/upload-list/1``."""
    return {"schema": "siloquent/upload-list/1", "uploads": list(uploads)}


def build_spending_document(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return spending by account, analyst and task as a document of kind ``siloquent/spending/1``."""
    return {"schema": "siloquent/spending/1", "lines": list(lines)}


def build_denial_list_document(denials: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return recorded refusals as a document of kind ``siloquent/denial-list/1``."""
    return {"schema": "siloquent/denial-list/1", "denials": list(denials)}


def build_act_list_document(acts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return recorded acts that concern others as a document of kind ``siloquent/act-list/1``."""
    return {"schema": "siloquent/act-list/1", "acts": list(acts)}


def build_settings_document(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server's settings as a document of kind ``siloquent/server-settings/1``."""
    return {"schema": "siloquent/server-settings/1", **settings}


def build_slots_document(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how long answers take on this machine as a document of kind ``siloquent/slots/1``."""
    longest = max((line["slot_ms"] for line in lines), default=0)
    return {"schema": "siloquent/slots/1", "tables": list(lines), "slot_counts_ms": longest}


def build_backup_document(
    folder: Path, entries: int, files: int, left_out: Sequence[str], deleted: Sequence[str]
) -> dict[str, Any]:
    """Return a verified backup as a document of kind ``siloquent/backup/1``; ``deleted``: older ones."""
    return {
        "schema": "siloquent/backup/1",
        "folder": str(folder),
        "entries": entries,
        "files": files,
        "left_out": list(left_out),
        "deleted": list(deleted),
    }


def build_restored_document(
    folder: Path, entries: int, files: int | None, checkpoint: int, *, tokens: bool
) -> dict[str, Any]:
    """Return a restored workspace as a document of kind ``siloquent/restored/1``.

    Args:
        files: How many were compared with the backup's list; None: it has none.
        tokens: They still work.
    """
    return {
        "schema": "siloquent/restored/1",
        "folder": str(folder),
        "entries": entries,
        "files": files,
        "checkpoint": checkpoint,
        "tokens": tokens,
    }


def build_migration_document(parts: Iterable[tuple[str, int, int, str]]) -> dict[str, Any]:
    """Return an upgrade as a document of kind ``siloquent/migration/1``.

    Args:
        parts: (name, format found, format now, name of the copy of the old one; "" if nothing changed).
    """
    names = ("part", "found", "now", "copy")
    return {"schema": "siloquent/migration/1", "parts": [dict(zip(names, part, strict=True)) for part in parts]}


def build_doctor_document(findings: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the checks of a machine as a document of kind ``siloquent/doctor/1``."""
    return {
        "schema": "siloquent/doctor/1",
        "ok": all(finding["state"] != "bad" for finding in findings),
        "findings": list(findings),
    }
