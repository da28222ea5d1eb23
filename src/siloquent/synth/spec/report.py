"""The numbers of the quality report of a synthetic table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 1


@dataclass(frozen=True, slots=True)
class ConstraintReport:
    """One constraint: its enforcement, and how often the output breaks it, counted in both directions and in one."""

    number: int
    text: str
    hard: bool
    kind: str
    how: str
    pairs: int | None = None
    one_way: int | None = None
    possible: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column: its groups with the noisy share of the rows, a 95 percent band, and the output's share."""

    name: str
    groups: tuple[str, ...]
    noisy: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    output: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PairReport:
    """Two columns: whether their joint was measured, and by how much (total variation) the model may be off.

    For a measured pair this is the effect of noise; for another, a bound that holds with probability 95 percent, or 1
    if its joint was too large to be chosen, so that nothing is known.
    """

    first: str
    second: str
    measured: bool
    off: float


@dataclass(frozen=True, slots=True)
class PaidFigure:
    """A figure about the truth that was bought, with its 95 percent interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class QualityReport:
    """All parts; ``known``: further notes for the reader, in sentences."""

    table: str
    rows: int
    total: int
    guarantee: str
    receipt: tuple[str, int, str]
    prices: tuple[tuple[str, float], ...]
    constraints: tuple[ConstraintReport, ...]
    columns: tuple[ColumnReport, ...]
    pairs: tuple[PairReport, ...]
    cliques: tuple[tuple[str, ...], ...]
    paid: tuple[PaidFigure, ...]
    known: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {"format": FORMAT, **asdict(self)}

    def to_json(self) -> str:
        """Return the numbers as one JSON document."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    @property
    def broken(self) -> int:
        """The number of hard constraints that the output breaks; always zero in a release."""
        return sum(bool(one.hard and one.pairs) for one in self.constraints)
