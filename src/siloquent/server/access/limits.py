"""Limits on request size and rate, enforced on arrival before anything is parsed."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect

from siloquent.server.failures.problems import Refused, build_not_found, build_response
from siloquent.server.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MAX_HEADER_BYTES = 16 * 2**10
UPLOADS = ("/v1/uploads", "/declare/upload")
REPORTS = "/reports"
LOGINS = ("/login", "/logout")
LOGIN_BYTES = 16 * 2**10
MAX_PARSED_BYTES = 2 * 2**20
"""The limit for bodies parsed in the event loop; owners' bodies may have ``body_bytes``."""
MAX_REPORT_BYTES = 4 * 2**20
UNIT_BYTES = 64 * 2**10
"""The number of bytes of a parsed body that counts as one further request."""
MAX_REMEMBERED = 10_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST = 10**15 - 1
"""The largest number of a structured field (RFC 9651)."""


class BodyTooLarge(Exception):
    """A body that exceeded its limit on arrival."""


class BodyLimit:
    """ASGI middleware that ends requests whose bodies exceed a limit, whatever their length header says."""

    def __init__(self, app: Any, *, settings: Settings, rates: RequestRates, headers: dict[str, str]) -> None:
        self._app, self._settings, self._rates, self._headers = app, settings, rates, headers

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on, counting its body and adding headers to the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = _refuse_head(scope)
        if refused is not None:
            headers = {"Connection": "close"} if refused.problem.http_status == 415 else {}
            await build_response(refused.problem, headers)(scope, receive, self._add_headers(send))
            return
        most = _most_bytes(scope, self._settings)
        fields = {name.lower(): value for name, value in scope["headers"]}
        length = fields.get(b"content-length", b"0")
        seen, started = 0, False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            before, seen = seen, seen + len(message.get("body", b""))
            self._owe(scope, seen // UNIT_BYTES - before // UNIT_BYTES)
            if seen > most:
                raise BodyTooLarge  # the reader may turn this into a response of its own, which is not sent
            return message

        async def watched(message: Message) -> None:
            nonlocal started
            if seen <= most:
                started = True
                # Some proxies reuse the connection while the body that they held back is still expected on it.
                await self._add_headers(send, scope.get("state"), ends=b"expect" in fields)(message)

        if length.isdigit() and int(length[:19]) > most:
            seen = most + 1
        else:
            with suppress(BodyTooLarge, ClientDisconnect):  # clients may disconnect while sending
                await self._app(scope, counted, watched)
        if seen > most and not started:
            refusal = Refused(413, "body_too_large", f"The body is too large: the limit is {most} bytes.")
            await build_response(refusal.problem, {"Connection": "close"})(scope, receive, self._add_headers(send))

    def _owe(self, scope: Mapping[str, Any], requests: int) -> None:
        """Count a long parsed body as ``requests`` further requests of its sender."""
        person = scope.get("state", {}).get("person")
        if requests and person is not None and not scope["path"].endswith((*UPLOADS, REPORTS)):
            self._rates.owe(person.name, requests)

    def _add_headers(self, send: Send, state: Mapping[str, Any] | None = None, *, ends: bool = False) -> Send:
        """Wrap ``send`` to add the headers of every response, including the person's remaining rate."""

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = {**self._headers, **(state or {}).get("rate_limit", {})}
                if ends:
                    headers["Connection"] = "close"
                there = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in headers.items() if k.lower().encode() not in there),
                ]
            await send(message)

        return dressed


def _refuse_head(scope: Mapping[str, Any]) -> Refused | None:
    """Return why a request is refused by its path and headers alone; None if it is passed on."""
    if _CONTROL.search(scope["path"]):
        # The router ignores a line feed at the end of a path, but a proxy's rule for that path does not.
        return build_not_found()
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        return Refused(431, "headers_too_large", "The headers are too long: the limit is 16 KiB.")
    encodings = [value for name, value in scope["headers"] if name.lower() == b"content-encoding"]
    if any(one.strip().lower() not in (b"", b"identity") for one in b",".join(encodings).split(b",")):
        # Compressed bodies would be counted as received but grow when read.
        detail = "Content-Encoding must be identity: compressed bodies are not supported."
        return Refused(415, "unsupported_media_type", detail)
    return None


