"""The terms that all roles of a session agree on before any computation: the first message to a party."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from siloquent.errors import ProtocolError, RequestError
from siloquent.federation.messages.payload import unpack_document
from siloquent.federation.messages.step_message import DocumentMessage
from siloquent.fixes import UseOption
from siloquent.profile.plan.costs import compute_max_sets
from siloquent.profile.spec import ProfileColumn, ProfileSpec, parse_column, parse_spec

VERSION = 2
"""The version of the protocol. In version 2 the last worker also sends the verdicts to the parties."""
MAX_SETS = 2**16


@dataclass(frozen=True, slots=True)
class Terms(DocumentMessage):
    """A session's spec with the columns' types.

    ``most_sets``: the number of requests after which a party refuses; 0: the spec's own limit.
    """

    step_name = "terms"
    senders = ("moderator",)
    receivers = ("party",)

    spec: ProfileSpec
    columns: tuple[ProfileColumn, ...]
    most_sets: int = 0

    def __post_init__(self) -> None:
        if not self.most_sets:
            object.__setattr__(self, "most_sets", min(MAX_SETS, compute_max_sets(self.spec)))
        if tuple(column.name for column in self.columns) != self.spec.columns:
            raise RequestError("The columns' types are not those of the spec's columns.")
        if not 1 <= self.most_sets <= MAX_SETS:
            raise RequestError(f"A session asks 1 to {MAX_SETS:,} sets.", fix=UseOption("max_sets", 400))

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as the invitation holds them."""
        columns = [column.to_dict() for column in self.columns]
        return {"v": VERSION, "spec": self.spec.to_dict(), "columns": columns, "most_sets": self.most_sets}

    def to_document(self) -> dict[str, Any]:
        """Return the JSON object of the message: as in the invitation."""
        return self.to_dict()

    @classmethod
    def from_payload(cls, payload: bytes) -> Terms:
        """Parse the message.

        Raises:
            ProtocolError: ``version_mismatch``, ``bad_encoding``.
        """
        return parse_terms(unpack_document(payload))


def parse_terms(plain: Any) -> Terms:
    """Parse the output of ``to_dict``.

    Raises:
        ProtocolError: ``version_mismatch``, ``bad_encoding``.
    """
    if not isinstance(plain, dict) or plain.get("v") != VERSION:
        raise ProtocolError("version_mismatch")
    try:
        columns = tuple(parse_column(column) for column in plain["columns"])
        return Terms(parse_spec(plain["spec"]), columns, int(plain["most_sets"]))
    except (KeyError, TypeError, ValueError, RequestError):
        raise ProtocolError("bad_encoding") from None
