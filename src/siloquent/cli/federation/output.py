"""Display of a session's state: one sentence, then a line for each role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.federation import describe_waiting

if TYPE_CHECKING:
    from siloquent.federation.identity.roster import Roster


def show_status(screen: Screen, told: dict[str, Any], roster: Roster) -> None:
    """Print a session's state."""
    owners = {role.name: role.owner for role in roster.roles}
    screen.write_line(f"{told['session'][:12]}: {describe_waiting(told)}; {told['messages']} messages")
    rows = [
        (
            line["role"],
            owners.get(line["role"], ""),
            line["state"],
            line["step"],
            f"{line['since_s']} s",
            ", ".join(line["waiting_for"]),
            "never" if line["seen_s"] < 0 else f"{line['seen_s']} s ago",
            f"{line['bytes']:,}",
        )
        for line in told["roles"]
    ]
    heads = (("role", LEFT), ("owner", LEFT), ("state", LEFT), ("step", LEFT), ("since", RIGHT))
    screen.write_table([*heads, ("waiting for", LEFT), ("last seen", RIGHT), ("bytes", RIGHT)], rows)
