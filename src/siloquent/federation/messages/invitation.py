"""The invitation to a session: protocol, tables, price and deadlines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from siloquent.errors import ProtocolError, RequestError

PROTOCOL = re.compile(r"[a-z][a-z0-9-]{0,31}(/[0-9]{1,3})?")
MAX_TEXT = 8_000
HOUR, DAY = 3_600, 86_400
SHOWN = ("protocol", "task", "service", "tables", "columns", "statement", "price", "min_parties")
"""The entries that a policy or a person judges, besides the body's ``max_sets``."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """A session before it starts. Members see all of it before they accept.

    Args:
        protocol: The parties' protocol, such as ``"padded/1"``.
        task: The task that owns the protocol, such as ``"profile"``; the subject of a party's policy.
        service: The workers' service, such as ``"sum"``; workers know no task.
        tables, columns: The data that a party would read.
        statement: What each role would learn, or the guarantee, in words.
        price: The event's cost for each party's account, in words; empty if it is free.
        body: The task's own parameters, as JSON.
        min_parties: The number of parties required to start; those that refuse are left out.
        on_missing: ``"wait"`` up to the session's deadline, or ``"abort"`` at a step's.
    """

    protocol: str
    task: str
    service: str = ""
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    statement: str = ""
    price: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    min_parties: int = 1
    step_deadline_s: int = HOUR
    session_deadline_s: int = DAY
    on_missing: Literal["wait", "abort"] = "wait"

    def __post_init__(self) -> None:
        texts = (self.protocol, self.task, self.service, self.statement, self.price, *self.tables, *self.columns)
        good = (
            all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts)
            and PROTOCOL.fullmatch(self.protocol)
            and PROTOCOL.fullmatch(self.task)
            and (not self.service or PROTOCOL.fullmatch(self.service))
            and isinstance(self.body, Mapping)
            and all(
                type(n) is int and n >= 1 for n in (self.min_parties, self.step_deadline_s, self.session_deadline_s)
            )
            and self.on_missing in ("wait", "abort")
        )
        if not good:
            raise RequestError(
                "An invitation must name its protocol, task and service, with non-empty texts and whole seconds."
            )

    def to_json(self) -> dict[str, Any]:
        """Return the invitation as it is sealed and shown."""
        return {**asdict(self), "tables": list(self.tables), "columns": list(self.columns), "body": dict(self.body)}

    def require_same(self, meant: Invitation, moderator: str) -> None:
        """Check that the body matches the invitation shown: ``meant`` is made from the body by the party itself.

        Raises:
            ProtocolError: ``planner_mismatch``: the body requests something other than the owner approved.
        """
        is_same = all(getattr(self, name) == getattr(meant, name) for name in SHOWN)
        if not is_same or self.body.get("max_sets") != meant.body.get("max_sets"):
            raise ProtocolError("planner_mismatch", role=moderator, step="invitation")

    @classmethod
    def from_json(cls, told: Any) -> Invitation:
        """Parse the invitation that a moderator sent.

        Raises:
            ProtocolError: ``bad_encoding``: it is not valid; ``version_mismatch``: it has unknown entries.
        """
        known = {one.name for one in fields(cls)}
        if not isinstance(told, Mapping):
            raise ProtocolError("bad_encoding")
        if not set(told) <= known:
            raise ProtocolError("version_mismatch")
        try:
            values = {**told, "tables": tuple(told["tables"]), "columns": tuple(told["columns"])}
            return cls(**values)
        except (KeyError, TypeError, RequestError):
            raise ProtocolError("bad_encoding") from None
