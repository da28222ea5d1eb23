"""The cost of a session before any contact: bounds from the spec only, no rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from siloquent.profile.plan.sizes import compute_size_class
from siloquent.profile.spec import ProfileColumn, ProfileSpec, describe_leakage
from siloquent.readable import Readable

# Measured on one core, all roles together: benchmarks/profile/smfd.py.
MICROSECONDS_A_POINT = 11
MICROSECONDS_A_MULTIPLE = 36
MICROSECONDS_A_VOTE = 600
BYTES_A_POINT = 32
VOTE_BYTES = 64


@dataclass(frozen=True, slots=True, repr=False)
class SessionPlan(Readable):
    """The bounds on a session's leakage and cost.

    ``most_sets``, ``most_votes``: no session of this spec requests more. ``set_bytes``, ``set_seconds``: one set,
    over all roles and hops. ``warnings``: facts for a person to know before approving.
    """

    spec: ProfileSpec
    parties: int
    workers: int
    rows: int
    most_sets: int
    most_votes: int
    set_bytes: int
    set_seconds: float
    vote_bytes: int
    vote_seconds: float
    statement: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        size = f"at most {self.most_sets:,} sets and {self.most_votes:,} votes between {self.parties} parties"
        learned = [f"  {role} could learn: {text}" for role, text in self.statement]
        head = f"Plan of a profile of {len(self.spec.columns)} columns of {self.spec.table}: {size}"
        return "\n".join([head, "Not differential privacy.", *learned, *self.warnings])


def compute_max_sets(spec: ProfileSpec) -> int:
    """Compute the maximal number of sets that a session requests: its own limit, or every set of columns once."""
    every = (1 << len(spec.columns)) - 1 + int(spec.empty_lhs)
    return every if spec.max_sets is None else min(every, spec.max_sets)


def explain(
    spec: ProfileSpec, *, columns: Sequence[ProfileColumn] = (), parties: int = 3, workers: int = 3, rows: int = 1_000
) -> SessionPlan:
    """Estimate the cost of a session of ``spec``; no network, no rows.

    Args:
        columns: The columns' types, for warnings; may be left out.
        rows: A rough, public number of rows of one party.
    """
    d, most = len(spec.columns), spec.most
    least = 0 if spec.empty_lhs else 1
    votes = sum(math.comb(d, k) * (d - k) for k in range(least, min(d - 1, most) + 1))
    points = parties * (compute_size_class(rows) if spec.size_class else rows)
    if spec.protocol == "smfd":
        set_bytes, set_us = 64 * points * workers, 543 * points
    else:
        each = MICROSECONDS_A_POINT + (workers + 1) * MICROSECONDS_A_MULTIPLE
        set_bytes, set_us = BYTES_A_POINT * points * workers, each * points
    return SessionPlan(
        spec=spec,
        parties=parties,
        workers=workers,
        rows=rows,
        most_sets=compute_max_sets(spec),
        most_votes=votes,
        set_bytes=set_bytes,
        set_seconds=set_us / 1e6,
        vote_bytes=VOTE_BYTES * (parties + workers - 1),
        vote_seconds=MICROSECONDS_A_VOTE / 1e6,
        statement=describe_leakage(spec.protocol, parties=parties, workers=workers, size_class=spec.size_class),
        warnings=tuple(_list_warnings(spec, columns)),
    )


def _list_warnings(spec: ProfileSpec, columns: Sequence[ProfileColumn]) -> list[str]:
    found = [
        f"{column.name} names people: how many of its values the parties share is how many people they share."
        for column in columns
        if column.names_people
    ]
    if spec.max_lhs is None and spec.most < len(spec.columns):
        found.append(f"Left sides of more than {spec.most} columns are not searched; max_lhs changes that.")
    if spec.protocol == "smfd":
        found.append("The thesis' protocol shows the moderator all distinct counts; padded shows none.")
    if not spec.canaries:
        found.append("Without canaries a worker that computes something else is not found.")
    return found
