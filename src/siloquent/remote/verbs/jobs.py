"""Work that takes longer than an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from siloquent.remote.api_document import read_list
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import Job, JobPlan
from siloquent.remote.exchange import Pause, Steps
from siloquent.remote.specs import dump_spec
from siloquent.remote.verbs.asking import require_key

MAX_POLL_SECONDS = 25
MIN_POLL_SECONDS = 1.0


class JobVerbs(ApiClient):
    """The verbs for jobs: start, price, list, wait, cancel and forget them."""

    @verb
    def start(self, task: str, spec: object, *, key: str | None = None, max_cost: str | None = None) -> Steps[Job]:
        """Start work that takes longer than an answer.

        Args:
            task: sketch, synth, search, find, share or discover.
            spec: The task's spec, or its plain values, as in its TOML file.
            key: As in ``ask``: starting the job again with it is free, and restarts it if it has failed.
        Raises:
            SiloquentError: the spec is invalid, or the job is refused.
            Unanswered: no server answered; ``key`` is the key to start it again.
        Privacy:
            As the task's own verb, charged to the token's account under ``key``, once.
        """
        body: dict[str, Any] = {"task": task, "spec": dump_spec(spec)}
        if max_cost is not None:
            body["max_cost"] = max_cost
        return (yield from self._fetch_as(Job, build_call("create_job", body=body, key=require_key(key))))

    @verb
    def price_job(self, task: str, spec: object) -> Steps[JobPlan]:
        """Return the price of a job and its accuracy. Does not read data; free.

        Raises:
            SiloquentError: as ``start`` does.
        """
        return (
            yield from self._fetch_as(JobPlan, build_call("price_job", body={"task": task, "spec": dump_spec(spec)}))
        )

    @verb
    def list_jobs(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        state: str | None = None,
        table: str | None = None,
    ) -> Steps[list[Job]]:
        """Return the newest jobs; an owner sees those of all persons.

        Args:
            limit: At most this many, 200 if it is left out.
            after: Only jobs older than this one: the last id of the previous page.
            state: Only jobs in this state; ``table``: only jobs about it.
        """
        query = {"limit": limit, "after": after, "state": state, "table": table}
        document = yield from self._fetch_document(build_call("list_jobs", query=query))
        return read_list(Job, document, "jobs")

    @verb
    def get_job(self, number: str) -> Steps[Job]:
        """Return the state of a job."""
        return (yield from self._fetch_as(Job, build_call("show_job", {"job": number})))

    @verb
    def wait(
        self, number: str, *, progress: Callable[[int, int], None] | None = None, timeout: float | None = None
    ) -> Steps[Job]:
        """Return the job when it has ended; the server delays its answer until then, so there is no polling.

        Args:
            progress: Called with the number of finished steps and their total, when it has changed between answers.
            timeout: The seconds after which the job is returned as it is; ``has_ended`` says whether it has ended.
        """
        clock, last = self._link.clock, (0, 0)
        until = None if timeout is None else clock() + timeout
        while True:
            asked = clock()
            left = MAX_POLL_SECONDS if until is None else until - asked
            seconds = int(max(0, min(MAX_POLL_SECONDS, self._link.timeouts.read / 2, left)))
            if progress is not None:
                seconds = min(seconds, 1)
            found = yield from self._fetch_as(Job, build_call("show_job", {"job": number}, query={"wait": seconds}))
            if (now := (found.done, found.steps)) != last and progress is not None and not found.has_ended:
                progress(*now)
            last = now
            if found.has_ended or (until is not None and clock() >= until):
                return found
            # A server without long polling answers at once.
            yield Pause(max(0.0, min(MIN_POLL_SECONDS, seconds or MIN_POLL_SECONDS) - (clock() - asked)))

    @verb
    def cancel(self, number: str) -> Steps[Job]:
        """End a job that is not done. Its charge remains."""
        return (yield from self._fetch_as(Job, build_call("cancel_job", {"job": number})))

    @verb
    def forget(self, number: str) -> Steps[None]:
        """Let the server forget a job that has ended; its charge and its release remain. For owners."""
        yield from self._send(build_call("cancel_job", {"job": number}, query={"forget": "true"}, ends=True))
