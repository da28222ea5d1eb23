"""Whether a response is as the API's description says: status, media type, headers, the closed schema of its body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs

from journeys.documents import misfits
from siloquent.server.described import OPEN

PROMISED = {"Retry-After", "Location"}
UNREAD = ("text/event-stream",)


class Described:
    """The description of one application, and what it says of each response."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._validators: dict[int, Any] = {}
        self._paths = [(re.compile(_pattern(path)), path) for path in sorted(document["paths"], key=_openness)]

    @classmethod
    def of(cls, app: Any) -> Described:
        """The description of ``app``, kept beside it."""
        found: Described | None = getattr(app.state, "described", None)
        if found is None:
            found = app.state.described = cls(app.openapi())
        return found

    def check(self, response: httpx.Response) -> None:
        """For a client's event hook: a response of the API that is not as described fails the test."""
        if not response.request.url.path.startswith("/v1/"):
            return
        wrong = list(self.faults(response))
        assert not wrong, (response.request.method, response.request.url.path, response.status_code, wrong)

    def faults(self, response: httpx.Response) -> Iterator[str]:
        """What is not as described."""
        operation = self._operation(response.request)
        if operation is None:
            if response.status_code not in (404, 405):
                yield "an address that is not described"
            return
        said = operation["responses"].get(str(response.status_code))
        if said is None:
            said = operation["responses"].get(f"{response.status_code // 100}XX")
            if said is None or response.status_code < 400:
                yield f"status {response.status_code} is not described"
                return
        yield from (f"no header {name}" for name in PROMISED & set(said.get("headers", ())) - set(_names(response)))
        yield from self._of_content(response, said)

    def _of_content(self, response: httpx.Response, said: dict[str, Any]) -> Iterator[str]:
        content = said.get("content", {})
        media = response.headers.get("content-type", "").partition(";")[0]
        if media in UNREAD and media in content:
            return
        body = response.read()
        if not content and not body:
            return
        if media not in content and not (response.is_success and "application/octet-stream" in content):
            yield f"media type {media!r}, not one of {list(content)}"
            return
        if media.endswith("json"):
            yield from self._of_body(content[media]["schema"], response.json())
            yield from misfits(response.json())
        codes = said.get("x-codes", ())
        if codes and response.status_code not in OPEN and response.json()["code"] not in codes:
            yield f"code {response.json()['code']}, not one of {codes}"

    def _of_body(self, schema: dict[str, Any], body: Any) -> Iterator[str]:
        if id(schema) not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[id(schema)] = jsonschema_rs.Draft202012Validator(whole)
        for error in self._validators[id(schema)].iter_errors(body):
            yield f"{'/'.join(map(str, error.instance_path))}: {error.message[:300]}"

    def _operation(self, request: httpx.Request) -> dict[str, Any] | None:
        asked = request.url.raw_path.decode().partition("?")[0]
        for pattern, path in self._paths:
            if pattern.fullmatch(asked) and request.method.lower() in self.document["paths"][path]:
                found: dict[str, Any] = self.document["paths"][path][request.method.lower()]
                return found
        return None


def _names(response: httpx.Response) -> set[str]:
    return {name.title() for name in response.headers}


def _pattern(path: str) -> str:
    """An account has a slash of its own in its name, nothing else has."""
    return re.sub(r"\{(\w+)\}", lambda name: ".+" if name[1] == "account" else "[^/]+", path)


def _openness(path: str) -> tuple[int, str]:
    return path.count("{"), path
