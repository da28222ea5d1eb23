"""The transport from a role to its relay: HTTPS, outgoing connections only."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from siloquent.errors import CAUSES, NotAllowed, ProtocolError
from siloquent.federation.channel.base import parse_step
from siloquent.federation.identity.bundle import Bundle
from siloquent.federation.relay.store import MessagePath, StoredEnvelope
from siloquent.fixes import run

if TYPE_CHECKING:
    import httpx

SEQ = "Siloquent-Seq"
CONNECT_S, ANSWER_S = 10.0, 60.0
MAX_WAIT_SECONDS = 25.0


class Transport(Protocol):
    """The relay's routes as calls of one role; each either succeeded at the relay or raises."""

    def open_session(self, session: str, members: list[str], deadline: int) -> bool:
        """Open mailboxes; return False if this session is already open."""

    def put(self, key: MessagePath, wire: bytes) -> bool:
        """Store an envelope; return False if the same one is already stored."""

    def fetch_next(self, after: int, wait: float) -> StoredEnvelope | None:
        """Return the oldest envelope after ``after``, waiting up to ``wait`` seconds."""

    def acknowledge(self, upto: int) -> None:
        """Report that everything up to ``upto`` is durable here."""

    def send_heartbeat(self, session: str, state: str, step: str, waiting_for: list[str], since_s: float) -> None:
        """Report the progress of this role."""

    def look(self, session: str) -> dict[str, Any]:
        """Return the progress of every member."""

    def close_session(self, session: str, code: str, transcript: str, step: str = "") -> None:
        """End the session for good; ``step``: the step at which a failed session ended."""


class HttpTransport:
    """The relay over mutual TLS 1.3: its CA and its name are pinned; redirects and proxies are not used."""

    def __init__(self, bundle: Bundle) -> None:
        import httpx

        self._where, self._has_answered = bundle.roster.relay, False
        self.date = ""  # the relay's clock according to its last answer, only for ``federation check``
        self._client = httpx.Client(
            base_url=self._where,
            verify=bundle.build_client_context(),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=8, max_keepalive_connections=4, keepalive_expiry=60.0),
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def open_session(self, session: str, members: list[str], deadline: int) -> bool:
        """Open mailboxes."""
        told = {"session": session, "members": members, "deadline": deadline}
        try:
            return self._ask("POST", "/v1/sessions", json=told).status_code == 201
        except ProtocolError as refused:
            if refused.code != "bad_encoding":
                raise
            # The usual reason is a wrong clock, here or there.
            clocks = f"this machine's clock says {_format_utc(time.time())}, the relay's {_parse_utc(self.date)}"
            where = f"{clocks}; the deadline is {_format_utc(deadline)}"
            raise ProtocolError(refused.code, where=where, fix="correct the wrong clock, then restart") from None

    def put(self, key: MessagePath, wire: bytes) -> bool:
        """Store an envelope."""
        session, to, step, attempt, part = key
        path = f"/v1/sessions/{session}/messages/{to}/{quote(step)}/{attempt}/{part}"
        return self._ask("PUT", path, content=wire).status_code == 201

    def fetch_next(self, after: int, wait: float) -> StoredEnvelope | None:
        """Return the oldest envelope after ``after``."""
        waits = min(wait, MAX_WAIT_SECONDS)
        answer = self._ask("GET", "/v1/inbox", params={"after": after, "wait": waits})
        return None if answer.status_code == 204 else StoredEnvelope(int(answer.headers[SEQ]), answer.content)

    def acknowledge(self, upto: int) -> None:
        """Release the bodies up to ``upto``."""
        self._ask("POST", "/v1/inbox/ack", json={"upto": upto})

    def send_heartbeat(self, session: str, state: str, step: str, waiting_for: list[str], since_s: float) -> None:
        """Report the progress of this role."""
        told = {"state": state, "step": step, "waiting_for": waiting_for, "since_s": since_s}
        self._ask("POST", f"/v1/sessions/{session}/beat", json=told)

    def look(self, session: str) -> dict[str, Any]:
        """Return the progress of every member."""
        told: dict[str, Any] = self._ask("GET", f"/v1/sessions/{session}").json()
        return told

    def close_session(self, session: str, code: str, transcript: str, step: str = "") -> None:
        """End the session for good."""
        told = {"code": code, "transcript": transcript, "step": step}
        self._ask("POST", f"/v1/sessions/{session}/close", json=told)

    def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        import httpx

        try:
            answer = self._client.request(method, path, **what)
        except httpx.TransportError as broken:
            # uvicorn drops a connection without a message when it refuses the certificate. Only at the
            # first exchange is that the likely reason; later the relay has probably stopped.
            if isinstance(broken, httpx.RemoteProtocolError) and not self._has_answered:
                raise ProtocolError("certificate_refused", where=self._where) from None
            raise explain_connection(broken, self._where) from None
        self._has_answered, self.date = True, answer.headers.get("date", "")
        if answer.is_success:
            return answer
        raise _build_refusal(answer, self._where)


def _format_utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def _parse_utc(date: str) -> str:
    """Parse the time in a Date header; its text is never repeated."""
    try:
        return _format_utc(parsedate_to_datetime(date).timestamp())
    except (ValueError, OverflowError, OSError):
        return "nothing that can be read"


def explain_connection(broken: BaseException, where: str) -> ProtocolError:
    """Explain a missing answer: either side refused a certificate, or nothing listens there.

    With TLS 1.3 the client's handshake ends before the server has judged the client's certificate: its refusal is an
    alert at the first read.
    """
    seen: BaseException | None = broken
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            expired = "expired" in str(seen) or "not yet valid" in str(seen)
            return ProtocolError("certificate_expired" if expired else "certificate_refused", where=where)
        if isinstance(seen, ssl.SSLError) and "ALERT" in str(seen).upper():
            expired = "EXPIRED" in str(seen).upper()
            return ProtocolError("certificate_expired" if expired else "certificate_refused", where=where)
        seen = seen.__cause__ or seen.__context__
    return ProtocolError("relay_unreachable", where=where)


def _build_refusal(answer: httpx.Response, where: str) -> ProtocolError | NotAllowed:
    """Convert the relay's problem document to our error; only known codes and names are taken from it."""
    told: dict[str, Any] = {}
    with suppress(ValueError):
        told = answer.json()
    code = str(told.get("code", ""))
    if code in CAUSES:
        role, reason = str(told.get("role", ""))[:32], str(told.get("where", ""))
        is_plain = role.replace("-", "").isalnum()
        known, step = reason if reason in CAUSES else "", parse_step(told.get("step"))
        return ProtocolError(code, role=role if is_plain else "", step=step, where=known)
    if answer.status_code == 403:
        return NotAllowed("The relay does not allow this role to do that.", fix=run("federation check"))
    return ProtocolError("relay_unreachable", where=where)
