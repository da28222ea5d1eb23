"""Routes for an operator's monitoring: liveness, readiness and metrics. No label comes from data.

Readiness and metrics need a token of the role operator: behind a proxy on the same machine every request comes from
there, so an address proves nothing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from siloquent.documents.ledger import format_exact_amount
from siloquent.errors import SiloquentError, WorkspaceError
from siloquent.schema.workspace import LAST_BACKUP
from siloquent.server.access.guard import CurrentUser, GuardedRoute
from siloquent.server.failures.files import FULL, FileFailure
from siloquent.server.failures.problems import Refused
from siloquent.server.state import AppState, get_app_state
from siloquent.version import VERSION

if TYPE_CHECKING:
    from siloquent.api import Session

EXPIRING_SECONDS = 14 * 86_400
MIN_FREE_BYTES = 64 * 2**20
"""The least free disk space: an answer takes kilobytes, a job's release megabytes."""

_UNKNOWN = FileFailure("not_ready", "Not ready", "Its thread has ended.", "restart the server, and report its log")

alive = APIRouter(include_in_schema=False)
router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@alive.get("/healthz")
async def healthz() -> Response:
    """Report that the process is alive; needs no token, since it reveals nothing else."""
    return PlainTextResponse("ok\n")


@alive.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The API's description (OpenAPI 3.1); needs no token, since every server of this version has the same."""
    return Response(await request.app.state.description.read(), media_type="application/json")


@router.get("/readyz")
async def readyz(request: Request, person: CurrentUser) -> Response:
    """The ledger can be read, store and access log written, the queue of jobs is worked off, and the disk has room."""
    house, folder = get_app_state(request), Path(request.app.state.folder)
    for part, worker in (("The queue of jobs", house.jobs.runner), ("The record of refusals", house.keeper)):
        if not worker.is_well:
            told = worker.failure or _UNKNOWN
            raise _build_not_ready(f"{part} is not processed. {told.detail}", told.fix)
    log = house.watch.log
    if log is not None and log.failure is not None:
        raise _build_not_ready(f"The access log cannot be written. {log.failure.detail}", log.failure.fix)
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise _build_not_ready("The disk of the workspace is almost full.", FULL.fix)
    async with house.room.hold_place(person.name):
        await house.desk.run(None, lambda session: session.ledger.read_head())
    return PlainTextResponse("ready\n")


def _build_not_ready(detail: str, fix: str) -> Refused:
    return Refused(503, "not_ready", detail, fix=fix, headers={"Retry-After": "30"})


@router.get("/metrics")
async def metrics(request: Request, person: CurrentUser) -> Response:
    """Metrics in the Prometheus text format."""
    house, bundle = get_app_state(request), Path(request.app.state.folder) / get_app_state(request).settings.bundle
    async with house.room.hold_place(person.name):
        books = await house.desk.run(None, lambda session: [*_format_ledger(session), *_format_federation(bundle)])
    lines = [*house.watch.render_lines(), *books, *_format_work(house), *_process(Path(request.app.state.folder))]
    return PlainTextResponse("\n".join(lines) + "\n")


