"""Files that a page's form sends: stored as uploads of the API are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from siloquent.server.access.guard import require_proof
from siloquent.server.access.tokens import Principal
from siloquent.server.routes import tables

_CHUNK = 2**20
_MAX_FIELDS = 8


async def take_file(request: Request, person: Principal) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the upload that a form made (None: no file was selected) and the form's other fields.

    Raises:
        Refused: the form comes from another origin, or the file is of no supported type.
    """
    async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        require_proof(person, fields.get("csrf", ""))
        file = form.get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            return None, fields
        made, _ = await tables.take(request, _iter_chunks(file))
    return made, fields


async def _iter_chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk
