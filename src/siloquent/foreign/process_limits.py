"""Limits of a process that handles what others sent, enforced by the system."""

from __future__ import annotations

import resource


def limit_memory(most_bytes: int) -> None:
    """Limit this process's address space to ``most_bytes``, or to the service's own limit if that is lower."""
    _lower(resource.RLIMIT_AS, most_bytes)


def limit_cpu(most_seconds: int) -> None:
    """Limit this process's CPU time to ``most_seconds``, or to the service's own limit if that is lower."""
    _lower(resource.RLIMIT_CPU, most_seconds)


def _lower(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)  # raising a hard limit is refused
    resource.setrlimit(kind, (least, least))
