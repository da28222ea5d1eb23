"""One server, one token: requests that may be repeated, TLS that is verified, errors as this package's own."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from siloquent import errors
from siloquent.errors import NotAllowed, RequestError, SiloquentError
from siloquent.foreign import load_json

TOKEN = "SILOQUENT_TOKEN"
PROBLEM = "application/problem+json"
TOKEN_FILE = "SILOQUENT_TOKEN_FILE"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_BYTES = 64 * 2**20
ATTEMPTS = 4
LONGEST_WAIT_SECONDS = 30.0
TIMEOUT_SECONDS = 60.0
_UNKNOWN = re.compile(r"No ([a-z ]+) named '([^']*)'\.(?: Did you mean '([^']*)'\?)?")
UNKNOWN = "perhaps the price of this request; sent again with the same key it costs no more"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: a document or a file's bytes, and whether it was given before."""

    body: bytes
    replayed: bool = False

    def document(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            RequestError: it is none, so there is no siloquent at this address.
        """
        try:
            found = load_json(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RequestError("What answered is no siloquent server.", fix="look at the address after --server")
        return found


@dataclass(frozen=True, slots=True)
class Connection:
    """The address and the token of one server. A token travels over TLS only, or within this machine."""

    address: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one or parts.username or parts.query:
            raise RequestError(f"{self.address!r} is no server's address.", fix="--server https://clinic.example.org")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise RequestError(
                "Without TLS a token could be read on its way, so http reaches this machine only.",
                fix=f"--server https://{parts.netloc}",
            )
        if not self.token.isascii() or not self.token.isprintable() or " " in self.token:
            raise RequestError("The token is none: it begins with sq_.", fix=f"export {TOKEN}=sq_..")

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None) -> Reply:
        """Send a request, and again while nobody answers or the server asks for patience.

        Args:
            key: The idempotency key of what spends: without one only reading is repeated.
        Raises:
            SiloquentError: what the server refused, as the error that the same verb raises here; RequestError:
                nobody answers.
        """
        may_repeat = key is not None or method == "GET"
        again = ATTEMPTS if may_repeat else 1
        for attempt in range(1, again + 1):
            try:
                status, headers, data = self._once(method, path, body, key)
            except ssl.SSLCertVerificationError as untrusted:
                raise RequestError(
                    f"The server's certificate is not trusted: {untrusted.reason or 'unknown'}.",
                    fix="SSL_CERT_FILE=FILE names the authority that signed it",
                ) from None
            except (OSError, http.client.HTTPException):
                if attempt == again:
                    raise _unanswered(self.address, key) from None
                time.sleep(0.2 * 2**attempt)
                continue
            if _is_of_a_proxy(status, headers):
                if attempt == again:
                    raise _unanswered(self.address, key)
                time.sleep(0.2 * 2**attempt)
                continue
            wait = _patience(status, headers)
            if wait is None or attempt == again:
                break
            time.sleep(wait)
        if not 200 <= status < 300:  # a redirect is no answer either
            raise error_of(status, data, spent=UNKNOWN if key else "nothing")
        return Reply(data, replayed=headers.get("idempotency-replayed") == "true")

    def _once(
        self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(self.address)
        assert parts.hostname is not None
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            text = None if body is None else json.dumps(body).encode()
            connection.request(method, f"{parts.path.rstrip('/')}/v1{path}", text, headers)
            answered = connection.getresponse()
            data = answered.read(MOST_BYTES + 1)
        finally:
            connection.close()
        if len(data) > MOST_BYTES:
            raise RequestError("The server sends more than 64 MiB at once.", fix="ask for less at once")
        return answered.status, {name.lower(): value for name, value in answered.getheaders()}, data


def _unanswered(address: str, key: str | None) -> RequestError:
    fix = "is it up? then ask again" + (f" with the key {key!r}" if key else "")
    return RequestError(f"Nobody answers at {address}.", fix=fix, spent=UNKNOWN if key else "nothing")


def _is_of_a_proxy(status: int, headers: Mapping[str, str]) -> bool:
    """Whether a proxy says that the server behind it did not answer: what became of the request is not known."""
    return status in (502, 503, 504) and not headers.get("content-type", "").startswith(PROBLEM)


def _patience(status: int, headers: Mapping[str, str]) -> float | None:
    """How long to wait before the next attempt; None: this is the answer."""
    wait = headers.get("retry-after", "")
    if status not in (429, 503) or not wait.isascii() or not wait.isdigit() or float(wait) > LONGEST_WAIT_SECONDS:
        return None
    return float(wait)


def error_of(status: int, data: bytes, *, spent: str = "nothing") -> SiloquentError:
    """The error that a problem document tells of: the class that the same refusal has without a server.

    Args:
        spent: What a request may have cost whose answer is no problem document.
    """
    try:
        document = Reply(data).document()
    except RequestError as stranger:
        stranger.spent = spent
        raise
    code, detail = str(document.get("code", "")), str(document.get("detail", f"The server says {status}."))
    kind = dict(_kinds()).get(code, NotAllowed if status in (401, 403) else RequestError)
    error = kind.__new__(kind)  # their own arguments stayed at the server: what can be known is in the document
    vars(error).update({"position": 0, "expected": "", "best_alpha": None, **_named(detail)})
    SiloquentError.__init__(
        error, detail, fix=str(document.get("fix", "")), spent=str(document.get("spent", "nothing"))
    )
    error.code = code or kind.code
    notes = document.get("notes")
    for note in notes if isinstance(notes, list) else ():
        error.add_note(str(note))
    return error


def _named(detail: str) -> dict[str, Any]:
    """What was not known, and the name that is close to it, as ``UnknownName`` says it."""
    said = _UNKNOWN.match(detail)
    kind, name, near = said.groups() if said else ("", "", None)
    return {"kind": kind, "name": name, "near": near, "known": [near] if near else []}


def _kinds() -> Iterator[tuple[str, type[SiloquentError]]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, SiloquentError):
            yield kind.code, kind


def find_token(file: Path | str | None = None, *, environment: Mapping[str, str] | None = None) -> str:
    """The token: of ``file``, or of the variable SILOQUENT_TOKEN, or of the file that SILOQUENT_TOKEN_FILE names.

    Raises:
        NotAllowed: there is none, or others of this machine may read its file.
    """
    environment = os.environ if environment is None else environment
    named = file or (None if environment.get(TOKEN) else environment.get(TOKEN_FILE))
    if named is None:
        if text := environment.get(TOKEN, "").strip():
            return text
        raise NotAllowed(
            "A server wants a token, and there is none.", fix=f"export {TOKEN_FILE}=FILE, or {TOKEN}=sq_.."
        )
    try:
        with Path(named).open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise NotAllowed(f"Others may read the token in {named}.", fix=f"chmod 600 {named}")
            return opened.read(200).decode("ascii", "replace").strip()
    except OSError as failed:
        raise NotAllowed(f"The token's file cannot be read: {failed.strerror}.", fix="--token-file FILE") from None
