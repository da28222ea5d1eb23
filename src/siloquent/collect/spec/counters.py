"""Counts of reports: each is accepted, or refused under one code, so that none is counted twice or lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass

REASONS = {
    "accepted": "counted",
    "duplicate": "the user has reported to this service in this epoch already",
    "bad_length": "cut off, or of another length than this collection's reports",
    "bad_version": "made by a client of another version",
    "wrong_digest": "made for another collection, epoch or design",
    "unknown_service": "for a service that the collection does not have",
    "bad_layer": "on a layer that the collection does not have",
    "bad_payload": "no value that an honest client could have drawn",
}


@dataclass(frozen=True, slots=True)
class Counters:
    """The number of reports per outcome; the names are codes, explained in ``REASONS``."""

    accepted: int = 0
    duplicate: int = 0
    bad_length: int = 0
    bad_version: int = 0
    wrong_digest: int = 0
    unknown_service: int = 0
    bad_layer: int = 0
    bad_payload: int = 0

    def combine(self, other: Counters) -> Counters:
        """Return the sum of both counters."""
        mine, theirs = asdict(self), asdict(other)
        return Counters(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def total(self) -> int:
        """The number of all received reports, accepted or not."""
        return sum(asdict(self).values())
