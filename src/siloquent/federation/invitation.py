"""What a moderator asks its members for: which protocol, on what, at which price, by when."""

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
"""What a policy or a person judges, besides the body's ``max_sets``."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """A session before it starts. Members see all of it before they say yes.

    Args:
        protocol: What the parties run, such as ``"padded/1"``.
        task: Whose protocol it is, such as ``"profile"``: what a party's policy is about.
        service: What the workers run, such as ``"sum"``; they know no task.
        tables, columns: What a party would read.
        statement: What each role would learn, or the guarantee, in words.
        price: The event's cost for each party's account, in words; empty if it costs nothing.
        body: The task's own parameters, as JSON.
        min_parties: With how many parties the session may start; those that refuse are left out.
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
            raise RequestError("An invitation names protocol, task, service, texts of some length and whole seconds.")

    def to_json(self) -> dict[str, Any]:
        """The invitation as it is sealed and shown."""
        return {**asdict(self), "tables": list(self.tables), "columns": list(self.columns), "body": dict(self.body)}

    def require_same(self, meant: Invitation, moderator: str) -> None:
        """Refuse to run a body that is not what was shown: ``meant`` is made from the body by the party itself.

        Raises:
            ProtocolError: ``planner_mismatch``: an owner approved something else than the body asks for.
        """
        is_same = all(getattr(self, name) == getattr(meant, name) for name in SHOWN)
        if not is_same or self.body.get("max_sets") != meant.body.get("max_sets"):
            raise ProtocolError("planner_mismatch", role=moderator, step="invitation")

    @classmethod
    def from_json(cls, told: Any) -> Invitation:
        """The invitation that a moderator sent.

        Raises:
            ProtocolError: ``bad_encoding``: it is none; ``version_mismatch``: it holds what we do not know.
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
