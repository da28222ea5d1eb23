"""Requests as plain values: content, address, and whether they may be sent twice. No connection is opened here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import quote, urlencode

MAX_DOCUMENT_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2**32


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One operation of the API.

    Attributes:
        repeats: Sending it twice has no further effect, so it is repeated if its outcome is unknown.
        spends: It is charged, once per idempotency key.
        ends: It deletes: if an attempt's outcome is unknown and the next one finds nothing, it has succeeded.
    """

    method: str
    path: str
    repeats: bool = True
    spends: bool = False
    ends: bool = False


ROUTES: Mapping[str, ApiRoute] = MappingProxyType(
    {
        "me": ApiRoute("GET", "/me"),
        "list_tables": ApiRoute("GET", "/tables"),
        "show_table": ApiRoute("GET", "/tables/{table}"),
        "table_history": ApiRoute("GET", "/tables/{table}/history"),
        "put_table": ApiRoute("PUT", "/tables/{table}"),
        "check_table": ApiRoute("POST", "/tables/{table}/check"),
        "refresh_table": ApiRoute("POST", "/tables/{table}/refresh", repeats=False),
        "upload": ApiRoute("POST", "/uploads", repeats=False),
        "list_uploads": ApiRoute("GET", "/uploads"),
        "delete_upload": ApiRoute("DELETE", "/uploads/{upload}", ends=True),
        "explain": ApiRoute("POST", "/explanations"),
        "answer": ApiRoute("POST", "/answers", spends=True),
        "create_job": ApiRoute("POST", "/jobs", spends=True),
        "price_job": ApiRoute("POST", "/jobs/prices"),
        "list_jobs": ApiRoute("GET", "/jobs"),
        "show_job": ApiRoute("GET", "/jobs/{job}"),
        "job_events": ApiRoute("GET", "/jobs/{job}/events"),
        "cancel_job": ApiRoute("DELETE", "/jobs/{job}"),
        "list_releases": ApiRoute("GET", "/releases"),
        "show_release": ApiRoute("GET", "/releases/{release}"),
        "release_file": ApiRoute("GET", "/releases/{release}/files/{file}"),
        "verify_release": ApiRoute("POST", "/releases/{release}/verify"),
        "share_release": ApiRoute("POST", "/releases/{release}/share"),
        "delete_release": ApiRoute("DELETE", "/releases/{release}"),
        "ask_release": ApiRoute("POST", "/releases/{release}/questions"),
        "show_dependencies": ApiRoute("GET", "/releases/{release}/dependencies"),
        "adopt_dependencies": ApiRoute("POST", "/releases/{release}/adoption"),
        "show_catalogue": ApiRoute("GET", "/catalogue"),
        "list_sessions": ApiRoute("GET", "/sessions"),
        "show_session": ApiRoute("GET", "/sessions/{session}"),
        "decide_session": ApiRoute("POST", "/sessions/{session}/approval", repeats=False),
        "list_collections": ApiRoute("GET", "/collections"),
        "show_collection": ApiRoute("GET", "/collections/{collection}"),
        "send_reports": ApiRoute("POST", "/collections/{collection}/reports"),
        "estimate": ApiRoute("POST", "/collections/{collection}/estimates"),
        "list_accounts": ApiRoute("GET", "/accounts"),
        "list_entries": ApiRoute("GET", "/accounts/{account}/entries"),
        "ledger_head": ApiRoute("GET", "/ledger/head"),
        "verify_ledger": ApiRoute("POST", "/ledger/verify"),
        "make_checkpoint": ApiRoute("POST", "/ledger/checkpoints"),
        "list_spending": ApiRoute("GET", "/spending"),
        "show_report": ApiRoute("GET", "/report"),
        "list_denials": ApiRoute("GET", "/denials"),
        "list_acts": ApiRoute("GET", "/acts"),
        "create_token": ApiRoute("POST", "/tokens", repeats=False),
        "list_tokens": ApiRoute("GET", "/tokens"),
        "revoke_token": ApiRoute("DELETE", "/tokens/{token}"),
    }
)
"""The operations of the API by their ids, as in the OpenAPI document; a test compares the two."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, including its repetitions.

    Attributes:
        path: The path below ``/v1`` with its query, names quoted.
        body: Sent as JSON. ``data``: sent as bytes, or a file's bytes.
        key: The idempotency key of a request that may happen only once.
        sink: A writer for the bytes of a successful answer, which are then not kept in memory.
    """

    route: str
    path: str
    body: Mapping[str, Any] | None = None
    data: bytes | Path | None = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sink: IO[bytes] | None = field(default=None, compare=False)
    ends: bool = False

    @property
    def method(self) -> str:
        """GET, POST, PUT or DELETE."""
        return ROUTES[self.route].method

    @property
    def spends(self) -> bool:
        """Whether the request is charged."""
        return ROUTES[self.route].spends

    @property
    def may_repeat(self) -> bool:
        """Whether the request may be repeated if its outcome is unknown.

        A conditional replacement would find its own result on repetition, and be refused.
        """
        return self.key is not None or (ROUTES[self.route].repeats and "If-Match" not in self.headers)

    @property
    def max_bytes(self) -> int:
        """The maximum length of an answer."""
        return MAX_DOCUMENT_BYTES if self.sink is None else MAX_FILE_BYTES


def build_call(
    route: str,
    names: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, object] | None = None,
    body: Mapping[str, Any] | None = None,
    data: bytes | Path | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    sink: IO[bytes] | None = None,
    ends: bool | None = None,
) -> ApiCall:
    """Return the request of operation ``route``.

    Args:
        names: The values of the placeholders in its path; an account's name keeps its slash.
        query: Parameters; those that are None are left out.
    """
    quoted = {name: quote(text, safe="/" if name == "account" else "") for name, text in (names or {}).items()}
    told = {name: value for name, value in (query or {}).items() if value is not None}
    path = ROUTES[route].path.format(**quoted) + (f"?{urlencode(told)}" if told else "")
    return ApiCall(
        route, path, body, data, key, dict(headers or {}), sink, ROUTES[route].ends if ends is None else ends
    )
