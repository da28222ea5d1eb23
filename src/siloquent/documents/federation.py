"""Documents about federation sessions: the state of each role, pending waits, and the session to approve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from siloquent.fixes import PYTHON, FixLanguage, build_fix

if TYPE_CHECKING:
    from siloquent.federation.connection_check import CheckResult
    from siloquent.federation.identity.bundle import Bundle
    from siloquent.federation.identity.roster import Roster
    from siloquent.federation.messages.verification import TranscriptVerdict

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


def build_roster_document(roster: Roster) -> dict[str, Any]:
    """Return a federation's roster as a document of kind ``siloquent/federation-roster/1``."""
    return {
        "schema": "siloquent/federation-roster/1",
        "name": roster.name,
        "version": roster.version,
        "relay": roster.relay,
        "words": roster.words,
        "roles": _list_roles(roster),
        "warnings": roster.list_warnings(),
    }


def build_connection_document(steps: Sequence[CheckResult], *, language: FixLanguage = PYTHON) -> dict[str, Any]:
    """Return the tried steps to the relay as a document of kind ``siloquent/federation-check/1``."""
    return {
        "schema": "siloquent/federation-check/1",
        "ok": all(step.state != "bad" for step in steps),
        "steps": [
            {"what": one.what, "state": one.state, "found": one.found, "fix": build_fix(one.fix).render(language)}
            for one in steps
        ],
    }


def build_session_verdict_document(verdict: TranscriptVerdict) -> dict[str, Any]:
    """Return the check of a session's transcript as a document of kind ``siloquent/federation-verdict/1``."""
    return {
        "schema": "siloquent/federation-verdict/1",
        "ok": not verdict.faults,
        "session": verdict.session,
        "headers": verdict.headers,
        "head": verdict.head,
        "signed": list(verdict.signed),
        "faults": list(verdict.faults),
    }


def build_session_list_document(sessions: Iterable[Any]) -> dict[str, Any]:
    """Return the sessions in a role's journal as a document of kind ``siloquent/federation-sessions/1``."""
    return {
        "schema": "siloquent/federation-sessions/1",
        "sessions": [
            {"session": one.id, "state": one.state, "moderator": one.moderator, "code": one.code} for one in sessions
        ],
    }


def build_party_sessions_document(role: Bundle, sessions: Iterable[Any]) -> dict[str, Any]:
    """Return a party's sessions as a document of kind ``siloquent/party-sessions/1``."""
    return {
        "schema": "siloquent/party-sessions/1",
        "sessions": [build_session_entry(role, one) for one in sessions],
    }


def build_federation_document(
    role: Bundle, certificate: CheckResult, sessions: Iterable[Any], *, language: FixLanguage = PYTHON
) -> dict[str, Any]:
    """Return a role's federation, certificate and sessions as a document of kind ``siloquent/federation/1``."""
    return {
        "schema": "siloquent/federation/1",
        "name": role.roster.name,
        "version": role.roster.version,
        "role": role.name,
        "kind": role.kind,
        "certificate": {
            "state": certificate.state,
            "found": certificate.found,
            "fix": build_fix(certificate.fix).render(language),
        },
        "roles": _list_roles(role.roster),
        "sessions": [build_session_entry(role, one) for one in sessions],
    }


def build_session_document(role: Bundle, known: Any, status: dict[str, Any] | None, silent: str) -> dict[str, Any]:
    """Return a session of a role as a document of kind ``siloquent/federation-session/1``.

    Args:
        status: The relay's document about it; ``silent``: why there is none.
    """
    entry = build_session_entry(role, known)
    return {
        "schema": "siloquent/federation-session/1",
        **entry,
        "decided": known.decided,
        "status": status,
        "silent": silent,
    }


def build_decision_document(session: str, decision: str) -> dict[str, Any]:
    """Return an owner's decision on a session as a document of kind ``siloquent/decision/1``."""
    return {"schema": "siloquent/decision/1", "session": session, "decision": decision}


def _list_roles(roster: Roster) -> list[dict[str, str]]:
    return [{"name": role.name, "kind": role.kind, "owner": role.owner} for role in roster.roles]


def build_session_entry(role: Bundle, known: Any) -> dict[str, Any]:
    """Describe a session for its owner's approval: part of ``party-sessions``, ``federation`` and its session."""
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
