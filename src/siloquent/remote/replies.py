"""Responses: a document, a refusal as the error raised without a server, or no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from siloquent import errors
from siloquent.errors import NotAllowed, RequestError, SiloquentError, Unanswered
from siloquent.fixes import Fix, build_fix, parse_fix
from siloquent.foreign import load_json

PROBLEM = "application/problem+json"
UNKNOWN = "perhaps the price of this request; sent again with the same key it costs no more"
STRANGER = "A response at this address is not from a siloquent server."
UPGRADE = "pip install --upgrade siloquent"


@dataclass(frozen=True, slots=True)
class Reply:
    """One response: its status, its headers by lower-case name, its body."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def replayed(self) -> bool:
        """Whether the response was given before, under the same key."""
        return self.headers.get("idempotency-replayed") == "true"

    @property
    def is_good(self) -> bool:
        """Whether the server succeeded; a redirect is not an answer."""
        return 200 <= self.status < 300

    @property
    def is_problem(self) -> bool:
        """Whether the response is a refusal by a siloquent server, and not by a proxy before it."""
        return self.headers.get("content-type", "").startswith(PROBLEM) and self.parse_object() is not None

    def parse_object(self) -> dict[str, Any] | None:
        """Return the body as a JSON object; None if it is not one."""
        try:
            found = load_json(self.body)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    def require_document(self) -> dict[str, Any]:
        """Return the body as a JSON object.

        Raises:
            Unanswered: it is not one, so this is not a siloquent server.
        """
        found = self.parse_object()
        if found is None:
            raise Unanswered(STRANGER, fix="check the server's address")
        return found


@dataclass(frozen=True, slots=True)
class Lost:
    """A failed attempt.

    Attributes:
        reason: The cause in our own words; it contains nothing sent by a peer.
        is_sent: Whether the request may have reached the server.
        error: The error if a further attempt would not help.
    """

    reason: str
    is_sent: bool
    error: RequestError | None = None


def build_untrusted(reason: str) -> Lost:
    """Return the failure for a certificate that is not trusted: nothing was sent."""
    return Lost(
        "the certificate is not trusted",
        is_sent=False,
        error=RequestError(
            f"The server's certificate is not trusted: {reason}.",
            fix="SSL_CERT_FILE=FILE names the authority that signed it",
        ),
    )


def build_too_long(most: int) -> Lost:
    """Return the failure for an answer longer than any expected."""
    return Lost(f"the response is longer than {most // 2**20} MiB", is_sent=True, error=RequestError(
        f"The response is too large: the limit is {most // 2**20} MiB.", fix="request fewer rows at once"
    ))  # fmt: skip


def parse_error(status: int, data: bytes, *, spent: str = "nothing") -> SiloquentError:
    """Return the error of a problem document: the class and attributes that the same refusal has without a server.

    Args:
        spent: The possible cost of the request, if the response is not a problem document.
    Raises:
        Unanswered: it is not a problem document.
    """
    document = Reply(data).parse_object()
    if document is None:
        raise Unanswered(STRANGER, fix="check the server's address", spent=spent)
    code = str(document.get("code", ""))
    detail = str(document.get("detail", f"The server says {status}."))
    kind = dict(_iter_error_kinds()).get(code, NotAllowed if status in (401, 403) else RequestError)
    error = kind.__new__(kind)  # its own arguments stayed at the server: the document holds its attributes
    vars(error).update(_parse_error_fields(kind, document.get("about")))
    SiloquentError.__init__(error, detail, fix=_parse_remedy(document), spent=str(document.get("spent", spent)))
    error.code = code or kind.code
    notes = document.get("notes")
    for note in notes if isinstance(notes, list) else ():
        error.add_note(str(note))
    return error


def _parse_remedy(document: Mapping[str, Any]) -> Fix:
    """Return the fix of a problem document; a server of an earlier version sends only its text."""
    try:
        return parse_fix(document["remedy"])
    except (KeyError, ValueError):
        return build_fix(str(document.get("fix", "")))


_DEFAULTS: Mapping[str, tuple[tuple[type, ...], Any]] = {
    "known": ((list,), ()),
    "near": ((str, type(None)), None),
    "key": ((str, type(None)), None),
    "position": ((int,), 0),
    "seq": ((int,), 0),
    "best_alpha": ((int, float, type(None)), None),
}
"""The types of error attributes and their defaults if a server omits them; the others are text."""


def _parse_error_fields(kind: type[SiloquentError], told: object) -> dict[str, Any]:
    """Return the attributes of an error of ``kind``, from a document or by default."""
    found: dict[str, Any] = {}
    for name in kind.FIELDS:
        types, default = _DEFAULTS.get(name, ((str,), ""))
        value = told.get(name) if isinstance(told, dict) else None
        is_one = isinstance(value, types) and not isinstance(value, bool)
        found[name] = value if is_one else default
    if "known" in found:
        found["known"] = [one for one in found["known"] if isinstance(one, str)]
    return found


def _iter_error_kinds() -> Iterator[tuple[str, type[SiloquentError]]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, SiloquentError):
            yield kind.code, kind
