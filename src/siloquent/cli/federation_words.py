"""How a session's state is shown: one sentence on top, then a line for each role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siloquent.cli.screen import LEFT, RIGHT, Screen

if TYPE_CHECKING:
    from siloquent.federation.roster import Roster


def sentence(told: dict[str, Any]) -> str:
    """Who is waited for since when, in one sentence.

    >>> sentence({"state": "open", "roles": [{"role": "w1", "state": "running", "step": "a2", "waiting_for": ["river"],
    ...     "since_s": 12, "seen_s": 0}, {"role": "river", "state": "running", "step": "", "waiting_for": [],
    ...     "since_s": 0, "seen_s": 3}]})
    'step a2: w1 waits for river since 12 s (last seen 3 s ago)'
    """
    if told["state"] == "aborted":
        return f"ended by {told['by']}: {told['code']}"
    if told["state"] != "open":
        return str(told["state"])
    waits = [line for line in told["roles"] if line["waiting_for"]]
    # Whoever waits for a role that itself waits is not the one to look at.
    waiting = {line["role"] for line in waits}
    ends = [(line, name) for line in waits for name in line["waiting_for"] if name not in waiting]
    if not ends:
        return "running"
    line, name = max(ends, key=lambda end: end[0]["since_s"])
    seen = next((other["seen_s"] for other in told["roles"] if other["role"] == name), -1)
    last = f"last seen {seen} s ago" if seen >= 0 else "never seen"
    return f"step {line['step']}: {line['role']} waits for {name} since {line['since_s']} s ({last})"


def status_document(told: dict[str, Any], roster: Roster) -> dict[str, Any]:
    """The document of kind ``siloquent/federation-status/1``."""
    owners = {role.name: role.owner for role in roster.roles}
    return {
        "schema": "siloquent/federation-status/1",
        "session": told["session"],
        "state": told["state"],
        "code": told["code"],
        "by": told["by"],
        "sentence": sentence(told),
        "deadline_s": told["deadline_s"],
        "messages": told["messages"],
        "bytes": told["bytes"],
        "roles": [{**line, "owner": owners.get(line["role"], "")} for line in told["roles"]],
    }


def show_status(screen: Screen, told: dict[str, Any], roster: Roster) -> None:
    """The same for people."""
    owners = {role.name: role.owner for role in roster.roles}
    screen.line(f"{told['session'][:12]}: {sentence(told)}; {told['messages']} messages")
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
    screen.table([*heads, ("waiting for", LEFT), ("last seen", RIGHT), ("bytes", RIGHT)], rows)
