"""The demo of a profile: dependencies that hold over three clinics, and those that hold only inside each."""

from __future__ import annotations

from pathlib import Path

from siloquent.demo.profiling_roles import role_steps
from siloquent.demo.profiling_tables import SILOS

WRITTEN = ("prices.toml", "clinics.toml")
"""Files, besides ``data`` and ``schemas``, that a new demo replaces."""
PARTIES = tuple(word for name in SILOS for word in ("--party", f"{name}=silos/{name}"))

PROFILE_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Three clinics with a price list each. An owner may look for rules in the own rows: exact, for no one else.",
        ("profile", "local", "prices", "--max-lhs", "2"),
    ),
    (
        "Which rules hold over all three? First what would be shown to whom; nobody is contacted, no row is read.",
        ("profile", "plan", "prices.toml"),
    ),
    (
        "Now the session: three clinics, two workers, an office. No row leaves a clinic, no count is shown.\n"
        "A ward has one specialty in each clinic, and another one elsewhere: a rule of the house, not of all.",
        ("profile", "run", "prices.toml", *PARTIES, "--workers", "2", "--yes", "-o", "price-rules"),
    ),
    ("Anyone can verify the report.", ("profile", "verify", "price-rules")),
    (
        "A dependency over all rows becomes a constraint of the table, which synthetic rows satisfy.",
        ("profile", "adopt", "price-rules", "--table", "prices", "--pick", "supplier -> city", "--yes"),
    ),
)


def with_roles(folder: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the same steps with the session run by processes, with their keys below ``folder``, instead of threads."""
    at = next(place for place, (_, command) in enumerate(PROFILE_STEPS) if command[:2] == ("profile", "run"))
    return (*PROFILE_STEPS[:at], *role_steps(folder), *PROFILE_STEPS[at + 1 :])
