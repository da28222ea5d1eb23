"""Pages about collections: accepted reports, and estimates with error bars."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from siloquent.documents.collect import build_estimates_document
from siloquent.server.routes import collections
from siloquent.server.state import get_app_state
from siloquent.server.web.pages import read_form, render, require_visitor

router = APIRouter(include_in_schema=False)


@router.get("/collections")
async def list_collections(request: Request) -> Response:
    person = require_visitor(request, "owner", "analyst")
    names = await asyncio.to_thread(collections.list_collection_names, Path(request.app.state.folder))
    return render(request, "collections.html", person, names=names)


@router.get("/collections/{collection}")
async def show_collection(request: Request, collection: str) -> Response:
    person = require_visitor(request, "owner", "analyst")
    found = await collections.show_collection(request, collection, person)
    return render(request, "collection.html", person, name=collection, counted=found, sql="", answer=None)


@router.post("/collections/{collection}")
async def estimate(request: Request, collection: str) -> Response:
    person, house = require_visitor(request, "owner", "analyst"), get_app_state(request)
    fields = await read_form(request, person)
    made = await collections.find_collection(request, collection)
    sql = fields.get("sql", "")
    async with house.room.hold_place(person.name):
        answer = await house.heavy.run_in_turn(
            person.name, None, lambda session: build_estimates_document(made, session.collect.estimate(made, sql))
        )
    found = await collections.show_collection(request, collection, person)
    return render(request, "collection.html", person, name=collection, counted=found, sql=sql, answer=answer)
