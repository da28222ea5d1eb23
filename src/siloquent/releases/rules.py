"""The numbers of the rules by which releases are made: a later version compares only what its own rules give again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class ReleaseRules:
    """The rule numbers of one task's releases. Each change takes the next number; ``make test`` holds that.

    Attributes:
        measurement: Of what is measured, and how the ledger keeps it.
        fit: Of everything computed from the measurement: models, drawn rows, values, cells of tables.
        rendering: Of sentences, names of columns, pages and the layout of files.
    """

    measurement: int
    fit: int
    rendering: int

    def has_same_numbers_as(self, other: ReleaseRules) -> bool:
        """Return whether both give the same numbers from a measurement, perhaps in other words."""
        return (self.measurement, self.fit) == (other.measurement, other.fit)


RULES: Mapping[str, ReleaseRules] = {
    "explore": ReleaseRules(measurement=1, fit=1, rendering=1),
    "profile": ReleaseRules(measurement=1, fit=1, rendering=1),
    "search": ReleaseRules(measurement=1, fit=1, rendering=1),
    "share": ReleaseRules(measurement=1, fit=1, rendering=1),
    "sketch": ReleaseRules(measurement=1, fit=1, rendering=1),
    "synth": ReleaseRules(measurement=2, fit=1, rendering=2),
}
_UNNUMBERED: Mapping[str, ReleaseRules] = {
    "explore": ReleaseRules(measurement=1, fit=1, rendering=0),
    "search": ReleaseRules(measurement=1, fit=1, rendering=0),
    "share": ReleaseRules(measurement=1, fit=1, rendering=0),
    "sketch": ReleaseRules(measurement=1, fit=1, rendering=0),
}
"""The rules of releases that name none. Their numbers were those of fit 1 in these tasks; a synthesis says nothing."""
_UNKNOWN = ReleaseRules(measurement=0, fit=0, rendering=0)


def dump_rules(task: str) -> dict[str, int]:
    """Return the numbers of this version's rules for ``task``, as a release names them."""
    return asdict(RULES[task]) if task in RULES else {}


def parse_rules(task: str, plain: Mapping[str, int]) -> ReleaseRules:
    """Return the rules that a release of ``task`` names; of one that names none, what is known of them."""
    if plain:
        return ReleaseRules(*(plain.get(name, 0) for name in ("measurement", "fit", "rendering")))
    return _UNNUMBERED.get(task, _UNKNOWN)
