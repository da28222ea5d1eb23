"""For operators: metrics, an access log with one line per request, and refusals. They contain no data."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from types import MappingProxyType
from typing import Any

from siloquent.errors import SchemaError
from siloquent.server.access.denials import Denials
from siloquent.server.access.limits import Places
from siloquent.server.failures.files import UNREADABLE, FileFailure, explain_file_failure
from siloquent.server.store import Store

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
STDERR = "-"
_STDERR_FILE = 2
_log = logging.getLogger("siloquent.server")
LOGGERS = ("siloquent.server", "siloquent.jobs", "siloquent.keeper")
"""Loggers of the server that write a line for a failure of its files, which may last for days."""
CLIENT_LEFT = 499
"""The status on record of a request whose client left before it was answered."""
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram of charged answers, in seconds."""
METRICS = MappingProxyType(
    {
        "siloquent_requests_total": "Requests answered, by route, role and status.",
        "siloquent_charge_seconds": "How long charged answers took, their slots included: a histogram.",
        "siloquent_ledger_entries": "The newest entry's place in the ledger.",
        "siloquent_budget_left": "The remaining budget of each open account, in its epsilon or rho.",
        "siloquent_waiting": "Pieces of work that are taken and not done.",
        "siloquent_plans_ended_total": "Plans that took too long or too much memory, and were ended.",
        "siloquent_slot_overruns_total": "Answers that needed more than one slot.",
        "siloquent_jobs": "Jobs by state.",
        "siloquent_jobs_oldest_queued_seconds": "How long the oldest queued job has waited.",
        "siloquent_jobs_oldest_running_seconds": "How long the oldest running job has run.",
        "siloquent_tokens_expiring": "Open tokens that expire within 14 days.",
        "siloquent_build_info": "The version of the server.",
        "siloquent_process_resident_bytes": "The memory of the server's own process.",
        "siloquent_process_open_files": "The files and sockets that the server's own process has open.",
        "siloquent_backup_age_seconds": "How old the newest backup is; -1: none was made.",
        "siloquent_jobs_failed_turns_total": "Times that the queue could not be looked at: a locked or full store.",
        "siloquent_access_log_lost_total": "Lines of the access log that could not be written.",
        "siloquent_denials": "Refusals on record, failed logins among them.",
        "siloquent_federation_readable": "1 if the bundle and journal of the workspace's role can be read.",
        "siloquent_federation_sessions": "Sessions of the workspace's federation, by state.",
        "siloquent_federation_unsent": "Messages of open sessions that the relay has not taken yet.",
        "siloquent_federation_certificate_days": "Days until the role's certificate ends.",
    }
)
"""The content of ``/metrics`` for a token of the role operator; no label comes from data."""


class Metrics:
    """Counters of one server process since its start, and its access log.

    A line holds time, request, the client's address, token, role, route, status, the amount spent and the duration,
    slot included. It holds no question, literal, label, row or exact count.
    """

    def __init__(self, store: Store, *, log: str) -> None:
        self.denials = Denials(store)
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._answers, self._answer_seconds, self._within = 0, 0.0, [0] * len(BUCKETS)
        self.log = AccessLog(log) if log else None

    def record_request(self, scope: MutableMapping[str, Any], request: str, status: int, seconds: float) -> None:
        """Count and log an answered request."""
        state, route = scope.get("state", {}), getattr(scope.get("route"), "name", "none")
        person, spent = state.get("person"), state.get("spent")
        door = "api" if scope["path"].startswith("/v1/") else "page"
        role = getattr(person, "role", "nobody")
        self._requests[f"{door}:{route}", role, status] += 1
        if spent is not None:
            self._answers, self._answer_seconds = self._answers + 1, self._answer_seconds + seconds
            self._within = [count + (seconds <= most) for count, most in zip(self._within, BUCKETS, strict=True)]
        if self.log is not None:
            line = {
                "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "request": request,
                "client": (scope.get("client") or ("",))[0],
                "token": getattr(person, "token", None),
                "role": role,
                "route": f"{door}:{route}",
                "status": status,
                "spent": spent,
                "ms": round(seconds * 1000),
            }
            self.log.write(json.dumps(line))

    def render_lines(self) -> list[str]:
        """Return the counters of requests and answers in Prometheus' text format."""
        return [
            "# TYPE siloquent_requests_total counter",
            *(
                f'siloquent_requests_total{{route="{route}",role="{role}",status="{status}"}} {count}'
                for (route, role, status), count in sorted(self._requests.items())
            ),
            "# TYPE siloquent_charge_seconds histogram",
            *(
                f'siloquent_charge_seconds_bucket{{le="{most}"}} {count}'
                for most, count in zip(BUCKETS, self._within, strict=True)
            ),
            f'siloquent_charge_seconds_bucket{{le="+Inf"}} {self._answers}',
            f"siloquent_charge_seconds_sum {self._answer_seconds:.6f}",
            f"siloquent_charge_seconds_count {self._answers}",
            "# TYPE siloquent_access_log_lost_total counter",
            f"siloquent_access_log_lost_total {0 if self.log is None else self.log.lost}",
            "# TYPE siloquent_denials gauge",
            f"siloquent_denials {self.denials.count()}",
        ]


class MetricsMiddleware:
    """ASGI middleware that gives every request an id, repeated in its response, and counts it when it ends."""

    def __init__(self, app: Any, *, watch: Metrics, open_: Places) -> None:
        self._app, self._watch, self._open = app, watch, open_

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, request, status = time.monotonic(), uuid.uuid4().hex, CLIENT_LEFT

        async def heard(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request.encode())]
            await send(message)

        try:
            await self._app(scope, receive, heard)
        except BaseException:  # allowed: it is counted as a failure, and raised again
            status = 500 if status == CLIENT_LEFT else status
            raise
        finally:
            if (counted := scope.get("state", {}).get("counted")) is not None:
                self._open.leave(counted)
            self._watch.record_request(scope, request, status, time.monotonic() - started)


class AccessLog:
    """One line per request, in a file private to this user, reopened once it is moved, or on standard error.

    A line that cannot be written ends no request: ``failure`` says why until one is written again, ``lost`` counts.

    Raises:
        SchemaError: the file cannot be opened.
    """

    def __init__(self, place: str) -> None:
        self._place, self._rest = place, b""
        self.failure: FileFailure | None = None
        self.lost = 0
        try:
            self._file = _STDERR_FILE if place == STDERR else _open_private(place)
        except OSError as failed:
            raise SchemaError(
                f"[server] access_log names {place}, which cannot be written: {failed.strerror}.",
                fix="make its folder for the user that serves (LogsDirectory= in a unit), or leave access_log out",
            ) from None

    def write(self, line: str) -> None:
        """Append a line, after the rest of one that was written in part."""
        whole = line.encode("utf-8", "backslashreplace") + b"\n"
        pending = self._rest + whole
        try:
            if self._is_moved():
                os.close(self._file)
                self._file, pending = _open_private(self._place), whole
            while pending:
                pending = pending[os.write(self._file, pending) :]
            self._rest, self.failure = b"", None
        except OSError as failed:
            self.failure = explain_file_failure(failed) or UNREADABLE
            _log.warning("the access log could not be written: %s", failed.strerror)
            is_lost = len(pending) >= len(whole)
            self.lost += is_lost
            self._rest = pending[: -len(whole)] if is_lost else pending

    def _is_moved(self) -> bool:
        if self._place == STDERR:
            return False
        try:
            there = os.stat(self._place)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(self._file))


def _open_private(place: str) -> int:
    """Open a file for appending that only this user may read."""
    return os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
