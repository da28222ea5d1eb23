"""Pages about collections: what became of reports, and estimates with error bars."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from siloquent.documents.reports import answer_document
from siloquent.server.guard import house_of
from siloquent.server.routes import collections
from siloquent.server.web.pages import form_of, render, visitor

router = APIRouter(include_in_schema=False)


@router.get("/collections")
async def list_collections(request: Request) -> Response:
    person = visitor(request, "owner", "analyst")
    return render(request, "collections.html", person, names=collections.names(Path(request.app.state.folder)))


@router.get("/collections/{collection}")
async def show_collection(request: Request, collection: str) -> Response:
    person = visitor(request, "owner", "analyst")
    found = await collections.show_collection(request, collection, person)
    return render(request, "collection.html", person, name=collection, counted=found, sql="", answer=None)


@router.post("/collections/{collection}")
async def estimate(request: Request, collection: str) -> Response:
    person, house = visitor(request, "owner", "analyst"), house_of(request)
    fields = await form_of(request, person)
    made = collections.document_of(Path(request.app.state.folder), collection)
    sql = fields.get("sql", "")
    async with house.room.place(person.token):
        answer = await house.heavy.run_in_turn(
            person.name, None, lambda session: answer_document(made, session.collect.estimate(made, sql))
        )
    found = await collections.show_collection(request, collection, person)
    return render(request, "collection.html", person, name=collection, counted=found, sql=sql, answer=answer)
