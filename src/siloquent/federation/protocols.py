"""The registry of the tasks' parts. The federation runs them by name, without depending on any task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from siloquent.errors import ProtocolError
from siloquent.federation.channel.base import Channel, RoleKind
from siloquent.federation.messages.invitation import Invitation

Part = Callable[[Channel, Invitation, Any], Any]
"""A role's part: the channel, the invitation, and the *desk* (a party's open workspace; None at a worker)."""


class ProtocolRegistry:
    """A registry of parts by kind of role and name.

    >>> walks = ProtocolRegistry()
    >>> walks.add("worker", "sum", lambda channel, invitation, desk: None)
    >>> walks.list_names("worker")
    ['sum']
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[RoleKind, str], Part] = {}

    def add(self, kind: RoleKind, name: str, part: Part) -> None:
        """Register ``part`` for roles of ``kind``, for sessions whose protocol (worker: service) is ``name``.

        Raises:
            ValueError: there is another part of this name.
        """
        if self._parts.setdefault((kind, name), part) is not part:
            raise ValueError(f"two parts for {kind} {name!r}")

    def get_part(self, kind: RoleKind, invitation: Invitation) -> Part:
        """Return the part that a role of ``kind`` runs in a session.

        Raises:
            ProtocolError: ``version_mismatch``: this role does not know the protocol or service.
        """
        name = invitation.service if kind == "worker" else invitation.protocol
        part = self._parts.get((kind, name))
        if part is None:
            raise ProtocolError("version_mismatch", where=f"{kind} knows no {name!r}")
        return part

    def list_names(self, kind: RoleKind) -> list[str]:
        """Return the names of the parts for roles of ``kind``."""
        return sorted(name for known, name in self._parts if known == kind)
