"""Answers: numbers with standard errors and intervals, and the reports they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siloquent.collect.spec.collection_spec import CollectionSpec
from siloquent.readable import Readable

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AggregateEstimate:
    """One number.

    Attributes:
        standard_error: Of noise and of the users' assignment to layers; not of a model, nor of bins cut by a range.
        low, high: The 95 % interval.
        reports: The number of reports it rests on.
        model_based: It relies on more than the reports: on an even spread within bins, or on maximum entropy.
    """

    value: float
    standard_error: float
    low: float
    high: float
    reports: int
    model_based: bool = False


MAX_SHOWN = 100


@dataclass(frozen=True, slots=True, repr=False)
class CollectAnswer(Readable):
    """The answer to one question: one row per group, one estimate per aggregate."""

    sql: str
    groups: tuple[str, ...]
    aggregates: tuple[str, ...]
    labels: tuple[tuple[Any, ...], ...]
    estimates: tuple[tuple[AggregateEstimate, ...], ...]
    users: int
    guarantee: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = []
        for label, row in zip(self.labels, self.estimates, strict=True):
            told = (
                f"{name} {one.value:,.4g} (at least {one.low:,.4g}, at most {one.high:,.4g})"
                for name, one in zip(self.aggregates, row, strict=True)
            )
            lines.append(f"{', '.join(map(str, label))}: {'; '.join(told)}".removeprefix(": "))
        shown = lines[:MAX_SHOWN] + ([f"{len(lines) - MAX_SHOWN:,} more rows"] if len(lines) > MAX_SHOWN else [])
        return "\n".join([*shown, "Each interval holds with probability 0.95.", self.guarantee, *self.notes])

    @property
    def value(self) -> float:
        """The number of an answer that has one."""
        return self.estimate.value

    @property
    def estimate(self) -> AggregateEstimate:
        """The first estimate: the only one of a question without groups."""
        return self.estimates[0][0]

    @property
    def columns(self) -> list[str]:
        """The names of ``rows``' columns."""
        parts = ("", "_error", "_low", "_high")
        return [*self.groups, *(f"{name}{part}" for name in self.aggregates for part in parts)]

    @property
    def rows(self) -> list[list[Any]]:
        """The answer as a table's rows."""
        return [
            [*label, *(x for one in row for x in (one.value, one.standard_error, one.low, one.high))]
            for label, row in zip(self.labels, self.estimates, strict=True)
        ]

    @property
    def table(self) -> pa.Table:
        """The answer as an Arrow table."""
        import pyarrow as pa

        return pa.table(
            {name: list(column) for name, column in zip(self.columns, zip(*self.rows, strict=True), strict=True)}
        )


def describe_guarantee(spec: CollectionSpec) -> str:
    """Return the guarantee for every user, in words."""
    over = "all services together" if len(spec.services) > 1 else f"the service {spec.services[0].name}"
    return (
        f"Local differential privacy, epsilon {spec.epsilon} for each user over {over} in epoch {spec.epoch}: whatever "
        "rows a user has, or none, everything that their devices sent is at most e^epsilon times as likely as with "
        "any other rows. Nobody holds true rows; asking costs nothing."
    )
