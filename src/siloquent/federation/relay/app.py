"""The relay's routes: each call is one transaction of the store, under the name in the caller's certificate."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from siloquent.errors import NotAllowed, ProtocolError, SiloquentError
from siloquent.federation.channel.base import STEP, parse_step
from siloquent.federation.messages.message import MAX_ENVELOPE
from siloquent.federation.relay.envelope_files import INLINE_BYTES
from siloquent.federation.relay.rates import RelayRates
from siloquent.federation.relay.store import RelayStore
from siloquent.foreign import load_json
from siloquent.foreign.numbers import parse_plain_float, parse_plain_int

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")
MAX_WAIT_SECONDS = 25.0
MAX_JSON = 64 * 1024
MAX_WHOLE = 2**63 - 1  # the largest integer that the store can hold
SEQ = "Siloquent-Seq"
CLIENT_LEFT = 499
STATUS = {
    "message_conflict": 409,
    "aborted_by": 410,
    "session_closed": 410,
    "too_large": 413,
    "quota": 429,
    "relay_unreachable": 503,
    "unknown_session": 404,
}
_SESSION = re.compile(r"[0-9a-f]{64}")
_log = logging.getLogger("siloquent.relay")
Admit = Callable[[str, str, str], str]  # kind, name and serial number of a certificate -> the role, or an error


class Relay:
    """The routes over one store. ``admit`` looks the certificate's name up in the current roster.

    ``members`` gives the names in the current roster that may be members of sessions.
    """

    def __init__(
        self, store: RelayStore, admit: Admit, members: Callable[[], frozenset[str]], rates: RelayRates | None = None
    ) -> None:
        self._store, self._admit, self._members, self._rates = store, admit, members, rates or RelayRates()
        # One thread: SQLite has one writer, and a second thread would only wait for it.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        # Another one for envelopes that are files: the disk takes its time for each, and the others go on meanwhile.
        self._files = ThreadPoolExecutor(max_workers=1, thread_name_prefix="files")
        self._news: dict[str, asyncio.Event] = {}
        self._fetched: dict[str, int] = {}  # role -> the last position that it has fetched
        self.requests: dict[str, int] = {}

    def peer_of(self, kind: str, name: str, serial: str) -> str:
        """Return the role whose connection slots a certificate uses; refused ones share the slots of one role."""
        try:
            return f"{kind} {self._admit(kind, name, serial)}"
        except (SiloquentError, OSError):  # each request says why
            return "refused"

    def build_app(self) -> Starlette:
        """Build the application that uvicorn serves over mutual TLS."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        message = "/v1/sessions/{session}/messages/{to}/{step:path}/{attempt}/{part}"
        return Starlette(
            routes=[
                Route("/v1/sessions", self._guard(self.open_session), methods=["POST"]),
                Route(message, self._guard(self.put), methods=["PUT"]),
                Route("/v1/inbox", self._guard(self.read_inbox), methods=["GET"]),
                Route("/v1/inbox/ack", self._guard(self.acknowledge), methods=["POST"]),
                Route("/v1/sessions/{session}/beat", self._guard(self.record_heartbeat), methods=["POST"]),
                Route("/v1/sessions/{session}/close", self._guard(self.close), methods=["POST"]),
                Route("/v1/sessions/{session}", self._guard(self.look), methods=["GET"]),
            ]
        )

    async def open_session(self, request: Request, kind: str, role: str) -> Response:
        """Open a session: a moderator names the members and the deadline."""
        from starlette.responses import Response

        if kind != "moderator":
            raise NotAllowed("Only moderators may open sessions.")
        asked = await _read_json(request)
        members = _require_names(asked.get("members"))
        session, deadline = str(asked.get("session")), _require_whole(asked.get("deadline"))
        if not _SESSION.fullmatch(session):
            raise ProtocolError("bad_encoding", role=role)
        if not self._members().issuperset(members):
            raise ProtocolError("unknown_session", role=role, where="a member that is not in the relay's roster")
        is_new = await self._do(self._store.open_session, role, session, members, deadline)
        return Response(status_code=201 if is_new else 200)

    async def put(self, request: Request, kind: str, role: str) -> Response:
        """Store a member's envelope; 201 only once it is durable."""
        from starlette.responses import Response

        at = request.path_params
        length = _read_length(request, MAX_ENVELOPE)
        attempt, part = _require_whole(parse_plain_int(at["attempt"])), _require_whole(parse_plain_int(at["part"]))
        if not STEP.fullmatch(at["step"]):
            raise ProtocolError("bad_encoding", role=role)
        await self._do(self._store.admit, role, at["session"])
        wire = await _read_body(request, length)
        key = (at["session"], at["to"], at["step"], attempt, part)
        thread = self._files if len(wire) > INLINE_BYTES else self._writer
        is_new = await asyncio.get_running_loop().run_in_executor(thread, self._store.put, role, key, wire)
        if is_new:
            self._get_event(at["to"]).set()
        return Response(status_code=201 if is_new else 200)

    async def read_inbox(self, request: Request, kind: str, role: str) -> Response:
        """Return the caller's oldest envelope after ``after``; waits up to ``wait`` seconds for one."""
        from starlette.responses import Response

        asked = request.query_params
        after, wait = (
            _require_whole(parse_plain_int(asked.get("after", "0"))),
            parse_plain_float(asked.get("wait", "0")),
        )
        if math.isnan(wait):
            raise ProtocolError("bad_encoding", role=role)
        until = asyncio.get_running_loop().time() + min(max(wait, 0.0), MAX_WAIT_SECONDS)
        while True:
            event = self._get_event(role)
            event.clear()  # cleared before reading: an envelope stored later sets the event again
            stored = await self._do(self._store.find_next, role, after)
            if stored is not None:
                if stored.seq > self._fetched.get(role, 0):  # a receiver's rate is not for others to use up
                    self._fetched[role] = stored.seq
                    self._rates.give_back(role)
                return Response(stored.wire, headers={SEQ: str(stored.seq)}, media_type="application/octet-stream")
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or await request.is_disconnected():
                return Response(status_code=204)
            try:
                await asyncio.wait_for(event.wait(), left)
            except TimeoutError:
                continue

    async def acknowledge(self, request: Request, kind: str, role: str) -> Response:
        """Acknowledge the caller's inbox up to a position."""
        from starlette.responses import Response

        upto = _require_whole((await _read_json(request)).get("upto"))
        if await self._do(self._store.acknowledge, role, upto):
            self._rates.give_back(role)
        return Response(status_code=204)

    async def record_heartbeat(self, request: Request, kind: str, role: str) -> Response:
        """Record the caller's progress."""
        from starlette.responses import Response

        told = await _read_json(request)
        since = told.get("since_s", 0)
        if not isinstance(since, (int, float)) or not 0 <= since < 10**9:
            raise ProtocolError("bad_encoding", role=role)
        session, waits = request.path_params["session"], _require_names(told.get("waiting_for", []))
        state, step = str(told.get("state", "")), str(told.get("step", ""))
        await self._do(self._store.record_heartbeat, role, session, state, step, waits, since)
        return Response(status_code=204)

    async def look(self, request: Request, kind: str, role: str) -> Response:
        """Return the progress of every member."""
        from starlette.responses import JSONResponse

        return JSONResponse(await self._do(self._store.look, role, request.path_params["session"]))

    async def close(self, request: Request, kind: str, role: str) -> Response:
        """End a session for good."""
        from starlette.responses import Response

        told = await _read_json(request)
        code, transcript = str(told.get("code", ""))[:64], str(told.get("transcript", ""))[:128]
        session = request.path_params["session"]
        await self._do(self._store.finish, role, session, code, transcript, parse_step(told.get("step")))
        return Response(status_code=204)

    def _guard(
        self, handler: Callable[[Request, str, str], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Authenticate the caller before any route runs; every refusal is one problem document."""

        async def guarded(request: Request) -> Response:
            from starlette.requests import ClientDisconnect
            from starlette.responses import Response

            try:
                kind, name, serial = getattr(request.state, "peer", ("", "", ""))
                role = self._admit(kind, name, serial)
                self.requests[role] = self.requests.get(role, 0) + 1
                self._rates.take(role)
                return await handler(request, kind, role)
            except SiloquentError as refused:
                return _build_problem(refused)
            except ClientDisconnect:  # nobody hears this, and a member could fill the log with it
                return Response(status_code=CLIENT_LEFT)
            except ValueError:
                return _build_problem(ProtocolError("bad_encoding"))
            except (sqlite3.Error, OSError) as failed:  # a locked or damaged file, or a full disk: the caller retries
                _log.warning("a request could not be stored: %s", failed)
                return _build_problem(ProtocolError("relay_unreachable", where="the relay cannot write its file"))

        return guarded

    async def _do(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, call, *arguments)

    def _get_event(self, role: str) -> asyncio.Event:
        return self._news.setdefault(role, asyncio.Event())


def watch_app(store: RelayStore, relay: Relay) -> Starlette:
    """Build the application for health and counts, for a loopback port without TLS: only sizes by role."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    async def healthz(request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def metrics(request: Request) -> Response:
        lines = [f"federation_{name} {value}" for name, value in store.compute_totals().items()]
        lines += [f'federation_requests{{role="{role}"}} {n}' for role, n in sorted(relay.requests.items())]
        return PlainTextResponse("\n".join(lines) + "\n")

    return Starlette(routes=[Route("/healthz", healthz), Route("/metrics", metrics)])


def _build_problem(refused: SiloquentError) -> Response:
    from starlette.responses import JSONResponse

    status = STATUS.get(refused.code, 403 if isinstance(refused, NotAllowed) else 422)
    body = {
        "type": f"https://siloquent.invalid/problems/{refused.code}",
        "code": refused.code,
        "title": refused.title,
        "status": status,
        "detail": refused.detail,
        "role": getattr(refused, "role", ""),
        "step": getattr(refused, "step", ""),
        "where": getattr(refused, "where", ""),
    }
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(body, status_code=status, media_type="application/problem+json", headers=headers)


def _read_length(request: Request, most: int) -> int:
    """Return the length that a request declares for its body.

    Raises:
        ProtocolError: ``too_large``, even if no length is declared.
    """
    length = parse_plain_int(request.headers.get("content-length", "0"))
    if not 0 < length <= most:
        raise ProtocolError("too_large")
    return length


async def _read_body(request: Request, length: int) -> bytes:
    """Read a body of at most ``length`` bytes: a chunked body may exceed the declared length.

    Raises:
        ProtocolError: ``too_large``.
    """
    parts, seen = [], 0
    async for part in request.stream():
        seen += len(part)
        if seen > length:
            raise ProtocolError("too_large")
        parts.append(part)
    return b"".join(parts)


async def _read_json(request: Request) -> dict[str, Any]:
    """Read a small JSON object."""
    value = load_json(await _read_body(request, _read_length(request, MAX_JSON)))
    if not isinstance(value, dict):
        raise ProtocolError("bad_encoding")
    return value


def _require_whole(value: object) -> int:
    """Check that a peer's value is an integer that every part of this relay can handle."""
    if not isinstance(value, int) or isinstance(value, bool) or not -MAX_WHOLE <= value <= MAX_WHOLE:
        raise ProtocolError("bad_encoding")
    return value


def _require_names(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and len(name) <= 32 for name in value):
        raise ProtocolError("bad_encoding")
    return list(value)