def _format_work(house: AppState) -> list[str]:
    """Return the metrics of waiting work, late answers, and jobs by state."""
    states = house.store.fetch_all("SELECT state, count(*) AS n FROM job GROUP BY state ORDER BY state")
    oldest = house.store.fetch_one("SELECT min(created) AS at FROM job WHERE state = 'queued'")
    running = house.store.fetch_one("SELECT min(changed) AS at FROM job WHERE state = 'running'")
    soon = int(time.time()) + EXPIRING_SECONDS
    expiring = house.store.fetch_one(
        "SELECT count(*) AS n FROM token WHERE revoked IS NULL AND expires > ? AND expires <= ?", int(time.time()), soon
    )
    return [
        "# TYPE siloquent_waiting gauge",
        f"siloquent_waiting {house.waiting}",
        "# TYPE siloquent_plans_ended_total counter",
        f"siloquent_plans_ended_total {house.planners.ended}",
        "# TYPE siloquent_slot_overruns_total counter",
        f"siloquent_slot_overruns_total {house.slots.overruns}",
        "# TYPE siloquent_jobs gauge",
        "# TYPE siloquent_jobs_oldest_queued_seconds gauge",
        f"siloquent_jobs_oldest_queued_seconds {_compute_age(oldest)}",
        "# TYPE siloquent_jobs_failed_turns_total counter",
        f"siloquent_jobs_failed_turns_total {house.jobs.runner.failed_turns}",
        *(f'siloquent_jobs{{state="{row["state"]}"}} {row["n"]}' for row in states),
        "# TYPE siloquent_jobs_oldest_running_seconds gauge",
        f"siloquent_jobs_oldest_running_seconds {_compute_age(running)}",
        "# TYPE siloquent_tokens_expiring gauge",
        f"siloquent_tokens_expiring {expiring['n'] if expiring else 0}",
    ]


def _compute_age(row: Mapping[str, Any] | None) -> int:
    """Return the seconds since the time ``at`` of a row; 0 if there is none."""
    return max(0, int(time.time()) - row["at"]) if row and row["at"] else 0


def _process(folder: Path) -> list[str]:
    """Return the metrics of this process: version, memory, files, and the age of the newest backup."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    backup = folder / LAST_BACKUP
    return [
        "# TYPE siloquent_build_info gauge",
        f'siloquent_build_info{{version="{VERSION}"}} 1',
        "# TYPE siloquent_process_resident_bytes gauge",
        f"siloquent_process_resident_bytes {pages * os.sysconf('SC_PAGE_SIZE')}",
        "# TYPE siloquent_process_open_files gauge",
        f"siloquent_process_open_files {files}",
        "# TYPE siloquent_backup_age_seconds gauge",
        f"siloquent_backup_age_seconds {time.time() - backup.stat().st_mtime if backup.is_file() else -1:.0f}",
    ]


def _format_ledger(session: Session) -> list[str]:
    """Return the ledger's length, and the remainder of each account in its epsilon or rho."""
    return [
        "# TYPE siloquent_ledger_entries gauge",
        f"siloquent_ledger_entries {session.ledger.read_head().seq}",
        "# TYPE siloquent_budget_left gauge",
        *(
            f'siloquent_budget_left{{account="{one.name}"}} {format_exact_amount(one, one.left.amount)}'
            for one in session.ledger.list_accounts()
            if one.successor is None
        ),
    ]


def _format_federation(folder: Path) -> list[str]:
    """Return the metrics of the workspace's bundle: sessions by state, unsent messages, the certificate's days."""
    from siloquent.federation.identity.bundle import read_bundle
    from siloquent.federation.role_process import open_journal

    try:
        role = read_bundle(folder)
        days = role.read_certificate().days_left
        with open_journal(role) as journal:
            sessions = journal.list_sessions()
            unsent = sum(len(journal.list_unsent(one.id)) for one in sessions if not one.is_over)
    except WorkspaceError:
        return []  # no bundle: this workspace takes part in no federation
    except SiloquentError:
        return ["# TYPE siloquent_federation_readable gauge", "siloquent_federation_readable 0"]
    states = Counter(one.state for one in sessions)
    return [
        "# TYPE siloquent_federation_readable gauge",
        "siloquent_federation_readable 1",
        "# TYPE siloquent_federation_sessions gauge",
        *(f'siloquent_federation_sessions{{state="{state}"}} {count}' for state, count in sorted(states.items())),
        "# TYPE siloquent_federation_unsent gauge",
        f"siloquent_federation_unsent {unsent}",
        "# TYPE siloquent_federation_certificate_days gauge",
        f"siloquent_federation_certificate_days {days:.1f}",
    ]
