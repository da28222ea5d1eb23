"""Jobs: submit, list, follow and cancel."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from siloquent.documents.server import build_job_list_document
from siloquent.server.access.guard import CurrentUser, GuardedRoute, find_person
from siloquent.server.access.scope import require_table
from siloquent.server.access.tokens import Principal
from siloquent.server.failures.problems import Refused, build_not_found
from siloquent.server.jobs.queue import ENDED, MAX_LISTED, cost_of_job, describe_job, may_see_job
from siloquent.server.jobs.runner import TICK_SECONDS
from siloquent.server.repeats import REPLAYED, read_key
from siloquent.server.routes.bodies import JobBody, JobPriceBody, PlainInt
from siloquent.server.state import AppState, get_app_state

router = APIRouter(route_class=GuardedRoute)
MAX_WAIT_SECONDS = 25
HEARTBEAT_SECONDS = 15.0


@router.post("/jobs", status_code=202)
async def create_job(request: Request, body: JobBody, person: CurrentUser) -> Response:
    """Queue work that takes longer than an answer; it spends under its key, once."""
    table = body.spec.get("table")
    if isinstance(table, str):
        require_table(person, table)
    house, key = get_app_state(request), read_key(request)
    number, is_known = await asyncio.to_thread(
        house.jobs.add, person, task=body.task, spec=body.spec, key=key, max_cost=body.max_cost
    )
    headers = {"Location": f"/v1/jobs/{number}", **(REPLAYED if is_known else {})}
    return JSONResponse(await get_job(house, number, person), status_code=202, headers=headers)


@router.post("/jobs/prices")
async def price_job(request: Request, body: JobPriceBody, person: CurrentUser) -> dict[str, Any]:
    """Price a job before it runs, and state how accurate it would be. Does not read data; free."""
    if isinstance(table := body.spec.get("table"), str):
        require_table(person, table)
    house = get_app_state(request)
    async with house.room.hold_place(person.name):
        return await house.planners.price_job(person, body.task, body.spec)


@router.get("/jobs")
async def list_jobs(
    request: Request,
    person: CurrentUser,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = MAX_LISTED,
    after: Annotated[str | None, Query(max_length=64)] = None,
    state: Literal["queued", "running", "done", "failed", "cancelled"] | None = None,
    table: Annotated[str | None, Query(max_length=64)] = None,
) -> dict[str, Any]:
    """The newest jobs, older than job ``after`` if it is named: one's own; an owner sees everybody's."""
    house = get_app_state(request)
    rows = await asyncio.to_thread(house.jobs.list_jobs, person, limit=limit, after=after, state=state, table=table)
    return build_job_list_document(await _told(house, rows))


@router.get("/jobs/{job}")
async def show_job(
    request: Request, job: str, person: CurrentUser, wait: Annotated[PlainInt, Query(ge=0, le=MAX_WAIT_SECONDS)] = 0
) -> dict[str, Any]:
    """Report a job's progress and result; waits up to ``wait`` seconds for its end."""
    house, until = get_app_state(request), time.monotonic() + wait
    row = row_of(house, job, person)
    while row["state"] not in ENDED and (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(TICK_SECONDS, left))
        if await request.is_disconnected() or find_person(request) is None:
            break
        row = row_of(house, job, person)
    return (await _told(house, [row]))[0]


@router.delete("/jobs/{job}")
async def cancel_job(request: Request, job: str, person: CurrentUser, forget: bool = False) -> dict[str, Any]:
    """Cancel an unfinished job, whose charge stands; an owner may also ``forget`` one that has ended."""
    house = get_app_state(request)
    found = await get_job(house, job, person)
    if forget:
        if person.role != "owner":
            raise Refused(403, "not_allowed", "Only the owner may make the server forget a job.", fix="GET /v1/me")
        if not await asyncio.to_thread(house.jobs.forget, job, by=person):
            detail = f"This job is {found['state']}: only one that has ended can be forgotten."
            raise Refused(409, "conflict", detail, fix=f"DELETE /v1/jobs/{job}")
        return found
    await asyncio.to_thread(house.jobs.cancel, job, by=person)
    return await get_job(house, job, person)


@router.get("/jobs/{job}/events")
async def job_events(request: Request, job: str, person: CurrentUser) -> Response:
    """The job as server-sent events, one a second while something changes; the last one is ``end``.

    A comment comes every 15 seconds, so that no proxy takes silence for an end. Whoever comes again with the header
    Last-Event-ID hears numbers that go on from there.
    """
    house = get_app_state(request)
    row_of(house, job, person)
    told = request.headers.get("last-event-id", "0")
    last = int(told) if told.isascii() and told.isdigit() and len(told) < 10 else 0
    return StreamingResponse(
        _stream_events(request, house, job, person, last),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _stream_events(
    request: Request, house: AppState, job: str, person: Principal, number: int
) -> AsyncIterator[str]:
    last, heard = "", time.monotonic()
    # Checked each time: a token may be revoked, or a browser log out, while the stream is open.
    while not await request.is_disconnected() and find_person(request) is not None:
        try:
            found = await get_job(house, job, person)
        except Refused:
            return  # forgotten meanwhile: the response has begun, so nothing else can be said
        text = json.dumps(found, sort_keys=True)
        ended = found["state"] in ENDED
        if text != last or ended:
            number, heard = number + 1, time.monotonic()
            yield f"id: {number}\nevent: {'end' if ended else 'progress'}\ndata: {text}\n\n"
        if ended:
            return
        last = text
        if time.monotonic() - heard >= HEARTBEAT_SECONDS:
            heard = time.monotonic()
            yield ": it goes on\n\n"
        await asyncio.sleep(TICK_SECONDS)


def row_of(house: AppState, job: str, person: Principal) -> Mapping[str, Any]:
    """Return a job's row, if the person may see it.

    Raises:
        Refused: 404, it is unknown or belongs to another person.
    """
    found = house.jobs.row(job)
    if found is None or not may_see_job(found, person):
        raise build_not_found()
    return found


async def get_job(house: AppState, job: str, person: Principal) -> dict[str, Any]:
    """Return a job's document, if the person may see it; as ``row_of``."""
    return (await _told(house, [row_of(house, job, person)]))[0]


async def _told(house: AppState, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return jobs as documents; costs are read from the ledger, except those of finished jobs."""
    unknown = [row for row in rows if row["account"] and not row["cost"]]
    costs: dict[str, dict[str, str] | None] = {}
    if unknown:
        costs = await house.desk.run(
            None, lambda session: {str(row["id"]): cost_of_job(session, row) for row in unknown}
        )
    return [describe_job(row, costs.get(row["id"])) for row in rows]
