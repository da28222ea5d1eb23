"""The progress of a session as the relay tells it to members: its state, and a line for each member."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from typing import Any


def format_utc(seconds: int) -> str:
    """Format a time; one outside the calendar's range as its number."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return str(seconds)[:24]


def describe_state(row: sqlite3.Row, now: int) -> str:
    """Return the state of a session's row."""
    if row["closed"] is not None:
        return "ended" if row["code"] == "ended" else "aborted"
    return "expired" if row["deadline"] <= now else "open"


def build_role_line(name: str, beat: Mapping[str, Any] | sqlite3.Row | None, sent: int, now: int) -> dict[str, Any]:
    """Return a member's line; ``beat`` is its last heartbeat."""
    if beat is None:
        return {
            "role": name, "state": "idle", "step": "", "waiting_for": [], "since_s": 0, "seen_s": -1, "bytes": sent,
        }  # fmt: skip
    return {
        "role": name,
        "state": beat["state"],
        "step": beat["step"],
        "waiting_for": json.loads(beat["waiting_for"]),  # allowed: our own text
        "since_s": now - beat["since"],
        "seen_s": now - beat["seen"],
        "bytes": sent,
    }
