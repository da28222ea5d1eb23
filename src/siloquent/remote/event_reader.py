"""The events of a job, over as many connections as needed: the next request, and the parsing of a stream's pieces."""

from __future__ import annotations

from siloquent.errors import SiloquentError, Unanswered
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.remote.calls import ApiCall, build_call
from siloquent.remote.documents import Job
from siloquent.remote.exchange import FIRST_PAUSE_SECONDS, ServerLink
from siloquent.remote.replies import Lost, Reply, parse_error

MAX_EVENT_BYTES = 2**20


class EventReader:
    """Server-sent events of one job, resumed where the last connection ended."""

    def __init__(self, number: str, link: ServerLink) -> None:
        self._number, self._link = number, link
        self._rest, self._last, self._failures = b"", "0", 0
        self.has_ended = False

    def build_call(self) -> ApiCall:
        """Return the request of the next connection."""
        self._rest = b""
        return build_call("job_events", {"job": self._number}, headers={"Last-Event-ID": self._last})

    def hear(self, piece: bytes) -> list[Job]:
        """Return the states of the job whose events end in ``piece``.

        Raises:
            Unanswered: the response is not a stream of events.
        """
        self._rest = (self._rest + piece).replace(b"\r\n", b"\n")
        *events, self._rest = self._rest.split(b"\n\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise Unanswered("The server's events cannot be read.", fix=run("job wait", "JOB"))
        return [job for one in events if (job := self._parse_job(one)) is not None]

    def compute_pause(self, outcome: Reply | Lost) -> float:
        """Return the pause before the next connection, in seconds.

        Raises:
            SiloquentError: the server refused; Unanswered: connections keep breaking without an event.
        """
        if isinstance(outcome, Lost) and outcome.error is not None:
            raise outcome.error
        if isinstance(outcome, Reply) and outcome.is_problem and outcome.status not in (429, 503):
            raise parse_error(outcome.status, outcome.body)
        self._failures += 1
        if self._failures >= self._link.attempts:
            raise self._build_error(outcome)
        return FIRST_PAUSE_SECONDS * float(2**self._failures)

    def _build_error(self, outcome: Reply | Lost) -> SiloquentError:
        if isinstance(outcome, Reply) and outcome.is_problem:
            return parse_error(outcome.status, outcome.body)
        reason = outcome.reason if isinstance(outcome, Lost) else f"status {outcome.status}, and no event"
        return Unanswered(f"Could not connect to {self._link.address}: {reason}.", fix=run("job wait", "JOB"))

    def _parse_job(self, event: bytes) -> Job | None:
        """Return the job in an event; None for a comment, which only keeps proxies from closing the connection."""
        fields = dict(line.partition(b": ")[::2] for line in event.split(b"\n"))
        if b"data" not in fields:
            return None
        try:
            job = Job(load_json(fields[b"data"]))
        except (ValueError, RecursionError, SiloquentError):
            raise Unanswered("The server's events cannot be read.", fix=run("job wait", "JOB")) from None
        self._last = fields.get(b"id", b"0").decode("ascii", "replace")[:9]
        self._last = self._last if self._last.isdigit() and self._last.isascii() else "0"
        self._failures, self.has_ended = 0, fields.get(b"event") == b"end"
        return job