def _most_bytes(scope: Mapping[str, Any], settings: Settings) -> int:
    """Return the maximum body size of a request: small for logins, large only where little of it is parsed."""
    path, method = scope["path"], scope["method"]
    if path in UPLOADS or (path.startswith("/tables/") and path.endswith("/refresh")):
        return settings.upload_bytes
    if path in LOGINS:
        return min(LOGIN_BYTES, settings.body_bytes)
    if path.endswith(REPORTS):
        return min(MAX_REPORT_BYTES, settings.body_bytes)
    is_wide = method == "PUT" or path.startswith("/declare/") or path.endswith("/edit")
    return settings.body_bytes if is_wide else min(MAX_PARSED_BYTES, settings.body_bytes)


class RequestRates:
    """A bucket of requests for each person, with all tokens: ``burst`` at once, ``rate`` per second."""

    def __init__(self, *, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def policy(self) -> str:
        """A person's rate as the RateLimit-Policy header: a full bucket, and the seconds to fill it."""
        return f'"person";q={min(self._burst, _LARGEST)};w={min(max(1, math.ceil(self._burst / self._rate)), _LARGEST)}'

    def take(self, who: str) -> str:
        """Count one request; return the RateLimit header: what is left, and when one more is available.

        Raises:
            Refused: the bucket is empty; the refusal says when to retry.
        """
        now = self._clock()
        level = self._level(who, now)
        self._buckets[who] = (level - 1 if level >= 1 else min(level, 0.0), now)
        while len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        if level < 1:
            wait = max(1, math.ceil((1 - level) / self._rate))
            raise Refused(
                429, "too_many_requests", f"At most {self._rate:g} requests a second.", fix=f"again in {wait} s",
                headers={"Retry-After": str(wait), "RateLimit": _left(0, wait)},
            )  # fmt: skip
        return _left(math.floor(level - 1), max(1, math.ceil((1 - level % 1) / self._rate)))

    def owe(self, who: str, requests: int) -> None:
        """Count ``requests`` more, whose size was known only on arrival: the bucket may go below empty."""
        now = self._clock()
        self._buckets[who] = (self._level(who, now) - requests, now)

    def _level(self, who: str, now: float) -> float:
        level, at = self._buckets.pop(who, (float(self._burst), now))
        return min(float(self._burst), level + (now - at) * self._rate)


def _left(requests: int, seconds: int) -> str:
    return f'"person";r={min(requests, _LARGEST)};t={min(seconds, _LARGEST)}'


class Places:
    """Places of which each person has some, such as open requests: with any number of tokens, and behind one proxy.

    A person's share shrinks as the places fill: it is ``each`` while more than half are free, ``each / 16`` while more
    than a quarter are free, and one after that. So taking all places needs a quarter as many persons as there are
    places, and a person with none still gets one.
    """

    def __init__(self, *, each: int, all_: int, what: str = "open requests") -> None:
        self._each, self._all, self._what = each, all_, what
        self._taken: Counter[str] = Counter()

    def enter(self, who: str) -> None:
        """Take one more place.

        Raises:
            Refused: the person already has the current share.
        """
        share = self._share()
        if self._taken[who] >= share:
            when = "" if share == self._each else " while so many are taken"
            detail = f"One person can have {share} of the places for {self._what} at once{when}."
            raise Refused(429, "busy", detail, fix="wait until one of yours ends", headers={"Retry-After": "1"})
        self._taken[who] += 1

    def _share(self) -> int:
        free = self._all - self._taken.total()
        if 2 * free > self._all:
            return self._each
        return max(1, self._each // 16) if 4 * free > self._all else 1

    def leave(self, who: str) -> None:
        """Give one place back."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]

    @asynccontextmanager
    async def hold_place(self, who: str) -> AsyncIterator[None]:
        """Hold a place while the block runs.

        Raises:
            Refused: as ``enter``.
        """
        self.enter(who)
        try:
            yield
        finally:
            self.leave(who)


@dataclass(slots=True)
class Slot:
    """The length of one answer's slot, once its plan is known; 0 means that no row was touched."""

    length_ms: int = 0


class Slots:
    """Slots that delay answers to whole multiples of a length that depends on plan and settings, never on rows.

    ``overruns`` counts answers that needed more than one length: it shows whether the lengths fit the machine.
    """

    def __init__(self) -> None:
        self.overruns = 0

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[Slot]:
        """Leave the block, normally or by an error, at a multiple of the slot's length since it was entered.

        A request refused before its plan fixes a slot has touched no row, and leaves at once.
        """
        slot, started = Slot(), time.monotonic()
        try:
            yield slot
        finally:
            if slot.length_ms:
                turns = math.ceil((time.monotonic() - started) * 1000 / slot.length_ms)
                self.overruns += turns > 1
                await asyncio.sleep(max(0.0, started + turns * slot.length_ms / 1000 - time.monotonic()))
