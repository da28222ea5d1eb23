"""Documents about federation sessions: the state of each role, pending waits, and the session to approve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.federation.identity.bundle import Bundle
    from siloquent.federation.identity.roster import Roster

LATE_SECONDS = 30


def format_waiting_time(seconds: float) -> str:
    """Format how long a role has been awaited; after 30 seconds it is late.

    >>> format_waiting_time(12), format_waiting_time(31.4)
    ('since 12 s', 'since 31 s, late')
    """
    return f"since {seconds:.0f} s" + (", late" if seconds >= LATE_SECONDS else "")


def describe_waiting(told: dict[str, Any]) -> str:
    """Describe in one sentence which role waits for which, and since when.

    >>> describe_waiting({"state": "open", "roles": [
    ...     {"role": "w1", "state": "running", "step": "a2", "waiting_for": ["river"], "since_s": 12, "seen_s": 0},
    ...     {"role": "river", "state": "running", "step": "", "waiting_for": [], "since_s": 0, "seen_s": 3}]})
    'step a2: w1 waits for river since 12 s (last seen 3 s ago)'
    """
    if told["state"] == "aborted":
        return f"ended by {told['by']}{' at step ' + told['step'] if told.get('step') else ''}: {told['code']}"
    if told["state"] != "open":
        return str(told["state"])
    waits = [line for line in told["roles"] if line["waiting_for"]]
    # A role that waits for a role which itself waits is not the cause.
    waiting = {line["role"] for line in waits}
    ends = [(line, name) for line in waits for name in line["waiting_for"] if name not in waiting]
    if not ends:
        return "running"
    line, name = max(ends, key=lambda end: end[0]["since_s"])
    seen = next((other["seen_s"] for other in told["roles"] if other["role"] == name), -1)
    last = f"last seen {seen} s ago" if seen >= 0 else "never seen"
    return f"step {line['step']}: {line['role']} waits for {name} {format_waiting_time(line['since_s'])} ({last})"


def build_status_document(told: dict[str, Any], roster: Roster) -> dict[str, Any]:
    """Build the document of kind ``siloquent/federation-status/1``."""
    owners = {role.name: role.owner for role in roster.roles}
    return {
        "schema": "siloquent/federation-status/1",
        "session": told["session"],
        "state": told["state"],
        "code": told["code"],
        "by": told["by"],
        "step": told.get("step", ""),
        "sentence": describe_waiting(told),
        "deadline_s": told["deadline_s"],
        "messages": told["messages"],
        "bytes": told["bytes"],
        "roles": [{**line, "owner": owners.get(line["role"], "")} for line in told["roles"]],
    }


def build_session_document(role: Bundle, known: Any) -> dict[str, Any]:
    """Describe a session for its owner's approval: part of ``siloquent/party-sessions/1``."""
    asked = known.invitation.get("invitation", {})
    workers = [role.roster.get_role(name) for name in known.members if _is_worker(role, name)]
    return {
        "session": known.id,
        "state": known.state,
        "moderator": known.moderator,
        "task": str(asked.get("task", "")),
        "protocol": str(asked.get("protocol", "")),
        "service": str(asked.get("service", "")),
        "min_parties": asked.get("min_parties", 1),
        "max_sets": asked.get("body", {}).get("max_sets"),
        "tables": list(asked.get("tables", [])),
        "columns": list(asked.get("columns", [])),
        "statement": str(asked.get("statement", "")),
        "price": str(asked.get("price", "")),
        "workers": [f"{worker.name} ({worker.owner})" for worker in workers],
    }


def _is_worker(role: Bundle, name: str) -> bool:
    return any(known.name == name and known.kind == "worker" for known in role.roster.roles)
