"""The API's description (OpenAPI 3.1), complete enough to generate clients from.

Successful responses are the documents of ``siloquent schema``, closed; the tables here hold what FastAPI cannot infer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from siloquent.documents.kinds import json_schema
from siloquent.server.failures.files import FAILURES
from siloquent.server.failures.problems import MEDIA
from siloquent.server.jobs.specs import job_schemas

if TYPE_CHECKING:
    from fastapi import FastAPI

Schema = dict[str, Any]
PLANS = ("sketch-plan", "synth-plan", "offer-plan", "share-plan", "discovery-plan")
DOCUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "me": ("person",),
        "list_tables": ("table-list",),
        "show_table": ("table",),
        "put_table": ("table",),
        "table_history": ("history",),
        "check_table": ("check",),
        "refresh_table": ("refresh",),
        "upload": ("upload",),
        "list_uploads": ("upload-list",),
        "explain": ("explanation", "composite-explanation"),
        "answer": ("answer",),
        "create_job": ("job",),
        "price_job": PLANS,
        "list_jobs": ("job-list",),
        "show_job": ("job",),
        "cancel_job": ("job",),
        "list_releases": ("release-list",),
        "show_release": ("release",),
        "share_release": ("release",),
        "delete_release": ("release",),
        "verify_release": ("release-verdict",),
        "ask_release": ("sketch-answer",),
        "show_dependencies": ("fd-report",),
        "adopt_dependencies": ("fd-adopted",),
        "show_catalogue": ("catalogue",),
        "list_sessions": ("federation",),
        "show_session": ("federation-session",),
        "decide_session": ("decision",),
        "list_collections": ("collection-list",),
        "show_collection": ("collect-counters",),
        "send_reports": ("collect-taken",),
        "estimate": ("collect-answer",),
        "list_accounts": ("account-list",),
        "list_entries": ("entry-list",),
        "ledger_head": ("head",),
        "verify_ledger": ("verdict",),
        "make_checkpoint": ("kept-checkpoint",),
        "list_spending": ("spending",),
        "show_report": ("protection-report",),
        "list_denials": ("denial-list",),
        "list_acts": ("act-list",),
        "create_token": ("token",),
        "list_tokens": ("token-list",),
    }
)
"""The kinds of document that each route returns."""
PARTS = ("account", "entry", "problem")
"""Kinds that occur only within others."""
BYTES: Schema = {"type": "string", "format": "binary"}
MEDIA_OF: Mapping[str, str] = MappingProxyType(
    {"job_events": "text/event-stream", "release_file": "application/octet-stream"}
)
SENT: Mapping[str, str] = MappingProxyType(
    {"upload": "a CSV or Parquet file, as it is", "send_reports": "reports, one after the other, at most 4 MiB"}
)
"""Routes that receive bytes."""
SPENDING = ("answer", "create_job")
REPEATABLE = ("create_token", "upload", "send_reports")
"""Routes with an optional idempotency key."""
TASKS = (*SPENDING, "explain", "price_job", "ask_release", "estimate")
OPEN = (400, 404, 422, 500)
"""Statuses with more codes than those listed: those of the framework and of each task."""
CODES: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        401: ("unauthorised",),
        403: ("not_allowed", "forged"),
        409: ("ledger",),
        429: ("too_many_requests", "busy"),
        431: ("headers_too_large",),
        500: ("internal", "ledger", "ledger_rolled_back", "chain_broken"),
        503: ("ledger", *(one.code for one in FAILURES if one.status == 503)),
        507: ("ledger", *(one.code for one in FAILURES if one.status == 507)),
    }
)
"""Codes that every route may return."""
CODES_OF: Mapping[str, Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        "send_reports": {400: ("idempotency_key_missing",), 409: ("key_reused",)},
        "create_token": {400: ("idempotency_key_missing",), 409: ("key_reused", "already_made")},
        "answer": {
            400: ("idempotency_key_missing",),
            409: ("key_reused",),
            413: ("text_too_long",),
            503: ("too_slow",),
        },
        "explain": {413: ("text_too_long",), 503: ("too_slow",)},
        "price_job": {503: ("too_slow",)},
        "create_job": {413: ("text_too_long",), 400: ("idempotency_key_missing",), 409: ("key_reused",)},
        "cancel_job": {409: ("conflict",)},
        "put_table": {
            409: ("conflict",),
            412: ("precondition_failed",),
            428: ("precondition_required",),
            422: ("source_not_allowed", "schema_invalid"),
        },
        "refresh_table": {422: ("source_not_allowed", "schema_invalid")},
        "delete_upload": {409: ("conflict",)},
        "decide_session": {409: ("conflict",)},
        "upload": {400: ("idempotency_key_missing",), 409: ("key_reused",), 422: ("upload_refused",)},
    }
)
RETRY_AFTER: Schema = {"description": "Seconds to wait before retrying.", "schema": {"type": "integer"}}
TEXT: Schema = {"type": "string"}
REPLAYED: Schema = {
    "Idempotency-Replayed": {
        "description": "true: the key and request were sent before; nothing was created or charged now.",
        "schema": {"enum": ["true"]},
    }
}
TAG: Schema = {"ETag": {"description": "For owners: the tag of the declaration, for If-Match.", "schema": TEXT}}
HEADERS: Mapping[str, Mapping[str, Schema]] = MappingProxyType(
    {
        "answer": REPLAYED,
        "create_job": {"Location": {"description": "The job's address.", "schema": TEXT}, **REPLAYED},
        "upload": REPLAYED,
        "send_reports": REPLAYED,
        "show_table": TAG,
        "put_table": TAG,
    }
)
RATE: Schema = {
    "RateLimit-Policy": {
        "description": "The largest number of requests at once (q), and the seconds after which it is restored (w).",
        "schema": TEXT,
    },
    "RateLimit": {
        "description": "How many of them are left (r), and in how many seconds there is one more (t).",
        "schema": TEXT,
    },
}
"""Headers of each response to a valid token."""
MATCHES: tuple[Schema, ...] = tuple(
    {"name": name, "in": "header", "required": False, "description": words, "schema": {**TEXT, "maxLength": 1_000}}
    for name, words in (
        ("If-Match", "The ETag of the declaration that this one takes the place of; * : of any."),
        ("If-None-Match", "* : only if there is none yet."),
    )
)
KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "The request's key: a repeat with the same body returns the same answer and is charged once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}
LAST_EVENT: Schema = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The number of the last event received; the stream continues after it.",
    "schema": {"type": "string", "maxLength": 9, "pattern": "^[0-9]*$"},
}


def describe(app: FastAPI) -> Callable[[], Schema]:
    """Return a function that builds the description of ``app`` once and caches it."""
    plain = app.openapi
    made: list[Schema] = []

    def openapi() -> Schema:
        if not made:
            made.append(_complete_document(plain()))
        return made[0]

    return openapi


class Description:
    """The API's description as JSON, built once and beside the event loop: strangers may ask for it at any time."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self._text, self._building = app, b"", asyncio.Lock()

    async def read(self) -> bytes:
        """Return the description."""
        async with self._building:
            self._text = self._text or await asyncio.to_thread(self._write)
        return self._text

    def _write(self) -> bytes:
        return json.dumps(self._app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()


def _complete_document(document: Schema) -> Schema:
    parts = document.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    kinds = sorted({kind for kinds in DOCUMENTS.values() for kind in kinds} | set(PARTS))
    known = {kind: _build_kind_schema(kind) for kind in kinds}
    schemas |= {_name(kind): _with_parts(schema, known, own=kind) for kind, schema in known.items()}
    specs = job_schemas()
    schemas |= {f"{task.capitalize()}Spec": spec for task, spec in specs.items()}
    for body in ("JobBody", "JobPriceBody"):
        schemas[body] = _build_job_body(schemas[body], list(specs))
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "A token that the owner made: sq_..."}
    }
    document["security"] = [{"token": []}]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            _complete(operation, path)
    schemas |= dict(_iter_problem_schemas(document))
    return document


