"""Requests as plain values: what is sent, where to, and whether it may be sent twice; no connection is opened here."""

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
class Route:
    """One operation of the API.

    Attributes:
        repeats: Sent twice it does no more than once, so it is sent again where its outcome is not known.
        spends: It is charged for, once for its idempotency key.
        ends: It deletes: where an attempt's outcome is not known and the next one finds nothing, it is done.
    """

    method: str
    path: str
    repeats: bool = True
    spends: bool = False
    ends: bool = False


ROUTES: Mapping[str, Route] = MappingProxyType(
    {
        "me": Route("GET", "/me"),
        "list_tables": Route("GET", "/tables"),
        "show_table": Route("GET", "/tables/{table}"),
        "table_history": Route("GET", "/tables/{table}/history"),
        "put_table": Route("PUT", "/tables/{table}"),
        "check_table": Route("POST", "/tables/{table}/check"),
        "upload": Route("POST", "/uploads", repeats=False),
        "list_uploads": Route("GET", "/uploads"),
        "delete_upload": Route("DELETE", "/uploads/{upload}", ends=True),
        "explain": Route("POST", "/explanations"),
        "answer": Route("POST", "/answers", spends=True),
        "create_job": Route("POST", "/jobs", spends=True),
        "price_job": Route("POST", "/jobs/prices"),
        "list_jobs": Route("GET", "/jobs"),
        "show_job": Route("GET", "/jobs/{job}"),
        "job_events": Route("GET", "/jobs/{job}/events"),
        "cancel_job": Route("DELETE", "/jobs/{job}"),
        "list_releases": Route("GET", "/releases"),
        "show_release": Route("GET", "/releases/{release}"),
        "release_file": Route("GET", "/releases/{release}/files/{file}"),
        "verify_release": Route("POST", "/releases/{release}/verify"),
        "share_release": Route("POST", "/releases/{release}/share"),
        "delete_release": Route("DELETE", "/releases/{release}"),
        "ask_release": Route("POST", "/releases/{release}/questions"),
        "show_dependencies": Route("GET", "/releases/{release}/dependencies"),
        "adopt_dependencies": Route("POST", "/releases/{release}/adoption"),
        "show_catalogue": Route("GET", "/catalogue"),
        "list_sessions": Route("GET", "/sessions"),
        "show_session": Route("GET", "/sessions/{session}"),
        "decide_session": Route("POST", "/sessions/{session}/approval", repeats=False),
        "list_collections": Route("GET", "/collections"),
        "show_collection": Route("GET", "/collections/{collection}"),
        "send_reports": Route("POST", "/collections/{collection}/reports"),
        "estimate": Route("POST", "/collections/{collection}/estimates"),
        "list_accounts": Route("GET", "/accounts"),
        "list_entries": Route("GET", "/accounts/{account}/entries"),
        "ledger_head": Route("GET", "/ledger/head"),
        "verify_ledger": Route("POST", "/ledger/verify"),
        "make_checkpoint": Route("POST", "/ledger/checkpoints"),
        "list_spending": Route("GET", "/spending"),
        "list_denials": Route("GET", "/denials"),
        "list_acts": Route("GET", "/acts"),
        "create_token": Route("POST", "/tokens", repeats=False),
        "list_tokens": Route("GET", "/tokens"),
        "revoke_token": Route("DELETE", "/tokens/{token}"),
    }
)
"""Every operation of the API by its id, as in the OpenAPI document; a test compares the two."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as often as it takes to have it answered.

    Attributes:
        path: Below ``/v1``, its names quoted, with its query.
        body: Sent as JSON. ``data``: sent as bytes, or a file's bytes.
        key: The idempotency key of a request that may happen once only.
        sink: Takes the bytes of a good answer, which then are not kept in memory.
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
        """Whether it is charged for."""
        return ROUTES[self.route].spends

    @property
    def may_repeat(self) -> bool:
        """Whether it may be sent again where nobody knows what became of it.

        What takes the place of one state would find its own work there, and be refused.
        """
        return self.key is not None or (ROUTES[self.route].repeats and "If-Match" not in self.headers)

    @property
    def max_bytes(self) -> int:
        """The longest answer that is taken."""
        return MAX_DOCUMENT_BYTES if self.sink is None else MAX_FILE_BYTES


def call(
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
) -> Call:
    """The request of operation ``route``.

    Args:
        names: What stands in the braces of its path; an account's name keeps its slash.
        query: Parameters; those that are None are left out.
    """
    quoted = {name: quote(text, safe="/" if name == "account" else "") for name, text in (names or {}).items()}
    told = {name: value for name, value in (query or {}).items() if value is not None}
    path = ROUTES[route].path.format(**quoted) + (f"?{urlencode(told)}" if told else "")
    return Call(route, path, body, data, key, dict(headers or {}), sink, ROUTES[route].ends if ends is None else ends)
