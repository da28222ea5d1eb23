"""Jobs: put one in, look at it, follow it, end it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from siloquent.server.guard import Guarded, House, Who, house_of, key_of, person_of, require_table
from siloquent.server.jobs import ENDED, MAX_LISTED
from siloquent.server.problems import Refused, not_found
from siloquent.server.routes.bodies import JobBody
from siloquent.server.runner import TICK_SECONDS
from siloquent.server.tokens import Person

router = APIRouter(route_class=Guarded)


@router.post("/jobs", status_code=202)
async def create_job(request: Request, body: JobBody, person: Who) -> Response:
    """Queue work that takes longer than an answer; it spends under its key, once."""
    table = body.spec.get("table")
    if isinstance(table, str):
        require_table(person, table)
    house, key = house_of(request), key_of(request)
    number = await asyncio.to_thread(
        house.jobs.add, person, task=body.task, spec=body.spec, key=key, max_cost=body.max_cost
    )
    return JSONResponse(house.jobs.document(number), status_code=202, headers={"Location": f"/v1/jobs/{number}"})


@router.get("/jobs")
async def list_jobs(
    request: Request,
    person: Who,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=64)] = None,
    state: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
) -> dict[str, Any]:
    """The newest jobs, older than job ``after`` if it is named: one's own; an owner sees everybody's."""
    jobs = house_of(request).jobs
    found = await asyncio.to_thread(jobs.listed, person, limit=limit, after=after, state=state)
    return {"schema": "siloquent/job-list/1", "jobs": found}


@router.get("/jobs/{job}")
async def show_job(request: Request, job: str, person: Who) -> dict[str, Any]:
    """How far a job is, and what it made."""
    return job_of(house_of(request), job, person)


@router.delete("/jobs/{job}")
async def cancel_job(request: Request, job: str, person: Who, forget: bool = False) -> dict[str, Any]:
    """End a job that is not done, what it was charged stays; an owner may also ``forget`` one that has ended."""
    house = house_of(request)
    found = job_of(house, job, person)
    if forget:
        if person.role != "owner":
            raise Refused(403, "not_allowed", "Only the owner may make the server forget a job.", fix="GET /v1/me")
        if not await asyncio.to_thread(house.jobs.forget, job):
            detail = f"This job is {found['state']}: only one that has ended can be forgotten."
            raise Refused(409, "conflict", detail, fix=f"DELETE /v1/jobs/{job}")
        return found
    await asyncio.to_thread(house.jobs.cancel, job)
    return job_of(house, job, person)


@router.get("/jobs/{job}/events")
async def job_events(request: Request, job: str, person: Who) -> Response:
    """The job as server-sent events, one a second while something changes; the last one is ``end``."""
    house = house_of(request)
    job_of(house, job, person)
    return StreamingResponse(_events(request, house, job, person), media_type="text/event-stream")


async def _events(request: Request, house: House, job: str, person: Person) -> AsyncIterator[str]:
    last, number = "", 0
    # Asked each time: a token may be revoked, a browser log out, while the stream is open.
    while not await request.is_disconnected() and person_of(request) is not None:
        found = job_of(house, job, person)
        text = json.dumps(found, sort_keys=True)
        ended = found["state"] in ENDED
        if text != last or ended:
            number += 1
            yield f"id: {number}\nevent: {'end' if ended else 'progress'}\ndata: {text}\n\n"
        if ended:
            return
        last = text
        await asyncio.sleep(TICK_SECONDS)


def job_of(house: House, job: str, person: Person) -> dict[str, Any]:
    """A job's document, if it is the person's.

    Raises:
        Refused: 404, it is unknown or somebody else's.
    """
    found = house.jobs.document(job)
    is_theirs = found is not None and (person.role == "owner" or found["name"] == person.name)
    if found is None or not is_theirs or not person.may_see(str(found["spec"].get("table"))):
        raise not_found()
    return found