def _iter_problem_schemas(document: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield a schema for each status whose codes are all known; ``x-codes`` lists those of an operation."""
    codes: dict[str, set[str]] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, said in operation["responses"].items():
                codes.setdefault(status, set()).update(said.get("x-codes", ()))
    for status, found in sorted(codes.items()):
        if found and int(status) not in OPEN:
            named = {"properties": {"code": {"enum": sorted(found)}}}
            yield f"Problem{status}", {"title": f"Problem{status}", "allOf": [{"$ref": _PROBLEM}, named]}


def _complete(operation: Schema, path: str) -> None:
    """Complete one operation: its body, its responses, their headers and codes."""
    name, responses = operation["operationId"], operation["responses"]
    status = next(one for one in responses if one.startswith("2"))
    success = responses[status]
    if name in DOCUMENTS:
        kinds = [{"$ref": f"#/components/schemas/{_name(kind)}"} for kind in DOCUMENTS[name]]
        success["content"] = {"application/json": {"schema": kinds[0] if len(kinds) == 1 else {"oneOf": kinds}}}
    elif name in MEDIA_OF:
        success["content"] = {MEDIA_OF[name]: {"schema": {"type": "string"} if name == "job_events" else BYTES}}
    if name in SENT:
        content = {"application/octet-stream": {"schema": BYTES}}
        operation["requestBody"] = {"required": True, "description": SENT[name], "content": content}
    success["headers"] = {**HEADERS.get(name, {}), **RATE}
    if name in SPENDING or name in REPEATABLE:
        operation.setdefault("parameters", []).append({**KEY, "required": name in SPENDING})
    if name == "put_table":
        operation.setdefault("parameters", []).extend(MATCHES)
    if name == "job_events":
        operation.setdefault("parameters", []).append(LAST_EVENT)
    responses |= _build_refusals(name, path, "requestBody" in operation)


def _build_refusals(name: str, path: str, has_body: bool) -> Schema:
    """Return a problem schema for each status, with its possible codes."""
    codes: dict[int, list[str]] = {status: list(found) for status, found in CODES.items()}
    if "{" in path:
        codes.setdefault(404, []).append("not_found")
    if has_body:
        codes.setdefault(413, []).append("body_too_large")
        codes.setdefault(415, []).append("unsupported_media_type")
    codes.setdefault(422, []).append("request_unreadable")
    for status, found in CODES_OF.get(name, {}).items():
        codes.setdefault(status, []).extend(found)
    if name in TASKS:
        for status, code in _iter_task_codes():
            if code not in codes.setdefault(status, []):
                codes[status].append(code)
    return {str(status): _build_problem(status, sorted(found)) for status, found in sorted(codes.items())}


def _build_problem(status: int, codes: list[str]) -> Schema:
    schema = {"$ref": _PROBLEM if status in OPEN else f"{_PROBLEM}{status}"}
    headers = {**({"Retry-After": RETRY_AFTER} if status in (429, 503) else {}), **(RATE if status != 431 else {})}
    found = {"description": f"Codes: {', '.join(codes)}.", "content": {MEDIA: {"schema": schema}}, "x-codes": codes}
    return {**found, **({"headers": headers} if headers else {})}


def _iter_task_codes() -> Iterator[tuple[int, str]]:
    """Yield the status and code of each error by which a task refuses."""
    from siloquent import errors

    for kind in vars(errors).values():
        if kind is errors.Unanswered:
            continue  # raised only by clients, never by a server
        if isinstance(kind, type) and issubclass(kind, errors.SiloquentError) and 400 <= kind.http_status < 600:
            yield kind.http_status, kind.code


def _build_job_body(body: Schema, tasks: list[str]) -> Schema:
    """Return the schema of a job's body: for each task, its spec."""
    shapes = []
    for task in tasks:
        spec = {"$ref": f"#/components/schemas/{task.capitalize()}Spec"}
        shapes.append({**body, "title": f"{task} {body['title']}", "properties": {
            **body["properties"], "task": {"const": task}, "spec": spec,
        }})  # fmt: skip
    return {"title": body["title"], "oneOf": shapes}


_PROBLEM = "#/components/schemas/Problem"


def _name(kind: str) -> str:
    return "".join(part.capitalize() for part in kind.split("-"))


def _build_kind_schema(kind: str) -> Schema:
    """Return a kind's schema as the API returns it: closed, and with the fields that only the API adds."""
    schema = _VARIANTS[kind]() if kind in _VARIANTS else json_schema(kind)
    known = close_schema({name: value for name, value in schema.items() if not name.startswith("$")})
    return {**known, "title": _name(kind), "description": known["title"]}  # titles name a generated client's classes


def _with_parts(schema: Any, known: Mapping[str, Schema], *, own: str) -> Any:
    """Replace each whole document of another kind in ``schema`` by a reference: one class for clients."""
    if isinstance(schema, list):
        return [_with_parts(one, known, own=own) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kind = str(schema.get("properties", {}).get("schema", {}).get("const", "")).removeprefix("siloquent/")[:-2]
    if kind != own and kind in known and _is_part(schema, known[kind]):
        return {"$ref": f"#/components/schemas/{_name(kind)}"}
    return {name: _with_parts(value, known, own=own) for name, value in schema.items()}


def _is_part(schema: Schema, whole: Schema) -> bool:
    """Return whether ``schema`` is ``whole``, but for fields that a document of this kind need not have."""
    fields, others = schema.get("properties", {}), ("type", "required", "additionalProperties")
    alike = fields == {name: whole["properties"].get(name) for name in fields}
    return alike and all(schema.get(name) == whole.get(name) for name in others)


def close_schema(schema: Schema) -> Schema:
    """Close ``schema`` against fields that it does not name; objects that name none stay open."""
    found = dict(schema)
    if found.get("properties"):
        found["properties"] = {name: close_schema(inner) for name, inner in found["properties"].items()}
        found["additionalProperties"] = False
    if isinstance(found.get("items"), dict):
        found["items"] = close_schema(found["items"])
    return found


def _release() -> Schema:
    return _with_sharing(json_schema("release"))


def _releases() -> Schema:
    found = json_schema("release-list")
    found["properties"]["releases"]["items"] = _with_sharing(found["properties"]["releases"]["items"])
    return found


def _with_sharing(release: Schema) -> Schema:
    """Return the schema of a release that requires the fields known to a server only."""
    return {**release, "required": [*release["required"], "shared", "deleted"]}


def _checkpoint() -> Schema:
    """Return the schema of a checkpoint file, which ``siloquent ledger verify --checkpoint`` reads."""
    text, whole = {"type": "string"}, {"type": "integer"}
    spent = {"type": "object", "additionalProperties": {"type": "array", "items": whole}}
    known = {"format": whole, "ledger": text, "seq": whole, "hash": text, "spent": spent}
    return {"title": "A checkpoint", "type": "object", "required": list(known), "properties": known}


_VARIANTS: Mapping[str, Callable[[], Schema]] = MappingProxyType(
    {
        "release": _release,
        "release-list": _releases,
        "kept-checkpoint": _checkpoint,
    }
)
